"""gunicorn.conf.py: its settings as options of ``tidegate run``, and its hooks.

The file is Python, executed by the supervisor for the settings and its own hooks (``HOOKS``), and
by each worker for the other hooks. ``options`` names every setting that has no counterpart.
"""

import importlib
import inspect
import os
import runpy
import shlex
import signal
import sys
from types import SimpleNamespace

from tidegate import _gevent, _gunicorn_settings
from tidegate._log import logger

#: The file that is read without an option, as by gunicorn.
DEFAULT = "./gunicorn.conf.py"
#: Hooks of the supervisor, and those of workers.
HOOKS = {
    "on_starting", "when_ready", "pre_fork", "child_exit", "nworkers_changed", "on_reload",
    "on_exit",
}
HOOKS_OF_WORKERS = {
    "post_fork", "post_worker_init", "pre_request", "post_request", "worker_int", "worker_abort",
    "worker_exit",
}
#: Options of ``run`` that are followed by no value.
WITHOUT_VALUE = {
    "--capture-output", "--check-config", "--dev-tls", "--factory", "--no-proxy-headers",
    "--preload", "--preload-app", "--print-config", "--proxy-headers", "--proxy-protocol",
    "--cpu-affinity", "--debug-wait", "--reload", "--",
}
#: What hooks read of a setting that is not in the file: a default of gunicorn's and of ours.
DEFAULTS = {"bind": ["127.0.0.1:8000"], "workers": 1, "threads": 1, "timeout": 30,
            "graceful_timeout": 30, "max_requests": 0, "loglevel": "info"}


class ConfigurationError(Exception):
    """The file cannot be used; the text is shown to the operator."""


class Configuration:
    """A gunicorn.conf.py that has been executed."""

    def __init__(self, path: str) -> None:
        # gunicorn has these forms too.
        path = path.removeprefix("file:")
        module = path.removeprefix("python:") if path.startswith("python:") else None
        self.path = path if module else os.path.abspath(path)
        if not module and (os.path.isdir(self.path) or not os.path.exists(self.path)):
            raise ConfigurationError(f"there is no file {path}")
        # As in gunicorn, also for hooks, which import when they are called.
        _import_from(os.getcwd(), 0)
        if not module:
            # With --chdir a worker executes the file in another directory.
            _import_from(os.path.dirname(self.path), len(sys.path))
        try:
            self.values = (vars(importlib.import_module(module)) if module
                           else runpy.run_path(self.path, run_name="__config__"))
        except BaseException as error:
            kind = type(error).__name__
            raise ConfigurationError(f"{path} cannot be executed: {kind}: {error}") from error
        #: What hooks read of ``server.cfg``: a setting that is not in the file is ``None``, unless
        #: it is one of ``DEFAULTS``.
        self.cfg = _Settings(self.values)

    def configure_logging(self) -> None:
        """Applies ``logconfig_dict``, as gunicorn does."""
        if described := self.cfg.logconfig_dict:
            # The supervisor does not need it.
            import logging.config

            try:
                logging.config.dictConfig({"version": 1, "disable_existing_loggers": False,
                                           **described})
            except Exception as error:
                reason = f"{error}: {error.__cause__}" if error.__cause__ else error
                raise ConfigurationError(f"logconfig_dict is invalid: {reason}") from None

    def has(self, hook: str) -> bool:
        return callable(self.values.get(hook))

    def call(self, hook: str, *arguments) -> None:
        """Calls a hook, if the file has it. What it raises ends the process, as in gunicorn."""
        if self.has(hook):
            self.values[hook](*arguments)

    def options(self, arguments: list[str]) -> tuple[list[str], list[str]]:
        """The settings as words of a command line, and a note for each that does nothing here.
        ``arguments`` is the command line without the file."""
        given = [*arguments, *_words_of_variable()]
        return _gunicorn_settings.options(self.path, self.values, given)


def _import_from(directory: str, at: int) -> None:
    """Lets modules of a directory be imported in this process."""
    if directory not in sys.path:
        sys.path.insert(at, directory)


class _Settings:
    def __init__(self, values: dict) -> None:
        self.__dict__.update(values)

    def __getattr__(self, name: str):
        if name.startswith("__"):
            raise AttributeError(name)
        return DEFAULTS.get(name)


class Supervisor:
    """The ``server`` of hooks: gunicorn's arbiter."""

    def __init__(self, configuration: Configuration) -> None:
        self.cfg = configuration.cfg
        self.log = logger
        self.pid = os.getpid()
        self.address = [_address(bind) for bind in _gunicorn_settings.listed(self.cfg.bind)]
        self.num_workers = self.cfg.workers
        self.timeout = self.cfg.timeout
        self.proc_name = self.cfg.proc_name


def _address(bind: str) -> str | tuple[str, int]:
    """An address in gunicorn's form: the path of a Unix socket, or a host and a port."""
    if bind.startswith("unix:"):
        return bind.removeprefix("unix:")
    host, _, port = bind.rpartition(":")
    return (host, int(port)) if port.isdecimal() else (bind, 8000)


class WorkerProcess:
    """The ``worker`` of the supervisor's hooks."""

    def __init__(self, configuration: Configuration, slot: int, pid: int | str) -> None:
        self.cfg = configuration.cfg
        self.log = logger
        self.age = slot
        self.pid = pid
        self.ppid = os.getpid()


class Worker:
    """The ``worker`` of hooks, and the calls of these around an application."""

    def __init__(self, configuration: Configuration, age: int, supervisor: int) -> None:
        self.cfg = configuration.cfg
        self.log = logger
        self.age = age
        self.pid = os.getpid()
        self.ppid = supervisor
        self.nr = 0
        self._alive = True
        self._configuration = configuration
        self._server = Supervisor(configuration)
        self._server.pid = self.ppid

    @property
    def alive(self) -> bool:
        """A hook that sets it to False ends the worker after the requests in flight, and the
        supervisor starts another one."""
        return self._alive

    @alive.setter
    def alive(self, alive: bool) -> None:
        if self._alive and not alive:
            self._alive = False
            os.kill(self.pid, signal.SIGTERM)

    def before_import(self) -> None:
        self._configuration.call("post_fork", self._server, self)

    def after_import(self) -> None:
        self._configuration.call("post_worker_init", self)

    def watch_abort(self) -> None:
        """Calls ``worker_abort`` on SIGABRT, which a worker gets that does not respond. Also if the
        main thread is blocked: the signal is blocked in all threads, and one waits for it."""
        if not self._configuration.has("worker_abort"):
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGABRT})
            return
        # A thread of its own in a process with greenlets too.
        start = _gevent.original("_thread", "start_new_thread")
        start(self._await_abort, ())

    def _await_abort(self) -> None:
        signal.sigwait({signal.SIGABRT})
        try:
            self._configuration.call("worker_abort", self)
        except Exception:
            self.log.exception("the hook worker_abort failed")
        finally:
            os._exit(1)

    def at_exit(self, is_interrupted: bool) -> None:
        if is_interrupted:
            self._configuration.call("worker_int", self)
        self._configuration.call("worker_exit", self._server, self)

    def around(self, application):
        """A WSGI application that calls the hooks of requests, if there are any."""
        values = self._configuration.values
        hooks = [values.get(name) for name in ("pre_request", "post_request")]
        return with_hooks(self, application, *(hook if callable(hook) else None for hook in hooks))


def with_hooks(worker, application, before, after):
    """A WSGI application that calls ``pre_request`` and ``post_request``; each may be None."""
    if before is None and after is None:
        return application
    if after is not None:
        after = _with_four_parameters(after)

    def called(environ, start_response):
        request = _request(environ)
        response = SimpleNamespace(status=None, status_code=None, headers=[])
        worker.nr += 1

        def start(status, headers, exc_info=None):
            write = start_response(status, headers, exc_info)
            response.status, response.headers = status, headers
            response.status_code = int(status[:3])
            return write

        def ended() -> None:
            if after is None:
                return
            try:
                after(worker, request, environ, response)
            except Exception:
                # The request has ended already: as in gunicorn.
                worker.log.exception("the hook post_request failed")

        if before is not None:
            before(worker, request)
        try:
            body = application(environ, start)
        except BaseException:
            ended()
            raise
        return body if after is None else _Body(body, ended)

    return called


def _with_four_parameters(hook):
    """A hook ``post_request``; gunicorn allows it to have two or three parameters as well."""
    taken = [one for one in inspect.signature(hook).parameters.values()
             if one.kind <= one.POSITIONAL_OR_KEYWORD]
    return lambda *arguments: hook(*arguments[:len(taken) or None])


class _Body:
    """A response body that calls a function once it is closed."""

    def __init__(self, body, closed) -> None:
        self._body = body
        self._closed = closed

    def __iter__(self):
        return iter(self._body)

    def close(self) -> None:
        try:
            if hasattr(self._body, "close"):
                self._body.close()
        finally:
            self._closed()


def _request(environ: dict) -> SimpleNamespace:
    """The ``req`` of hooks: what they read of it for logs and measurements."""
    fields = [(name.removeprefix("HTTP_").replace("_", "-"), value)
              for name, value in environ.items()
              if name.startswith("HTTP_") or name in ("CONTENT_TYPE", "CONTENT_LENGTH")]
    return SimpleNamespace(
        method=environ["REQUEST_METHOD"],
        # As they were sent, and below the mount point.
        path=environ["RAW_URI"].partition("?")[0],
        query=environ["QUERY_STRING"],
        uri=environ["RAW_URI"],
        headers=fields,
        remote_addr=(environ.get("REMOTE_ADDR", ""), environ.get("REMOTE_PORT", "")),
    )


def take(arguments: list[str]) -> tuple[list[str], Configuration | None]:
    """Removes ``-c FILE`` of ``run`` from a command line and from ``GUNICORN_CMD_ARGS``, and
    executes the file. Without the option that is ``./gunicorn.conf.py``, if there is one."""
    if not _is_python(arguments):
        return arguments, None
    arguments, path = _taken(arguments, "--config", "-c")
    without = {"-h", "--help", "-i", "--interactive"}
    if path is None and os.path.isfile(DEFAULT) and not without & set(arguments):
        path = DEFAULT
        print(f"note: {path} is read; -c /dev/null reads none", file=sys.stderr)
    if path is None:
        return arguments, None
    configuration = Configuration(path)
    application = configuration.cfg.wsgi_app
    # The application of the command line wins.
    if application and not _has_application(arguments[1:]):
        # gunicorn's name for it, where the setting has a module only.
        arguments.append(application if ":" in application else f"{application}:application")
    return arguments, configuration


def take_directory(
    arguments: list[str],
    configuration: Configuration | None,
) -> tuple[list[str], str | None]:
    """Removes ``--chdir DIR`` of ``run`` from a command line and from ``GUNICORN_CMD_ARGS``. As in
    gunicorn, other relative paths are relative to it, except that of the file."""
    if not _is_python(arguments):
        return arguments, None
    arguments, directory = _taken(arguments, "--chdir")
    if directory is None and configuration is not None:
        directory = configuration.cfg.chdir
    if directory is not None and not os.path.isdir(directory):
        raise ConfigurationError(f"--chdir: {directory} is not a directory")
    return arguments, directory


def _is_python(arguments: list[str]) -> bool:
    """True for ``run`` with an application of Python."""
    return arguments[:1] == ["run"] and not any(word.endswith(".lua") for word in arguments)


def _taken(arguments: list[str], *names: str) -> tuple[list[str], str | None]:
    """A command line without an option that has these names, and its value there or in
    ``GUNICORN_CMD_ARGS``, which is left without it: the command line and workers read it too."""
    arguments, value = _without(arguments, *names)
    others, other = _without(_words_of_variable(), *names)
    if other is not None:
        os.environ["GUNICORN_CMD_ARGS"] = shlex.join(others)
    return arguments, value or other


def _words_of_variable() -> list[str]:
    """The words of ``GUNICORN_CMD_ARGS``; none if it is invalid, which the command line reports."""
    try:
        return shlex.split(os.environ.get("GUNICORN_CMD_ARGS", ""))
    except ValueError:
        return []


def _without(words: list[str], long: str, short: str = "") -> tuple[list[str], str | None]:
    """A command line without the first of an option, and its value."""
    for at, word in enumerate(words):
        rest = words[at + 1:]
        if word in (long, short) and rest:
            value, rest = rest[0], rest[1:]
        elif word.startswith(f"{long}="):
            value = word.removeprefix(f"{long}=")
        elif short and word.startswith(short) and len(word) > 2:
            value = word[2:].removeprefix("=")
        else:
            continue
        return words[:at] + rest, value
    return words, None


def _has_application(words: list[str]) -> bool:
    """True if a word of a command line is an application, and not the value of an option, such as
    ``--bind unix:shop.sock``."""
    for before, word in zip(["", *words], words, strict=False):
        module, colon, name = word.partition(":")
        if (colon and not _takes_next(before) and module.replace(".", "_").isidentifier()
                and name[:1].isidentifier()):
            return True
    return False


def _takes_next(word: str) -> bool:
    """True if a word of a command line is an option whose value is the next word."""
    if word.startswith("--"):
        return "=" not in word and word not in WITHOUT_VALUE
    # The value of a short one may follow its letter, as in `-w4`.
    return len(word) == 2 and word[0] == "-"

