"""Listen to the queue's wakes until the input ends; nothing is claimed."""

import sys
import threading

import django

from .speech import say, wait_for_line


def main(alias: str) -> None:
    django.setup()
    from alkstore_django import Queue

    ended = threading.Event()
    with Queue("bench", using=alias).listen() as listener:

        def wait() -> None:
            while not ended.is_set():
                listener.wait(0.1)

        waiter = threading.Thread(target=wait)
        waiter.start()
        say("listening")
        wait_for_line()
        ended.set()
        waiter.join()


if __name__ == "__main__":
    main(sys.argv[1])
