"""Settings of gunicorn as options of ``tidegate run``."""

import importlib
import os
import sys
from contextlib import contextmanager

#: Settings whose value becomes the value of an option.
OPTIONS = {
    "backlog": "--backlog",
    "workers": "--workers",
    "threads": "--threads",
    "worker_connections": "--worker-connections",
    "timeout": "--timeout",
    "graceful_timeout": "--graceful-timeout",
    "max_requests": "--max-requests",
    "max_requests_jitter": "--max-requests-jitter",
    "pidfile": "--pid",
    "proc_name": "--name",
    "accesslog": "--access-log",
    "errorlog": "--error-logfile",
    "access_log_format": "--access-log-format",
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
#: Settings with numbers that have other bounds here: the option, the bounds, and whether 0 is the
#: largest number.
BOUNDED = {
    "keepalive": ("--keep-alive", 1, 7 * 86400, False),
    "limit_request_line": ("--limit-request-line", 256, 65536, True),
    "limit_request_fields": ("--limit-request-fields", 8, 256, True),
}
#: Settings that mean nothing without another one.
NEEDED = {
    "proxy_allow_ips": "proxy_protocol",
    "max_requests_jitter": "max_requests",
    "reload_extra_files": "reload",
    "statsd_prefix": "statsd_host",
    "dogstatsd_tags": "statsd_host",
}
#: Settings that are converted below.
CONVERTED = {"wsgi_app", "chdir", "worker_class", "umask", "cert_reqs", "pythonpath", "loglevel"}
#: What the names of known worker classes begin with.
_WORKER_CLASSES = ("gunicorn.", "uvicorn", "tidegate.")
#: Settings that each worker reads from the file itself.
OF_WORKERS = {"logconfig_dict"}
#: Settings of connections and requests, which are not gunicorn's with ``-k tidegate.Worker``.
SETTINGS_OF_WORKERS = [
    "keepalive", "limit_request_line", "limit_request_fields", "accesslog", "access_log_format",
    "proxy_protocol", "proxy_allow_ips", "forwarded_allow_ips", "certfile", "keyfile", "ca_certs",
    "root_path", "websocket_max_message_size",
]
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


def options(path: str, values: dict, given: list[str]) -> tuple[list[str], list[str]]:
    """The settings of a file as words of a command line, and a note for each that is not the same
    here. ``given`` has the words of the command line and of ``GUNICORN_CMD_ARGS``."""
    words, notes = [], []
    for name, value in values.items():
        if name in NEEDED and not values.get(NEEDED[name]):
            needed = _given(NEEDED[name], given)
            if not needed:
                continue
            # Among the options of the file, because they are read by themselves.
            words.extend(word for word in needed if word not in words)
        found, note = _words(name, value)
        words.extend(found)
        if name in WITHOUT_COUNTERPART and value is not None and value is not False:
            note = WITHOUT_COUNTERPART[name]
        if note:
            notes.append(f"{path} has {name}: {note}")
    words.extend(_converted(values))
    return words, notes


def _given(name: str, given: list[str]) -> list[str]:
    """The option of a setting as the command line has it: one word, or none."""
    option = {**OPTIONS, **FLAGS}[name]
    for word, following in zip(given, [*given[1:], ""], strict=False):
        if word == option:
            return [option if name in FLAGS else f"{option}={following}"]
        if word.startswith(f"{option}="):
            return [word]
    return []


def _converted(values: dict) -> list[str]:
    words = []
    if (kind := values.get("worker_class")) is not None:
        with importing(values.get("chdir") or os.getcwd()):
            words.append(f"--worker-class={_worker_class(kind)}")
    if level := values.get("loglevel"):
        words.append(f"--log-level={level.lower()}")
    if (mask := values.get("umask")) is not None:
        words.append(f"--umask=0{mask:o}" if isinstance(mask, int) else f"--umask={mask}")
    if paths := values.get("pythonpath"):
        paths = [*paths.split(","), *filter(None, [os.environ.get("PYTHONPATH")])]
        words.append(f"--env=PYTHONPATH={os.pathsep.join(paths)}")
    if (required := values.get("cert_reqs")) is not None and values.get("certfile"):
        words.append(f"--ssl-cert-reqs={int(required)}")
    return words


@contextmanager
def importing(directory: str):
    """Modules of a directory can be imported within."""
    sys.path.insert(0, directory)
    try:
        yield
    finally:
        sys.path.remove(directory)


def listed(value: str | list[str]) -> list[str]:
    """A setting that is one text or several."""
    return [value] if isinstance(value, str) else value


def _words(name: str, value: object) -> tuple[list[str], str | None]:
    """A setting as words of a command line, and a note if they do not say the same."""
    if value is None:
        return [], None
    if name in OPTIONS:
        return [f"{OPTIONS[name]}={value}"], None
    if name in REPEATED:
        values = [_with_port(one) if name == "bind" else one for one in listed(value)]
        return [f"{REPEATED[name]}={one}" for one in values], None
    if name in BOUNDED:
        return _bounded(*BOUNDED[name], value)
    if name in FLAGS:
        word = str(value).strip().lower()
        if word not in ("", "0", "true", "false", "1"):
            return [f"{FLAGS[name]}={value}"], None
        return [FLAGS[name]] if word in ("true", "1") else [], None
    return [], None


def _with_port(bind: str) -> str:
    """An address as an option has it: gunicorn has a port for one without."""
    bind = bind.removeprefix("tcp://")
    has_host_only = bind.endswith("]") or not (":" in bind or bind.isdecimal())
    return f"{bind}:8000" if has_host_only else bind


def _bounded(
    option: str, least: int, most: int, zero_is_most: bool, value: object,
) -> tuple[list[str], str | None]:
    """An option with a number, within its bounds."""
    if not str(value).isdecimal():
        # The command line reports what is wrong.
        return [f"{option}={value}"], None
    wanted = most if zero_is_most and int(value) == 0 else int(value)
    bounded = min(max(wanted, least), most)
    return [f"{option}={bounded}"], None if bounded == int(value) else f"it is {bounded} here"


def _worker_class(kind: str | type) -> str:
    """The name of a worker class; of one of the application's own, that of gunicorn's, uvicorn's or
    Tidegate's which it extends."""
    if isinstance(kind, str) and "." in kind and not kind.startswith(_WORKER_CLASSES):
        module, _, name = kind.rpartition(".")
        try:
            kind = getattr(importlib.import_module(module), name)
        except Exception:
            # The command line reports what it does not know.
            return kind
    if isinstance(kind, str):
        return kind
    bases = [f"{base.__module__}.{base.__qualname__}" for base in kind.__mro__]
    # It has this name for users.
    bases = [base.replace("tidegate._gunicorn_worker.", "tidegate.") for base in bases]
    known = (base for base in bases if base.startswith(_WORKER_CLASSES))
    return next(known, bases[0])


def words_of_worker(settings: dict) -> tuple[list[str], list[str]]:
    """Those of gunicorn's settings that concern connections and requests, and a note for each that
    is not the same here; ``settings`` is its ``cfg.settings``."""
    words, notes = [], []
    for name in SETTINGS_OF_WORKERS:
        setting = settings.get(name)
        if setting is None or setting.get() == type(setting)().get():
            continue
        if name in NEEDED and not settings[NEEDED[name]].get():
            continue
        value = setting.get()
        joined = ",".join(map(str, value)) if isinstance(value, list | tuple) else value
        found, note = _words(name, joined)
        words.extend(found)
        if note:
            notes.append(f"{name}: {note}")
    if settings["certfile"].get():
        words.append(f"--ssl-cert-reqs={int(settings['cert_reqs'].get())}")
    return words, notes
