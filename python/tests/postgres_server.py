"""A PostgreSQL server on a Unix socket, for tests."""

import os
import pwd
import shutil
import signal
import subprocess
import time
from pathlib import Path


def _programs() -> Path | None:
    """The directory of the server's programs, which Debian has in no directory of PATH."""
    found = shutil.which("initdb")
    if found:
        return Path(found).resolve().parent
    return next(iter(sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)), None)


def _user() -> pwd.struct_passwd | None:
    """PostgreSQL does not run as root: the user that its package makes."""
    try:
        return pwd.getpwnam("postgres") if os.geteuid() == 0 else None
    except KeyError:
        return None


#: The directory of its programs; None if it cannot run here.
PROGRAMS = None if os.geteuid() == 0 and _user() is None else _programs()


class PostgresServer:
    """A running server in a directory; ends with its context."""

    def __init__(self, directory: Path) -> None:
        self._data = directory / "data"
        self.url = f"postgresql:///postgres?host={self._data}&user=postgres"
        self._data.mkdir(mode=0o700)
        if (user := _user()) is not None:
            os.chown(self._data, user.pw_uid, user.pw_gid)
            for parent in (directory, *directory.parents):
                if parent.stat().st_mode & 0o1 == 0:
                    parent.chmod(parent.stat().st_mode | 0o1)
        self._run("initdb", "--username=postgres", "--auth=trust", "--no-sync", "--locale=C")
        self.address = f"host={self._data} user=postgres dbname=postgres"
        self.start()

    def start(self) -> None:
        """Starts it, also after ``kill``."""
        self.process = self._start(
            "postgres", "-c", "listen_addresses=", "-c", f"unix_socket_directories={self._data}",
            "-c", "fsync=off", "-c", "max_connections=100")
        self._await_ready()

    def kill(self) -> None:
        """Ends it at once, as a crash does."""
        self.process.send_signal(signal.SIGQUIT)
        self.process.wait()

    def _options(self) -> dict:
        options = {"cwd": self._data, "stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL,
                   "stderr": subprocess.DEVNULL}
        if (user := _user()) is not None:
            options |= {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        return options

    def _run(self, program: str, *arguments: str) -> None:
        command = [PROGRAMS / program, "-D", self._data, *arguments]
        options = {**self._options(), "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        done = subprocess.run(command, timeout=120, text=True, check=False, **options)
        assert done.returncode == 0, done.stdout

    def _start(self, program: str, *arguments: str) -> subprocess.Popen:
        return subprocess.Popen(
            [PROGRAMS / program, "-D", self._data, *arguments], **self._options())

    def _await_ready(self) -> None:
        import psycopg

        deadline = time.monotonic() + 60
        while True:
            try:
                return psycopg.connect(self.address).close()
            except psycopg.OperationalError:
                assert self.process.poll() is None and time.monotonic() < deadline

    def __enter__(self) -> "PostgresServer":
        return self

    def __exit__(self, *_) -> None:
        self.kill()
