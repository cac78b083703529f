"""The admin API of a server, on its Unix socket."""

import json
import socket
import time

from hosting import PATIENCE_S


class Admin:
    """`directory` is the server's XDG_RUNTIME_DIR."""

    def __init__(self, server, directory):
        self._path = directory / "tidegate" / f"{server.process.pid}.sock"

    def get(self, target):
        """The content of a response."""
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(self._path))
            client.sendall(f"GET {target} HTTP/1.0\r\nhost: admin\r\n\r\n".encode())
            received = b"".join(iter(lambda: client.recv(65536), b""))
        head, _, body = received.partition(b"\r\n\r\n")
        assert head.split()[1] == b"200", head
        return body.decode()

    def app(self):
        """What is known of the application."""
        return json.loads(self.get("/v1/apps"))["apps"][0]

    def errors(self):
        """The last errors of the application."""
        return self.app()["errors"]

    def wait_for(self, message, times=1, traceback=""):
        """Waits until an error has happened so often; returns it."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            errors = self.errors()
            found = [one for one in errors if one["message"].startswith(message)
                     and traceback in one["traceback"]]
            if found and found[0]["times"] >= times:
                assert (len(found), found[0]["times"]) == (1, times), found
                return found[0]
            assert time.monotonic() < deadline, errors
            time.sleep(0.05)
