"""Server processes of one run: started, watched, measured, and always ended.

Owns every child of the run. Promises that whatever way the run ends (done, error, Ctrl-C,
SIGTERM) each child's whole process group is killed and the temporary directory is removed.
Never looks inside a server: what it knows comes from /proc and the socket.
"""

import atexit
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

START_SECONDS = 60.0
STOP_SECONDS = 3.0

_running = []
_directory = None


def directory():
    """The temporary directory of this run."""
    global _directory
    if _directory is None:
        _directory = tempfile.mkdtemp(prefix="tidegate-perf-")
    return _directory


def write(name, text):
    """Writes a file into the temporary directory and returns its path."""
    path = os.path.join(directory(), name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def free_port():
    """A port without a listener. Another process may take it first; then starting fails."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Failed(Exception):
    """What was started does not do what it should, or is not installed."""


class Server:
    """One server: a process group and the port it answers on."""

    def __init__(self, name, command, port):
        self.name = name
        self.port = port
        self.log = os.path.join(directory(), f"{name}-{port}.log")
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=directory(),
                start_new_session=True,
            )
        _running.append(self)
        self._wait_until_accepting()

    def _wait_until_accepting(self):
        deadline = time.monotonic() + START_SECONDS
        while True:
            if self.process.poll() is not None:
                raise RuntimeError(f"{self.name} ended at once:\n{self.said()}")
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                if time.monotonic() > deadline:
                    raise RuntimeError(f"{self.name} does not accept:\n{self.said()}") from None
                time.sleep(0.02)

    def said(self):
        """The end of what it wrote on its standard output and error."""
        with open(self.log, encoding="utf-8", errors="replace") as log:
            return log.read()[-4000:]

    def alive(self):
        return self.process.poll() is None

    def tree(self):
        """The process and its descendants, as far as they still run."""
        found, waiting = [], [self.process.pid]
        while waiting:
            pid = waiting.pop()
            found.append(pid)
            for task in _list(f"/proc/{pid}/task"):
                waiting += [int(c) for c in _read(f"/proc/{pid}/task/{task}/children").split()]
        return found

    def rss_bytes(self):
        """Resident memory of the tree. Pages shared between its processes count in each."""
        return memory_bytes(self.tree())

    def cpu_seconds(self):
        """What all tasks of the tree have run, to the nanosecond."""
        return cpu_seconds(self.tree())

    def signal(self, number):
        self.process.send_signal(number)

    def stop(self):
        """Ends the whole process group, with force if it has to be."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(self.process.pid, number)
            except ProcessLookupError:
                break
            try:
                self.process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                continue
        if self in _running:
            _running.remove(self)


def memory_bytes(processes, field="Rss"):
    """Memory of these processes, by a field of /proc/PID/smaps_rollup."""
    total = 0
    for pid in processes:
        for line in _read(f"/proc/{pid}/smaps_rollup").splitlines():
            if line.startswith(f"{field}:"):
                total += int(line.split()[1]) * 1024
    return total


def cpu_seconds(processes):
    """What all tasks of these processes have run, to the nanosecond."""
    total = 0
    for pid in processes:
        for task in _list(f"/proc/{pid}/task"):
            total += int((_read(f"/proc/{pid}/task/{task}/schedstat").split() or ["0"])[0])
    return total / 1e9


def _list(path):
    try:
        return os.listdir(path)
    except OSError:
        return []


def _read(path):
    try:
        with open(path, encoding="ascii") as file:
            return file.read()
    except OSError:
        return ""


def stop_all():
    """Ends every server and removes the temporary directory."""
    global _directory
    for server in list(_running):
        server.stop()
    if _directory is not None:
        shutil.rmtree(_directory, ignore_errors=True)
        _directory = None


def _interrupted(number, _frame):
    sys.exit(128 + number)


atexit.register(stop_all)
for _number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(_number, _interrupted)
