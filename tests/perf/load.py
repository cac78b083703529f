"""Load on one server, and what it cost that server.

The figure is run time of the server's tasks (schedstat, ns) over the requests wrk saw
answered: the load generator shares the cores, so requests a second mostly measure wrk.
"""

import json
import os
import re
import shutil
import socket
import subprocess

from processes import pinned, write

# `done` runs once, after the load: it costs nothing a request.
WRK_SCRIPT = """
function done(summary, latency, requests)
  local e = summary.errors
  io.write(string.format(
    '\\nRESULT {"requests":%d,"duration_us":%d,"bytes":%d,"errors":%d,' ..
    '"p50_us":%d,"p99_us":%d,"p999_us":%d}\\n',
    summary.requests, summary.duration, summary.bytes,
    e.connect + e.read + e.write + e.status + e.timeout,
    latency:percentile(50), latency:percentile(99), latency:percentile(99.9)))
end
"""

TIMEOUT_EXTRA_SECONDS = 30


class Failed(Exception):
    """A server did not do what the row needs before any load was put on it."""


def probe(server, path, body, headers=()):
    """Checks one answer; returns how many bytes it has. Two requests, so keep-alive is seen."""
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers)
    request = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n{lines}\r\n".encode()
    with socket.create_connection(("127.0.0.1", server.port), 5) as connection:
        sizes = [_answer(server, connection, request, body) for _ in range(2)]
    return sizes[-1]


def _answer(server, connection, request, body):
    connection.sendall(request)
    received = b""
    while b"\r\n\r\n" not in received:
        received += _receive(server, connection, received)
    head, _, rest = received.partition(b"\r\n\r\n")
    if not re.match(rb"HTTP/1\.1 200 ", head):
        raise Failed(f"{server.name}: {head.decode(errors='replace')}\n{server.said()}")
    length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
    if length is None or int(length[1]) != len(body):
        raise Failed(f"{server.name}: not {len(body)} bytes: {head.decode(errors='replace')}")
    while len(rest) < len(body):
        rest += _receive(server, connection, received)
    if rest != body.encode():
        raise Failed(f"{server.name}: a different body")
    return len(head) + 4 + len(rest)


def _receive(server, connection, before):
    received = connection.recv(65536)
    if not received:
        raise Failed(f"{server.name}: closed after {before!r}\n{server.said()}")
    return received


def wrk_missing():
    return shutil.which("wrk") is None


def run(server, path, connections, seconds, core=None, headers=()):
    """One round: CPU a request in µs, requests a second, latencies, memory, errors."""
    script = write("wrk.lua", WRK_SCRIPT)
    command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "-s", script]
    for name, value in headers:
        command += ["-H", f"{name}: {value}"]
    command.append(f"http://127.0.0.1:{server.port}{path}")
    before = server.tasks()
    result = subprocess.run(
        pinned(command, core),
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds + TIMEOUT_EXTRA_SECONDS,
    )
    after = server.tasks()
    match = re.search(r"^RESULT (\{.*\})$", result.stdout, re.MULTILINE)
    if match is None:
        raise Failed(f"wrk on {server.name}: {result.stdout}{result.stderr}\n{server.said()}")
    round_ = json.loads(match[1])
    if not server.alive():
        raise Failed(f"{server.name} ended under load:\n{server.said()}")
    spent_ns = sum(time - before.get(task, 0) for task, time in after.items())
    requests = max(round_["requests"], 1)
    round_["cpu_us"] = spent_ns / 1000 / requests
    round_["per_second"] = requests / (round_["duration_us"] / 1e6)
    round_["rss_bytes"] = server.rss_bytes()
    # The time of a task that ended in between is lost, and the figure is then too low.
    round_["tasks_lost"] = len(before.keys() - after.keys())
    return round_


def idle_bytes(server, path, count, settle):
    """Resident memory that each of `count` idle kept-alive connections costs, in bytes."""
    probe_request = f"GET {path} HTTP/1.1\r\nHost: idle\r\n\r\n".encode()
    held = []
    try:
        # The first ones grow tables and pools that are no connection's own.
        before = None
        for number in range(count + 100):
            if number == 100:
                settle()
                before = server.rss_bytes()
            connection = socket.create_connection(("127.0.0.1", server.port), 10)
            held.append(connection)
            connection.sendall(probe_request)
            if not connection.recv(4096).startswith(b"HTTP/1.1 200"):
                raise Failed(f"{server.name}: connection {number} was not answered")
        settle()
        return (server.rss_bytes() - before) / count
    finally:
        for connection in held:
            connection.close()


def machine():
    """What the figures were taken on."""
    model = ""
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "kernel": os.uname().release,
        "load": os.getloadavg(),
    }
