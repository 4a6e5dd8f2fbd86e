"""Handlers that count how many of their queue run at once; so many wait for each other."""

import asyncio
import threading

WAIT_S = 20


class Watched:
    """One in threads."""

    def __init__(self, queue, together):
        self.most = self.running = self.done = 0
        self._lock = threading.Lock()
        self._together = threading.Barrier(together, timeout=WAIT_S)
        queue.handler(self.handle)

    def handle(self, job):
        with self._lock:
            self.running += 1
            self.most = max(self.most, self.running)
        self._together.wait()
        with self._lock:
            self.running -= 1
            self.done += 1


class WatchedOnLoop:
    """One on the event loop."""

    def __init__(self, queue, together):
        self.most = self.running = 0
        self._together = asyncio.Barrier(together)

        @queue.handler
        async def handle(job):
            self.running += 1
            self.most = max(self.most, self.running)
            async with asyncio.timeout(WAIT_S):
                await self._together.wait()
            self.running -= 1
