"""Steady load from threads that accounts for every request.

Each thread pauses between its requests: without it they would take what processor time there is,
from the server that replaces its workers and from the tests that run at the same time.

Promises to count every failed request that a client may not retry. A persistent connection that
ended before the first byte of a response (RFC 9112 section 9.3.1) counts as repeated.
"""

import threading

from client import request

PAUSE_S = 0.01


class Load:
    """`with Load(server) as load:` runs until the block ends; then its counts are final."""

    def __init__(self, server, connections=8, target="/pid", is_fresh=False, body=None):
        self.server = server
        self.completed = 0
        self.repeated = 0
        self.failures = []
        self.processes = set()
        self._method = "GET" if body is None else "POST"
        headers = {"connection": "close"} if is_fresh else {}
        self._request = request(self._method, target, headers, body)
        self._is_fresh = is_fresh
        self._stop = threading.Event()
        self._changed = threading.Condition()
        self._threads = [threading.Thread(target=self._run, daemon=True)
                         for _ in range(connections)]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        for thread in self._threads:
            thread.join(60)
        assert not any(thread.is_alive() for thread in self._threads), "a client does not end"

    def more(self, count):
        """Waits until `count` more requests have completed."""
        with self._changed:
            wanted = self.completed + count
            assert self._changed.wait_for(lambda: self.completed >= wanted, 60), self.failures

    def until(self, is_so):
        """Waits until the counts satisfy `is_so(load)`."""
        with self._changed:
            assert self._changed.wait_for(lambda: is_so(self), 60), (self.processes, self.failures)

    def _run(self):
        client = None
        while not self._stop.wait(PAUSE_S):
            process = None
            try:
                is_reused = client is not None
                client = client or self.server.connect()
                process = getattr(client, "process", None)
                client.send(self._request)
                first = client.exactly(1)
                if not first:
                    raise ConnectionError("no response")
            except OSError as error:
                self._ended(client, is_reused, process, error)
                client = None
                continue
            try:
                client.give_back(first)
                response = client.response()
            except (OSError, ValueError) as error:
                self._ended(client, False, process, error)
                client = None
                continue
            client = self._take(client, response, process)
        if client:
            client.close()

    def _take(self, client, response, process):
        with self._changed:
            if response.status != 200 or not response.complete:
                self.failures.append((process, repr(response)))
            else:
                self.completed += 1
                client.process = response.header("x-process")
                self.processes.add(client.process)
            self._changed.notify_all()
        if self._is_fresh or response.header("connection") == "close" or response.status != 200:
            client.close()
            return None
        return client

    def _ended(self, client, is_reused, process, error):
        if client:
            client.close()
        with self._changed:
            if is_reused:
                self.repeated += 1
            else:
                self.failures.append((process, f"{type(error).__name__}: {error}"))
            self._changed.notify_all()
