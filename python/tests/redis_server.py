"""A Redis server on a Unix socket, for tests; it is in memory unless it is told to write a file."""

import shutil
import subprocess
import threading
from pathlib import Path

#: The program, with other names: Debian's redis-tools has it as one that checks files, and it looks
#: at the name it is started with.
PROGRAM = next(filter(None, map(shutil.which, (
    "redis-server", "valkey-server", "redis-check-rdb", "valkey-check-rdb"))), None)


class RedisServer:
    """A running server in a directory; ends with its context."""

    def __init__(self, directory: Path, *options: str) -> None:
        self._directory = directory
        self._options = options
        self.socket = directory / "redis.sock"
        self.url = f"unix://{self.socket}"
        self.process = None
        self.start()

    def start(self) -> None:
        program = self._directory / "redis-server"
        if not program.exists():
            program.symlink_to(PROGRAM)
        self.process = subprocess.Popen(
            [program, "--port", "0", "--unixsocket", self.socket, "--save", "", *self._options],
            cwd=self._directory, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True)
        for line in self.process.stdout:
            if "accept connections" in line:
                break
        else:
            raise AssertionError("redis-server did not start")
        # What it writes from now on is not of interest, and must not fill the pipe.
        threading.Thread(target=self.process.stdout.read, daemon=True).start()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def __enter__(self) -> "RedisServer":
        return self

    def __exit__(self, *_) -> None:
        self.kill()
