"""Detects whether an application is ASGI or WSGI."""

import inspect


def is_asgi(application: object) -> bool:
    """True if, as far as inspection tells, a call with three arguments returns a coroutine."""
    if inspect.isclass(application):
        # A class whose instances are awaited, called once for each request.
        return hasattr(application, "__await__")
    if inspect.iscoroutinefunction(application):
        return True
    call = getattr(application, "__call__", None)
    if inspect.iscoroutinefunction(call):
        return True
    try:
        parameters = inspect.signature(application).parameters.values()
    except (TypeError, ValueError):
        return False
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    required = [
        one for one in parameters if one.kind in kinds and one.default is inspect.Parameter.empty
    ]
    return len(required) == 3
