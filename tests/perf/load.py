"""Load on one server: as fast as it responds by wrk, or at a rate by `tidegate bench`.

What a request costs is measured by `tidegate bench`.
"""

import json
import os
import re
import socket
import subprocess

from processes import Failed, directory, write

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


def probe(server, path, body, requests=2, fields=""):
    """Checks answers on one connection: two of them, so that keep-alive is seen."""
    host = f"127.0.0.1:{server.port}"
    request = f"GET {path} HTTP/1.1\r\nHost: {host}\r\n{fields}\r\n".encode()
    with socket.create_connection(("127.0.0.1", server.port), 5) as connection:
        for _ in range(requests):
            _answer(server, connection, request, body)


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


def _receive(server, connection, before):
    received = connection.recv(65536)
    if not received:
        raise Failed(f"{server.name}: closed after {before!r}\n{server.said()}")
    return received


def run(server, path, connections, seconds):
    """One round: requests, errors, latencies, memory."""
    # One for each server: several may be under load at once.
    script = write(f"wrk-{server.port}.lua", WRK_SCRIPT)
    command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "-s", script]
    command.append(f"http://127.0.0.1:{server.port}{path}")
    result = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds + TIMEOUT_EXTRA_SECONDS,
    )
    match = re.search(r"^RESULT (\{.*\})$", result.stdout, re.MULTILINE)
    if match is None:
        raise Failed(f"wrk on {server.name}: {result.stdout}{result.stderr}\n{server.said()}")
    if not server.alive():
        raise Failed(f"{server.name} ended under load:\n{server.said()}")
    return {**json.loads(match[1]), "rss_bytes": server.rss_bytes()}


def p99_at_rate(tidegate, server, path, connections, rate, seconds):
    """The p99 of a round at a rate below the capacity, in µs from when a request was due. A client
    that sends as soon as it can measures how busy the machine is, not what a request waits for."""
    out = os.path.join(directory(), f"rate-{server.port}")
    done = subprocess.run(
        [tidegate, "bench", "--target", f"http://127.0.0.1:{server.port}{path}",
         "--connections", str(connections), "--rate", str(rate), "--rounds", "1",
         "--seconds", str(seconds), "--out", out],
        capture_output=True, text=True, check=False, timeout=seconds + TIMEOUT_EXTRA_SECONDS,
    )
    if done.returncode != 0:
        raise Failed(f"bench: {done.stdout}{done.stderr}\n{server.said()}")
    with open(os.path.join(out, "data.json"), encoding="utf-8") as file:
        [record] = json.load(file)["records"]
    if record["errors"]:
        kinds = ", ".join(f"{kind} {count}" for kind, count in record["errors_by_kind"].items())
        raise Failed(
            f"{server.name}: {record['errors']} requests failed at {rate}/s: {kinds}\n"
            f"{server.said()}"
        )
    return record["latency_ms"]["p99"] * 1000
