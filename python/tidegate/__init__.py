"""Tidegate: one server from socket to application.

Run the command `tidegate`, or `python -m tidegate`; see `tidegate --help`.
"""

import importlib
import sysconfig

if sysconfig.get_config_var("Py_GIL_DISABLED"):
    raise ImportError(
        "tidegate does not support free-threaded builds of CPython (such as python3.13t) yet; "
        "use one that has the GIL, such as python3.13"
    )

from tidegate import _gevent  # noqa: E402

if _gevent.is_wanted():
    _gevent.patch()

from tidegate._tidegate import __version__  # noqa: E402

# As type checkers know it: the module `typing` takes time to import.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from tidegate import broadcast, cache, http_cache
    from tidegate._gunicorn_worker import Worker as Worker
    from tidegate._serve import serve, serving

__all__ = ["__version__", "broadcast", "cache", "http_cache", "serve", "serving"]


def __getattr__(name: str):
    # Imported where they are used: the command and the supervisor of workers use none of them, and
    # asyncio, which they import, takes longer than all else.
    if name in ("broadcast", "cache", "http_cache"):
        return importlib.import_module(f"tidegate.{name}")
    if name in ("serve", "serving"):
        from tidegate import _serve

        return getattr(_serve, name)
    # gunicorn is imported only where it is the program.
    if name == "Worker":
        from tidegate._gunicorn_worker import Worker

        return Worker
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
