"""A server under test: a process on a free port, its log, its exit.

Owns the command line, of Tidegate and of the servers it is compared with, and reads the address
from the server's output. Promises that no process outlives its test. Never waits for time to pass:
it waits for lines of the log.

`TIDEGATE_SERVER_COMMAND` names another server (`python -m uvicorn`, `granian`, `gunicorn`); tests
that are known to fail on it are marked with `fails_on`. `TIDEGATE_TESTS_BEHIND=gateway` puts the
applications behind `tidegate up`.
"""

import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

from client import Client, request

HERE = Path(__file__).parent
# Modules that stand in for others in server processes.
SERVED = HERE / "served"
EXAMPLES = Path(os.environ.get("TIDEGATE_EXAMPLES", HERE.parent.parent / "examples" / "python"))
COMMAND = shlex.split(os.environ.get("TIDEGATE_SERVER_COMMAND", ""))
COMMAND = COMMAND or [sys.executable, "-m", "tidegate", "run"]
PEERS = ("uvicorn", "granian", "gunicorn", "hypercorn")
KIND = next((kind for kind in PEERS if any(kind in word for word in COMMAND)), "tidegate")
# A late Tidegate is slow; a late peer does not support the feature.
PATIENCE_S = float(os.environ.get("TIDEGATE_PATIENCE_S", 60 if KIND == "tidegate" else 8))
# The same applications behind `tidegate up`, in processes connected by frames.
IS_BEHIND_GATEWAY = KIND == "tidegate" and os.environ.get("TIDEGATE_TESTS_BEHIND") == "gateway"
LISTENING = re.compile(
    r"(?:name=web address=127\.0\.0\.1|https?://(?:127\.0\.0\.1|localhost|\[::1\])):(\d+)")
NOTE = re.compile(r"^@note (\S+) (.*)$")


def free_port():
    """Chooses a port, for peers that do not print the one the kernel chose."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def command(target, interface, port, options):
    """The command line that serves `target`. Options are those of Tidegate, with underscores."""
    if KIND == "tidegate":
        address = {} if "bind" in options else {"host": "127.0.0.1", "port": port}
        given = {**address, "app_dir": HERE, "interface": interface, "workers": 1, **options}
        flags = [f"--{name.replace('_', '-')}" + ("" if value is True else f"={value}")
                 for name, value in given.items() if value is not None]
        return [*COMMAND, target, *flags]
    if KIND == "granian":
        known = {"workers", "root_path", "factory"}
        names = {"root_path": "--url-path-prefix"}
        chosen = [f"{names.get(n, '--' + n)}={v}" for n, v in options.items() if n in known]
        address = ["--interface", interface, "--host", "127.0.0.1", "--port", str(port)]
        return [*COMMAND, *address, "--working-dir", str(HERE), *chosen, target]
    if KIND == "gunicorn":
        chosen = [f"--{n}={v}" for n, v in options.items() if n in {"workers", "timeout"}]
        worker = "asgi" if interface == "asgi" else "gthread"
        address = ["--bind", f"127.0.0.1:{port}", "--chdir", str(HERE), "--threads=4"]
        return [*COMMAND, "--worker-class", worker, *address, *chosen, target]
    if KIND == "hypercorn":
        prefix = "wsgi:" if interface == "wsgi" else ""
        return [*COMMAND, "--bind", f"127.0.0.1:{port}", prefix + target]
    kind = "wsgi" if interface == "wsgi" else "asgi3"
    names = {"graceful_timeout": "--timeout-graceful-shutdown"}
    known = {"workers", "root_path", "graceful_timeout", "lifespan"}
    chosen = [f"{names.get(n, '--' + n.replace('_', '-'))}={v}" for n, v in options.items()
              if n in known]
    address = ["--port", str(port), "--app-dir", str(HERE), "--interface", kind]
    return [*COMMAND, *address, *chosen, target]


def gateway(target, interface, options):
    """The command line of a gateway with one application; options are those of `run`."""
    app = {"python": target, "interface": interface, "dir": str(options.get("app_dir", HERE))}
    names = ("workers", "root_path", "lifespan", "threads", "factory", "preload")
    app.update((name, options[name]) for name in names if name in options)
    limits = ("max_requests", "max_requests_jitter", "max_rss")
    app["limits"] = {name: options[name] for name in limits if name in options}
    times = {"timeout": "stuck", "graceful_timeout": "graceful"}
    app["timeouts"] = {times[n]: f"{v}s" for n, v in options.items() if n in times}
    if unknown := set(options) - {*names, *limits, *times, "app_dir", "configuration"}:
        pytest.skip(f"a gateway does not support {', '.join(unknown)}")
    directory = tempfile.mkdtemp(prefix="gateway-")
    config = {
        "listeners": {"web": {"bind": "127.0.0.1:0"}},
        "apps": {"main": app},
        "routes": [{"name": "all", "match": {"path": "/{*rest}"}, "handler": {"app": "main"}}],
        **options.get("configuration", {}),
    }
    file = Path(directory, "tidegate.yaml")
    file.write_text(json.dumps(config))
    return [*COMMAND[:-1], "up", str(file)], directory


def serve(target, interface="asgi", environment=None, **options):
    """A server that serves `target`; `app_dir` is this directory by default."""
    if IS_BEHIND_GATEWAY:
        return serve_behind_gateway(target, interface, environment, **options)
    port = free_port() if KIND in ("granian", "gunicorn", "hypercorn") else 0
    return Server(command(target, interface, port, options), environment)


def serve_behind_gateway(target, interface="asgi", environment=None, **options):
    """A gateway that serves `target`; `configuration` is merged into its own."""
    arguments, directory = gateway(target, interface, options)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    variables = {"PATH": path, "XDG_RUNTIME_DIR": directory, **(environment or {})}
    return Server(arguments, variables, directory)


def serve_embedded(target, **options):
    """A program that serves `target` itself; options are those of `tidegate.serving`."""
    module, _, name = target.partition(":")
    program = f"""
import asyncio, {module}, tidegate
async def main():
    async with tidegate.serving({module}.{name}, port=0, **{options!r}) as server:
        print(server.url, flush=True)
        await asyncio.Event().wait()
asyncio.run(main())
"""
    return Server([sys.executable, "-c", program])


class Server:
    """One server process and its children."""

    def __init__(self, arguments, environment=None, directory=None):
        self.port = None
        self.directory = directory
        self._lines = []
        self._noted = {}
        self._changed = threading.Condition()
        self._ended = False
        paths = [str(HERE), str(SERVED), *filter(None, [os.environ.get("PYTHONPATH")])]
        variables = {**os.environ, "PYTHONPATH": os.pathsep.join(paths),
                     "PYTHONUNBUFFERED": "1", **(environment or {})}
        self.process = subprocess.Popen(
            arguments, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, env=variables, cwd=HERE, start_new_session=True)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self.process.stdout:
            text = line.decode("utf-8", "replace").rstrip("\n")
            with self._changed:
                note = NOTE.match(text)
                if note:
                    self._noted.setdefault(note[1], []).append(json.loads(note[2]))
                else:
                    self._lines.append(text)
                self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def _wait(self, found, what):
        """Waits until `found`, called with the lock held, returns a value; returns that value."""
        end = time.monotonic() + PATIENCE_S
        with self._changed:
            while True:
                result = found()
                if result is not None:
                    return result
                left = end - time.monotonic()
                if self._ended or left <= 0:
                    state = "ended" if self._ended else "still runs"
                    log = "\n".join(self._lines[-80:])
                    raise AssertionError(f"no {what}; the server {state}:\n{log}")
                self._changed.wait(left)

    def ready(self):
        """Waits until the server has printed its address and accepts connections."""
        def found():
            return next((int(m[1]) for m in map(LISTENING.search, self._lines) if m), None)
        self.port = self._wait(found, "address")
        if self.directory:
            self.serves("main")
        if KIND != "tidegate":
            self._wait_for_connect()
        return self

    def _wait_for_connect(self):
        """Peers print their address before they listen there."""
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                time.sleep(0.05)
        raise AssertionError(f"no server listens at {self.port}: {self.log()}")

    def serves(self, *apps):
        """Waits until applications of a gateway are ready: a request waits 10 s for one that
        starts, which takes longer on a busy machine."""
        for app in apps:
            self.line(rf"a worker process is ready app={app}\b")

    def line(self, pattern, count=1):
        """Waits for `count` lines of the log that the pattern matches; returns the last match."""
        expression = re.compile(pattern)

        def found():
            matches = [match for match in map(expression.search, self._lines) if match]
            return matches[count - 1] if len(matches) >= count else None
        return self._wait(found, f"{count} lines like {pattern!r}")

    def note(self, key):
        """Waits for the next note under `key` (see stage.note)."""
        def found():
            notes = self._noted.get(key)
            return (notes.pop(0),) if notes else None
        return self._wait(found, f"note {key!r}")[0]

    def notes(self, key):
        """Removes and returns the notes under `key`, without waiting."""
        with self._changed:
            return self._noted.pop(key, [])

    def log(self):
        with self._changed:
            return "\n".join(self._lines)

    def connect(self):
        return Client(self.port, patience_s=PATIENCE_S)

    def ask(self, method, target, headers=(), body=None):
        """Sends one request on its own connection; returns the complete response."""
        with self.connect() as client:
            client.send(request(method, target, headers, body))
            return client.response(method)

    def get(self, target, headers=()):
        return self.ask("GET", target, headers)

    def workers(self):
        """The process IDs of the children."""
        supervisor = self.process.pid
        return Path(f"/proc/{supervisor}/task/{supervisor}/children").read_text().split()

    def signal(self, number):
        os.kill(self.process.pid, number)

    def wait(self):
        """Waits for the exit; returns the exit code. All output has been read then."""
        code = self.process.wait(PATIENCE_S)
        self._reader.join(PATIENCE_S)
        return code

    def stop(self):
        """Terminates the server, by force if necessary."""
        if self.process.poll() is None:
            self.signal(signal.SIGTERM)
            try:
                self.process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                pass
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        self._reader.join(PATIENCE_S)
        self.process.stdout.close()
        if self.directory:
            shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
