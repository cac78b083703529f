"""Tidegate: one server from socket to application.

Run the command `tidegate`, or `python -m tidegate`; see `tidegate --help`.
"""

import sysconfig

if sysconfig.get_config_var("Py_GIL_DISABLED"):
    raise ImportError(
        "tidegate does not support free-threaded builds of CPython (such as python3.13t) yet; "
        "use one that has the GIL, such as python3.13"
    )

from tidegate import _gevent  # noqa: E402

if _gevent.is_wanted():
    _gevent.patch()

from tidegate import broadcast, cache, http_cache  # noqa: E402
from tidegate._serve import serve, serving  # noqa: E402
from tidegate._tidegate import __version__  # noqa: E402

__all__ = ["__version__", "broadcast", "cache", "http_cache", "serve", "serving"]


def __getattr__(name: str):
    # gunicorn is imported only where it is the program.
    if name == "Worker":
        from tidegate._gunicorn_worker import Worker

        return Worker
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
