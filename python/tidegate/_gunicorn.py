"""gunicorn.conf.py: its settings as options of ``tidegate run``, and its hooks.

The file is Python, executed by the supervisor for the settings and its own hooks (``HOOKS``), and
by each worker for the other hooks. ``options`` names every setting that has no counterpart.
"""

import importlib
import logging.config
import os
import runpy
import shlex
import signal
import sys
from types import SimpleNamespace

from tidegate._log import logger

#: The file that is read without an option, as by gunicorn.
DEFAULT = "./gunicorn.conf.py"
#: Settings whose value becomes the value of an option.
OPTIONS = {
    "backlog": "--backlog",
    "workers": "--workers",
    "threads": "--threads",
    "worker_connections": "--worker-connections",
    "timeout": "--timeout",
    "graceful_timeout": "--graceful-timeout",
    "keepalive": "--keep-alive",
    "max_requests": "--max-requests",
    "max_requests_jitter": "--max-requests-jitter",
    "limit_request_line": "--limit-request-line",
    "limit_request_fields": "--limit-request-fields",
    "chdir": "--app-dir",
    "pidfile": "--pid",
    "proc_name": "--name",
    "accesslog": "--access-log",
    "errorlog": "--error-logfile",
    "access_log_format": "--access-log-format",
    "loglevel": "--log-level",
    "statsd_host": "--statsd-host",
    "statsd_prefix": "--statsd-prefix",
    "dogstatsd_tags": "--dogstatsd-tags",
    "logconfig": "--log-config",
    "logconfig_json": "--log-config",
    "user": "--user",
    "group": "--group",
    "proxy_allow_ips": "--proxy-allow-from",
    "forwarded_allow_ips": "--forwarded-allow-ips",
    "certfile": "--ssl-certfile",
    "keyfile": "--ssl-keyfile",
    "ca_certs": "--ssl-ca-certs",
    "asgi_loop": "--loop",
    "asgi_lifespan": "--lifespan",
    "websocket_max_message_size": "--ws-max-size",
    "root_path": "--root-path",
}
#: Settings with a list of values, each with an option of its own.
REPEATED = {"bind": "--bind", "raw_env": "--env", "reload_extra_files": "--reload-extra-file"}
#: Settings that are true or false.
FLAGS = {
    "reload": "--reload",
    "preload_app": "--preload",
    "proxy_protocol": "--proxy-protocol",
    "capture_output": "--capture-output",
}
#: Settings that are converted below.
CONVERTED = {"wsgi_app", "worker_class", "umask", "cert_reqs", "pythonpath"}
#: Settings that each worker reads from the file itself.
OF_WORKERS = {"logconfig_dict"}
#: Settings of connections and requests, which are not gunicorn's with ``-k tidegate.Worker``.
SETTINGS_OF_WORKERS = [
    "keepalive", "limit_request_line", "limit_request_fields", "accesslog", "access_log_format",
    "proxy_protocol", "proxy_allow_ips", "forwarded_allow_ips", "certfile", "keyfile", "ca_certs",
    "root_path", "websocket_max_message_size",
]
#: Hooks of the supervisor, and those of workers.
HOOKS = {
    "on_starting", "when_ready", "pre_fork", "child_exit", "nworkers_changed", "on_reload",
    "on_exit",
}
HOOKS_OF_WORKERS = {
    "post_fork", "post_worker_init", "pre_request", "post_request", "worker_int", "worker_abort",
    "worker_exit",
}
#: What else gunicorn knows, and why it does nothing here.
WITHOUT_COUNTERPART = {
    "worker_tmp_dir": "workers have no heartbeat files",
    "pre_exec": "a new version of the program is started by a service manager",
    "ssl_context": "TLS 1.2 and 1.3 are served with the ciphers that are safe today",
    "ciphers": "TLS 1.2 and 1.3 are served with the ciphers that are safe today",
    "ssl_version": "TLS 1.2 and 1.3 are served with the ciphers that are safe today",
    "do_handshake_on_connect": "handshakes never block a worker",
    "suppress_ragged_eofs": "a truncated connection is an error",
    "daemon": "the process stays in the foreground",
    "initgroups": "workers of another user have no supplementary groups: write group",
    "limit_request_field_size": "write --limit-headers for all header lines together",
    "disable_redirect_access_to_syslog": "there is no syslog",
    "logger_class": "write --log-config FILE",
    "syslog": "there is no syslog",
    "syslog_addr": "there is no syslog",
    "syslog_prefix": "there is no syslog",
    "syslog_facility": "there is no syslog",
    "enable_stdio_inheritance": "standard output and error are inherited",
    "default_proc_name": "write --name",
    "paste": "Paste Deploy is not supported",
    "raw_paste_global_conf": "Paste Deploy is not supported",
    "reload_engine": "changed files are noticed without polling",
    "reuse_port": "the workers share the listening sockets",
    "sendfile": "files are sent with sendfile where the system can",
    "spew": "use a profiler",
    "check_config": "write --check-config",
    "print_config": "write --print-config",
    "strip_header_spaces": "malformed requests are always rejected",
    "permit_obsolete_folding": "malformed requests are always rejected",
    "permit_unconventional_http_method": "malformed requests are always rejected",
    "permit_unconventional_http_version": "malformed requests are always rejected",
    "casefold_http_method": "malformed requests are always rejected",
    "secure_scheme_headers": "write --forwarded-allow-ips",
    "forwarder_headers": "malformed requests are always rejected",
    "header_map": "malformed requests are always rejected",
    "enable_backlog_metric": "write --admin ADDRESS for /metrics",
    "protocol": "let the proxy send HTTP",
    "uwsgi_allow_ips": "let the proxy send HTTP",
    "http_protocols": "HTTP/1.1 and HTTP/2 are served",
    "http2_cleartext": "HTTP/2 in the clear is served to clients with prior knowledge",
    "http2_max_concurrent_streams": "HTTP/2 has fixed bounds",
    "http2_initial_window_size": "HTTP/2 has fixed bounds",
    "http2_max_frame_size": "HTTP/2 has fixed bounds",
    "http2_max_header_list_size": "write --limit-headers",
    "http_parser": "there is one parser",
    "asgi_disconnect_grace_period": "an application is told at once that its client has gone",
    **dict.fromkeys(
        ["dirty_apps", "dirty_workers", "dirty_timeout", "dirty_threads", "dirty_graceful_timeout",
         "on_dirty_starting", "dirty_post_fork", "dirty_worker_init", "dirty_worker_exit"],
        "there are no dirty workers",
    ),
    "control_socket": "tidegate ctl has its own socket",
    "control_socket_mode": "tidegate ctl has its own socket",
    "control_socket_disable": "tidegate ctl has its own socket",
    "tmp_upload_dir": "request bodies above 256 KiB are in files without a name in $TMPDIR",
}


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
        sys.path.insert(0, os.getcwd())
        try:
            self.values = (vars(importlib.import_module(module)) if module
                           else runpy.run_path(self.path, run_name="__config__"))
        except BaseException as error:
            kind = type(error).__name__
            raise ConfigurationError(f"{path} cannot be executed: {kind}: {error}") from error
        finally:
            sys.path.remove(os.getcwd())
        #: What hooks read of ``server.cfg``: a setting that is not in the file is ``None``.
        self.cfg = _Settings(self.values)

    def configure_logging(self) -> None:
        """Applies ``logconfig_dict``, as gunicorn does."""
        if described := self.cfg.logconfig_dict:
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

    def options(self) -> tuple[list[str], list[str]]:
        """The settings as words of a command line, and a note for each that does nothing here."""
        words, notes = [], []
        for name, value in self.values.items():
            words.extend(_words(name, value))
            if name in WITHOUT_COUNTERPART and value is not None and value is not False:
                notes.append(f"{self.path} has {name}: {WITHOUT_COUNTERPART[name]}")
        words.extend(self._converted())
        return words, notes

    def _converted(self) -> list[str]:
        words = []
        if (kind := self.cfg.worker_class) is not None:
            if not isinstance(kind, str):
                kind = f"{kind.__module__}.{kind.__qualname__}"
            words.append(f"--worker-class={kind}")
        if (mask := self.cfg.umask) is not None:
            words.append(f"--umask=0{mask:o}" if isinstance(mask, int) else f"--umask={mask}")
        if paths := self.cfg.pythonpath:
            paths = [*paths.split(","), *filter(None, [os.environ.get("PYTHONPATH")])]
            words.append(f"--env=PYTHONPATH={os.pathsep.join(paths)}")
        if (required := self.cfg.cert_reqs) is not None and self.cfg.certfile:
            words.append(f"--ssl-cert-reqs={int(required)}")
        return words


def _words(name: str, value: object) -> list[str]:
    """A setting as words of a command line."""
    if value is None:
        return []
    if name in OPTIONS:
        return [f"{OPTIONS[name]}={value}"]
    if name in REPEATED:
        each = [value] if isinstance(value, str) else value
        return [f"{REPEATED[name]}={one}" for one in each]
    if name in FLAGS and isinstance(value, str):
        return [f"{FLAGS[name]}={value}"]
    return [FLAGS[name]] if name in FLAGS and value else []


def words_of_worker(settings: dict) -> list[str]:
    """Those of gunicorn's settings that concern connections and requests; ``settings`` is its
    ``cfg.settings``."""
    words = []
    for name in SETTINGS_OF_WORKERS:
        setting = settings.get(name)
        if setting is None or setting.get() == type(setting)().get():
            continue
        value = setting.get()
        joined = ",".join(map(str, value)) if isinstance(value, list | tuple) else value
        words.extend(_words(name, joined))
    if settings["certfile"].get():
        words.append(f"--ssl-cert-reqs={int(settings['cert_reqs'].get())}")
    return words


class _Settings:
    def __init__(self, values: dict) -> None:
        self.__dict__.update(values)

    def __getattr__(self, name: str):
        if name.startswith("__"):
            raise AttributeError(name)
        return None


class Supervisor:
    """The ``server`` of hooks: gunicorn's arbiter."""

    def __init__(self, configuration: Configuration) -> None:
        self.cfg = configuration.cfg
        self.log = logger
        self.pid = os.getpid()


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
        self._configuration = configuration
        self._server = Supervisor(configuration)
        self._server.pid = self.ppid

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
        start = _original("_thread", "start_new_thread")
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


def _original(module: str, name: str):
    """A function of the standard library, without a patch of gevent's."""
    if "gevent.monkey" in sys.modules:
        from gevent.monkey import get_original

        return get_original(module, name)
    return getattr(importlib.import_module(module), name)


def with_hooks(worker, application, before, after):
    """A WSGI application that calls ``pre_request`` and ``post_request``; each may be None."""
    if before is None and after is None:
        return application

    def called(environ, start_response):
        request, response = _request(environ), SimpleNamespace(status=None, headers=[])
        worker.nr += 1

        def start(status, headers, exc_info=None):
            response.status, response.headers = status, headers
            return start_response(status, headers, exc_info)

        if before is not None:
            before(worker, request)
        body = application(environ, start)
        if after is None:
            return body
        return _Body(body, lambda: after(worker, request, environ, response))

    return called


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
    path, query = environ.get("PATH_INFO", ""), environ.get("QUERY_STRING", "")
    fields = [(name[5:].replace("_", "-"), value) for name, value in environ.items()
              if name.startswith("HTTP_")]
    return SimpleNamespace(
        method=environ["REQUEST_METHOD"],
        path=path,
        query=query,
        uri=f"{path}?{query}" if query else path,
        headers=fields,
        remote_addr=(environ.get("REMOTE_ADDR", ""), environ.get("REMOTE_PORT", "")),
    )


def take(arguments: list[str]) -> tuple[list[str], Configuration | None]:
    """Removes ``-c FILE`` of ``run`` from a command line and from ``GUNICORN_CMD_ARGS``, and
    executes the file. Without the option that is ``./gunicorn.conf.py``, if there is one."""
    if arguments[:1] != ["run"] or any(word.endswith(".lua") for word in arguments):
        return arguments, None
    arguments, path = _without_file(arguments)
    try:
        others, other = _without_file(shlex.split(os.environ.get("GUNICORN_CMD_ARGS", "")))
    except ValueError:
        # The command line reports what is wrong with the variable.
        other = None
    if other is not None:
        # Workers and the command line read the variable without it.
        os.environ["GUNICORN_CMD_ARGS"] = shlex.join(others)
    path = path or other
    without = {"-h", "--help", "-i", "--interactive"}
    if path is None and os.path.isfile(DEFAULT) and not without & set(arguments):
        path = DEFAULT
        print(f"note: {path} is read; -c /dev/null reads none", file=sys.stderr)
    if path is None:
        return arguments, None
    configuration = Configuration(path)
    application = configuration.cfg.wsgi_app
    # The application of the command line wins; one has a colon, as no option's name has.
    if application and not any(_is_application(word) for word in arguments[1:]):
        arguments.append(application)
    return arguments, configuration


def _without_file(words: list[str]) -> tuple[list[str], str | None]:
    """A command line without the first ``-c FILE``, and its file."""
    for at, word in enumerate(words):
        rest = words[at + 1:]
        if word in ("-c", "--config") and rest:
            path, rest = rest[0], rest[1:]
        elif word.startswith("--config="):
            path = word.removeprefix("--config=")
        elif word.startswith("-c") and len(word) > 2:
            path = word[2:].removeprefix("=")
        else:
            continue
        return words[:at] + rest, path
    return words, None


def _is_application(word: str) -> bool:
    module, colon, name = word.partition(":")
    return bool(colon) and module.replace(".", "_").isidentifier() and name[:1].isidentifier()

