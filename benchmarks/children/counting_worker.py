"""Be an idle worker with the default options; say at each line how many statements it has sent."""

import os
import sys
import threading
from typing import Any

import django

from .speech import say, wait_for_line


def main(alias: str, poll_interval_s: float) -> None:
    django.setup()
    from alkstore_django import Queue, StopToken
    from alkstore_django.engines.base import Engine
    from alkstore_django.handlers import handlers_on
    from alkstore_django.models import Job
    from alkstore_django.worker.loop import Worker
    from alkstore_django.worker.options import WorkerOptions

    sent = 0
    executed = Engine._executed

    def counting(self: Engine, statement: str, values: dict[str, Any]) -> Any:
        nonlocal sent
        sent += 1
        return executed(self, statement, values)

    Engine._executed = counting  # type: ignore[method-assign]
    Queue("bench", using=alias).handler(lambda job: None)
    stop = StopToken()
    worker = Worker(
        Job.objects.db_manager(alias),
        list(handlers_on(alias).values()),
        WorkerOptions(poll_interval_s=poll_interval_s),
        stop=stop,
    )
    runner = threading.Thread(target=worker.run)
    runner.start()
    say(os.getpid())
    while wait_for_line():
        say(sent)
    stop.stop()
    runner.join()


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
