"""The warehouse's web server, for the demo: in a thread, on a port that is free."""

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

from django.core.servers.basehttp import (
    ThreadedWSGIServer,
    WSGIRequestHandler,
    get_internal_wsgi_application,
)


class QuietRequestHandler(WSGIRequestHandler):
    """Writes no line for each request."""

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name there
        pass


@contextlib.contextmanager
def serving() -> Iterator[str]:
    """Serve the project within the block; yield the address. It ends with the process."""
    server = ThreadedWSGIServer(("127.0.0.1", 0), QuietRequestHandler)
    server.daemon_threads = True
    server.set_app(get_internal_wsgi_application())
    thread = threading.Thread(target=server.serve_forever, name="warehouse", daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
