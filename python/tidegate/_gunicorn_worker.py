"""``gunicorn -k tidegate.Worker shop:app``: gunicorn's processes, Tidegate's connections.

gunicorn keeps its supervisor with its sockets, signals, files and hooks. Within a worker, sockets
are served by a thread of Rust, as they are by ``tidegate run``.
"""

import atexit
import json
import logging
import os
import select
import socket
import struct
import subprocess
import sys
import threading

from gunicorn.workers import base

from tidegate import _gunicorn, _gunicorn_settings, _lifespan, _serve, _tidegate, _worker
from tidegate._interface import is_asgi

# How often gunicorn is told that the worker is alive, in seconds.
_BEAT = 1.0
# gunicorn's exit code of a worker without which its supervisor ends too.
_BOOT_ERROR = 3


class Worker(base.Worker):
    """A worker class of gunicorn, for WSGI and ASGI applications."""

    _control: socket.socket | None = None
    _has_failed = False

    def _configure(self) -> dict:
        """The configuration that ``tidegate run`` makes of the same settings."""
        words, notes = _gunicorn_settings.words_of_worker(self.cfg.settings)
        for note in notes:
            self.log.warning("%s", note)
        words += [f"--bind={_serve.bind_of(listener)}" for listener in self.sockets]
        # The application is loaded by gunicorn: its name is only written.
        command = [sys.executable, "-P", "-m", "tidegate", "run", "gunicorn:app", "--print-config"]
        # gunicorn has read its file and its variables: what is in them is among its settings.
        command += ["-c", os.devnull]
        variables = {name: value for name, value in os.environ.items()
                     if name not in ("GUNICORN_CMD_ARGS", "WEB_CONCURRENCY", "PORT")
                     and not name.startswith("UVICORN_")}
        made = subprocess.run(
            [*command, *words], env=variables, capture_output=True, text=True, check=False)
        if made.returncode != 0:
            self.log.error("gunicorn's settings cannot be used: %s", made.stderr.strip())
            sys.exit(_BOOT_ERROR)
        return json.loads(made.stdout)["configuration"]

    def run(self) -> None:
        configuration = self._configure()
        # After SIGINT or SIGQUIT threads may still run Python, which cannot be stopped.
        atexit.register(self._leave)
        self._control, worker_end = socket.socketpair()
        worker = _serve.embedded(
            configuration,
            dict(zip(configuration["listeners"], self.sockets, strict=True)),
            worker_end,
            self.cfg.graceful_timeout,
        )
        reports = threading.Thread(target=self._watch, name="reports", daemon=True)
        reports.start()
        try:
            run = self._run_asgi if is_asgi(self.wsgi) else self._run_wsgi
            ended = run(worker)
        except (_lifespan.Failed, _worker.StartupError) as error:
            self.log.error("%s", error)
            self._drain()
            ended = self._has_failed = True
        worker.join()
        reports.join()
        if ended:
            atexit.unregister(self._leave)
        sys.exit(_BOOT_ERROR if self._has_failed else 0)

    def _run_asgi(self, worker: "_tidegate.Worker") -> bool:
        settings = {
            "root_path": self._setting("root_path", ""),
            "lifespan": self._setting("asgi_lifespan", "auto"),
        }
        loop = _worker.new_loop(self._setting("asgi_loop", "auto"))

        def beat() -> None:
            self._beat()
            loop.call_later(_BEAT, beat)

        loop.call_soon(beat)
        _worker.run_asgi(worker, self.wsgi, settings, loop)
        return True

    def _run_wsgi(self, worker: "_tidegate.Worker") -> bool:
        """Serves until the worker stops; returns whether all threads of the application ended."""
        settings = {
            "root_path": self._setting("root_path", ""),
            # An application that ran in one thread may rely on it.
            "threads": self.cfg.threads,
            "processes": self.cfg.workers,
        }
        application = _gunicorn.with_hooks(
            self, self.wsgi, self._hook("pre_request"), self._hook("post_request"))
        results = []

        def serve() -> None:
            try:
                results.append(_worker.run_wsgi(worker, application, settings))
            finally:
                os.write(self.PIPE[1], b"e")

        # Signals are handled by the main thread, which therefore runs no application.
        serving = threading.Thread(target=serve, name="wsgi", daemon=True)
        serving.start()
        while serving.is_alive():
            self._beat()
            # A signal writes to the pipe, as the end does.
            readable, _, _ = select.select([self.PIPE[0]], [], [], _BEAT)
            if readable:
                os.read(self.PIPE[0], 4096)
        return results == [True]

    def _hook(self, name: str):
        setting = self.cfg.settings[name]
        return setting.get() if setting.get() is not setting.default else None

    def _setting(self, name: str, default: str) -> str:
        """A setting that not every version of gunicorn has."""
        setting = self.cfg.settings.get(name)
        return (setting.get() if setting else None) or default

    def _beat(self) -> None:
        self.notify()
        if self.alive and os.getppid() != self.ppid:
            self.log.info("Parent changed, shutting down: %s", self)
            self.alive = False
        if not self.alive:
            self._drain()

    def _watch(self) -> None:
        """Reads the worker's reports, until it has ended."""
        reports = _serve.Reports()
        while data := self._control.recv(65536):
            for report in reports.take(data):
                if failed := report.get("failed"):
                    self._has_failed = True
                    self.log.error("%s", failed)
                if stats := report.get("stats"):
                    self._count(stats["requests"])

    def _count(self, requests: int) -> None:
        if requests >= self.max_requests and self.alive:
            self.log.info("Autorestarting worker after current requests.")
            self.alive = False
            self._drain()

    def _drain(self) -> None:
        """Ends accepting; requests in flight have gunicorn's ``graceful_timeout``."""
        if self._control is not None:
            try:
                self._control.shutdown(socket.SHUT_WR)
            except OSError:
                # The worker has ended by itself.
                pass

    def handle_usr1(self, sig, frame) -> None:
        super().handle_usr1(sig, frame)
        command = json.dumps({"reopen_logs": True}).encode()
        if self._control is not None:
            try:
                self._control.sendall(struct.pack("<I", len(command)) + command)
            except OSError:
                # The worker ends.
                pass

    def handle_exit(self, sig, frame) -> None:
        super().handle_exit(sig, frame)
        self._drain()

    @staticmethod
    def _leave() -> None:
        logging.shutdown()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)
