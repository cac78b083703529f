"""Tidegate: one server for the whole way from the socket to your code.

The command `tidegate`, or `python -m tidegate`, is the way in; see `tidegate --help`.
"""

from tidegate import broadcast, cache
from tidegate._serve import serve, serving
from tidegate._tidegate import __version__

__all__ = ["__version__", "broadcast", "cache", "serve", "serving"]
