"""Signals of the operating system set stop tokens, and do nothing else."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType

from ..core.stop import StopToken

# Those that exist on this platform; SIGBREAK is Windows' console close.
_NAMES = ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGBREAK")


@contextlib.contextmanager
def stop_on_signals(stop: StopToken, stop_now: StopToken) -> Iterator[None]:
    """Let the first signal ask for a stop, and the second for one without a grace period.

    Only the main thread may install signal handlers; in any other this does nothing, and the
    process's own arrangements stand. What was installed before is put back at the end. A
    hang-up that the process was told to ignore (``nohup``) stays ignored; SIGINT does not,
    which shells ignore for what they start in the background.
    """

    def asked(number: int, frame: FrameType | None) -> None:
        if stop.stopped:
            stop_now.stop()
        stop.stop()

    before = {}
    if threading.current_thread() is threading.main_thread():
        for name in _NAMES:
            number = getattr(signal, name, None)
            if number is not None and not (name == "SIGHUP" and _is_ignored(number)):
                before[number] = signal.signal(number, asked)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _is_ignored(number: int) -> bool:
    return signal.getsignal(number) is signal.SIG_IGN
