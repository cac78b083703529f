"""A preloader: imports the application once, and forks the workers from this process.

It starts no thread, because a fork copies only the thread that calls it. It is the parent of its
workers: it tells the supervisor their process ids and exit statuses, and waits for one only after
the supervisor has confirmed that it holds a descriptor of that process, so that no process id is
reused before. It ends when the supervisor has closed the control socket and no worker is left.

With ``--threads gevent`` the standard library is patched before the application is imported, so
this file has the original functions: the hub, if the application has made one, does not run here
after the import.
"""

import gc
import json
import os
import signal
import socket
import struct
import threading
import warnings
from pathlib import Path

from tidegate import _gevent, _tidegate, _worker
from tidegate._log import logger

#: Maximum size of a message; the supervisor's limit is the same.
FRAME_BYTES = 16 << 20
#: Maximum number of descriptors in a message: that of the system.
DESCRIPTORS = 253
#: Maximum number of threads that are named.
THREADS_NAMED = 16
#: Threads of Tidegate: each worker starts its own.
OWN_THREADS = {"store"}

# An application may patch these when it is imported.
_fork, _waitpid = (_gevent.original("os", name) for name in ("fork", "waitpid"))
_getsignal, _signal = (_gevent.original("signal", name) for name in ("getsignal", "signal"))
_poll, _POLLIN = (_gevent.original("select", name) for name in ("poll", "POLLIN"))
_Socket = _gevent.original("socket", "socket")


def main() -> int:
    """Runs this process, or the worker that it has become; returns the exit code."""
    specification = json.loads(os.environ.pop("TIDEGATE_PRELOAD"))
    control = Control(specification["control_fd"])
    supervisor = os.getppid()
    # The supervisor handles SIGINT of a terminal and stops its workers.
    _signal(signal.SIGINT, signal.SIG_IGN)
    try:
        if why := _tidegate.version_error(specification["version"]):
            raise _worker.StartupError(why)
        preloaded = load(specification, supervisor)
    except _worker.StartupError as error:
        control.send({"failed": str(error)})
        return 1
    except BaseException as error:
        logger.exception("the application ended with an error")
        control.send({"failed": f"{type(error).__name__}: {error}"})
        return 1
    # What exists now is not examined by the garbage collector, which would write to every object,
    # so that its pages stay shared.
    gc.collect()
    gc.freeze()
    worker = Preloader(control).run()
    if worker is None:
        return 0
    os.environ["TIDEGATE_WORKER"] = worker
    return _worker.main(preloaded)


def load(specification: dict, supervisor: int) -> _worker.Preloaded:
    """Imports the application, as a worker does."""
    settings, app = specification["python"], specification["app"]
    Path("/proc/self/comm").write_text(f"tg {app:.8} pre")
    if name := settings.get("name"):
        _tidegate.set_title(f"tidegate: preloader [{name}]")
    _worker.connect(specification["store"], app, settings)
    _worker.configure_logging(specification["log_format"], app, None, settings)
    configuration = _worker.gunicorn_configuration(settings)
    preloaded = _worker.Preloaded(_worker.load(settings), configuration, supervisor)
    if settings.get("threads") == "gevent":
        _gevent.end_threads()
    return preloaded


def other_threads() -> list[str]:
    """The names of the threads of the application besides the main one."""
    known = {thread.native_id: thread.name for thread in threading.enumerate()}
    names = []
    for task in Path("/proc/self/task").iterdir():
        number = int(task.name)
        if number == os.getpid():
            continue
        name = known.get(number) or (task / "comm").read_text().strip()
        if number in known or name not in OWN_THREADS:
            names.append(name)
    return sorted(names)[:THREADS_NAMED]


class Worker:
    """A worker that has not been waited for."""

    def __init__(self, process: int) -> None:
        #: It can be read when the process has ended.
        self.descriptor = os.pidfd_open(process)
        #: True if the supervisor has a descriptor of it too.
        self.is_held = False


class Preloader:
    """The loop of a preloader."""

    def __init__(self, control: "Control") -> None:
        self._control = control
        self._workers: dict[int, Worker] = {}
        #: The handlers of the application, for the workers.
        self._handlers = {}
        # The end of the control socket ends this process: workers need their parent.
        self._replace_handler(signal.SIGTERM, signal.SIG_IGN)
        # One of the application could wait for workers. gevent's is not known to Python: it stays,
        # and waits for no process while the hub does not run.
        if _getsignal(signal.SIGCHLD) not in (signal.SIG_DFL, None):
            self._replace_handler(signal.SIGCHLD, signal.SIG_DFL)

    def _replace_handler(self, number: int, handler: signal.Handlers) -> None:
        self._handlers[number] = _signal(number, handler)

    def run(self) -> str | None:
        """Forks workers as the supervisor wishes. In a worker it returns the specification of that;
        in the preloader it returns None at the end."""
        self._control.send({"ready": {"threads": other_threads()}})
        while self._control.is_open or self._workers:
            if self._wait() and (worker := self._obey(*self._control.receive())) is not None:
                return worker
            self._reap()
        return None

    def _wait(self) -> bool:
        """Waits for a command or the end of a worker; true if there is a command to read."""
        poll = _poll()
        if self._control.is_open:
            poll.register(self._control, _POLLIN)
        for worker in self._workers.values():
            if self._may_wait_for(worker):
                poll.register(worker.descriptor, _POLLIN)
        ready = [descriptor for descriptor, _ in poll.poll()]
        return self._control.is_open and self._control.fileno() in ready

    def _may_wait_for(self, worker: Worker) -> bool:
        return worker.is_held or not self._control.is_open

    def _obey(self, command: dict | None, descriptors: list[int]) -> str | None:
        """Carries out a command. In a worker it returns the specification of that."""
        if command is None:
            self._control.close()
        elif "fork" in command:
            return self._fork(command["fork"], descriptors)
        elif command.get("held") in self._workers:
            self._workers[command["held"]].is_held = True
        return None

    def _fork(self, command: dict, descriptors: list[int]) -> str | None:
        try:
            with warnings.catch_warnings():
                # Threads of the application are reported once, with their names.
                warnings.simplefilter("ignore", DeprecationWarning)
                process = _fork()
            # If it fails, the worker ends when the supervisor closes its control socket.
            worker = Worker(process) if process else None
        except OSError as error:
            reply = {"not_forked": {"request": command["request"], "why": str(error)}}
        else:
            if worker is None:
                return self._become_worker(command["spec"], descriptors)
            self._workers[process] = worker
            reply = {"forked": {"request": command["request"], "process": process}}
        for descriptor in descriptors:
            os.close(descriptor)
        self._control.send(reply)
        return None

    def _become_worker(self, text: str, descriptors: list[int]) -> str:
        """Drops what belongs to the preloader; returns the specification of the worker."""
        for number, handler in self._handlers.items():
            # None is a handler that was not set from Python.
            _signal(number, signal.SIG_DFL if handler is None else handler)
        self._control.close()
        for worker in self._workers.values():
            os.close(worker.descriptor)
        return with_descriptors(text, descriptors)

    def _reap(self) -> None:
        for process, worker in list(self._workers.items()):
            if not self._may_wait_for(worker):
                continue
            try:
                ended, status = _waitpid(process, os.WNOHANG)
            except ChildProcessError:
                # The application has waited for it.
                ended, status = process, None
            if ended:
                os.close(self._workers.pop(process).descriptor)
                self._control.send({"ended": {"process": process, "status": status}})


def with_descriptors(text: str, descriptors: list[int]) -> str:
    """The specification of a worker with the numbers that its descriptors have here, in their
    order: the control socket, the listening sockets, the counts of connections."""
    specification = json.loads(text)
    numbers = iter(descriptors)
    specification["control_fd"] = next(numbers)
    for listening in specification["listen"]:
        listening["fd"] = next(numbers)
    if specification["counts_fd"] is not None:
        specification["counts_fd"] = next(numbers)
    # Without spaces, as the supervisor writes it.
    return json.dumps(specification, separators=(",", ":"))


class Control:
    """The control socket: frames of a length (four bytes, little-endian) and a JSON object."""

    def __init__(self, descriptor: int) -> None:
        self._socket = _Socket(fileno=descriptor)
        self._socket.set_inheritable(False)
        self.is_open = True

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self.is_open = False
        self._socket.close()

    def send(self, message: dict) -> None:
        """Sends a message, unless the supervisor has ended."""
        if not self.is_open:
            return
        text = json.dumps(message).encode()
        try:
            self._socket.sendall(struct.pack("<I", len(text)) + text)
        except OSError:
            # The next read finds the end.
            pass

    def receive(self) -> tuple[dict | None, list[int]]:
        """The next message and its descriptors; None at the end, and after a malformed message."""
        try:
            # The descriptors come with the first byte, and every child inherits them until then.
            head, descriptors, _, _ = socket.recv_fds(self._socket, 4, DESCRIPTORS)
            length, = struct.unpack("<I", head + self._exactly(4 - len(head)))
            if length > FRAME_BYTES:
                raise ValueError("a message is too long")
            return json.loads(self._exactly(length)), descriptors
        except (OSError, EOFError, ValueError):
            return None, []

    def _exactly(self, length: int) -> bytes:
        parts = []
        while length:
            part = self._socket.recv(min(length, 1 << 20))
            if not part:
                raise EOFError
            parts.append(part)
            length -= len(part)
        return b"".join(parts)
