"""Being told by the kernel that a database's files were written to: inotify, where there is one."""

from __future__ import annotations

import ctypes
import os
import select
import struct
import sys
import time

_IN_MODIFY = 0x2
_IN_MOVED_TO = 0x80
_IN_CREATE = 0x100
_HEADER = struct.Struct("iIII")
_SUFFIXES = ("", "-wal", "-journal")


class FileEvents:
    """Tells of writes to a database file and its companions.

    It watches their folder, since SQLite makes and deletes the companions. Where the kernel
    offers nothing of the kind, or refuses, ``available`` is False and ``wait`` only waits.
    """

    def __init__(self, file: str) -> None:
        folder, name = os.path.split(os.path.abspath(file))
        self._names = {os.fsencode(name + suffix) for suffix in _SUFFIXES}
        self._descriptor = _watched(folder)

    @property
    def available(self) -> bool:
        """Whether the kernel tells of writes at all."""
        return self._descriptor is not None

    def wait(self, timeout: float) -> bool:
        """Wait for a write or the end of time; True for a write."""
        if self._descriptor is None:
            time.sleep(timeout)
            return False
        poll = select.poll()  # select knows no descriptor beyond 1023
        poll.register(self._descriptor, select.POLLIN)
        return bool(poll.poll(timeout * 1000)) and self._is_ours(os.read(self._descriptor, 65536))

    def close(self) -> None:
        """Give the descriptor back."""
        if self._descriptor is not None:
            os.close(self._descriptor)

    def _is_ours(self, events: bytes) -> bool:
        position = 0
        while position < len(events):
            _, _, _, length = _HEADER.unpack_from(events, position)
            position += _HEADER.size
            if events[position : position + length].rstrip(b"\0") in self._names:
                return True
            position += length
        return False


def _watched(folder: str) -> int | None:
    """Return an inotify descriptor that watches the folder, or None."""
    if not sys.platform.startswith("linux"):
        return None
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor: int = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    if descriptor < 0:
        return None  # too many watchers on this machine
    mask = _IN_MODIFY | _IN_MOVED_TO | _IN_CREATE
    if libc.inotify_add_watch(descriptor, os.fsencode(folder), mask) < 0:
        os.close(descriptor)
        return None
    return descriptor
