"""Stands in for pytest in server processes.

Applications under test are in the test modules, next to their tests. pytest itself would take most
of the time that a server needs to import them.
"""

import importlib


class _Ignored:
    """A mark, a fixture or what they make: a decorator that changes nothing."""

    def __call__(self, *arguments, **options):
        is_decorator = len(arguments) == 1 and callable(arguments[0]) and not options
        return arguments[0] if is_decorator else self

    def __getattr__(self, name):
        return self


mark = fixture = skip = param = hookimpl = raises = _Ignored()


def importorskip(name):
    return importlib.import_module(name)
