"""Three nodes of tidegate, three members of etcd, Redis and an origin on this machine.

Owns their processes and configuration. Each process can be killed, paused, continued and started
again at its port; the network between a node and etcd can be cut. Nothing is left behind:
`processes` ends what it started.
"""

import base64
import http.client
import http.server
import json
import os
import re
import secrets
import shutil
import signal
import socket
import struct
import subprocess
import threading
import time
import urllib.error
import urllib.request

from processes import Failed, Server, directory, free_port, write

NODES = ("node-1", "node-2", "node-3")
MEMBERS = ("etcd-1", "etcd-2", "etcd-3")
START_SECONDS = 60.0
# Between two requests of the load on one node.
LOAD_PAUSE_SECONDS = 0.004

PREFIX = "/fleet"
# Of all requests: it is part of the keys of caches.
HOST = "fleet.test"
MAIN = """
workers: 1
listeners: {{ web: {{ bind: "127.0.0.1:${{WEB}}" }} }}
admin: {{ bind: "127.0.0.1:${{ADMIN}}", token: "${{TOKEN}}", metrics: open }}
shared: {{ redis: ["redis://127.0.0.1:{redis}"], servers: 3 }}
purges: {{ through: etcd, alone: {alone} }}
caches: {{ pages: {{ memory: 64MiB{disk} }} }}
upstreams: {{ origin: {{ servers: ["127.0.0.1:{origin}"] }} }}
routes:
  - name: pages
    match: {{ path: "/pages/{{*page}}" }}
    filters: [{{ cache: {{ store: pages }} }}]
    handler: {{ upstream: origin }}
  - name: shared
    match: {{ path: /shared }}
    filters: [{{ rate_limit: {{ name: api, rate: 3000/s, shared: true }} }}]
    handler: {{ respond: {{ body: ok }} }}
  - name: costs-shared
    match: {{ path: /costs-shared }}
    filters: [{{ rate_limit: {{ name: wide, rate: 900000/s, shared: true }} }}]
    handler: {{ respond: {{ body: ok }} }}
  - name: costs-local
    match: {{ path: /costs-local }}
    filters: [{{ rate_limit: {{ name: own, rate: 900000/s }} }}]
    handler: {{ respond: {{ body: ok }} }}
"""
DISK = ', disk: { path: "${CACHE}", size: 64MiB }'
VERSION = 'routes: [{{ name: version, match: {{ path: /version }}, handler: {{ respond: ' \
    '{{ body: "{}" }} }} }}]\n'


class Member:
    """A process with a port, which may be killed, paused and started again."""

    def __init__(self, name, command, port):
        self.name, self.command, self.port = name, command, port
        self.server = Server(name, command, port)
        self.is_paused = False

    def pid(self):
        return self.server.process.pid

    def is_alive(self):
        return self.server.alive()

    def state(self):
        if not self.is_alive():
            return "down"
        return "paused" if self.is_paused else "up"

    def kill(self):
        os.killpg(self.pid(), signal.SIGKILL)
        self.server.process.wait()
        self.server.stop()
        self.is_paused = False

    def start(self):
        self.server = Server(self.name, self.command, self.port)

    def pause(self):
        self.server.signal(signal.SIGSTOP)
        self.is_paused = True

    def resume(self):
        self.server.signal(signal.SIGCONT)
        self.is_paused = False

    def cpu_seconds(self):
        """Processor time of the process so far."""
        with open(f"/proc/{self.pid()}/stat", encoding="ascii") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Node(Member):
    """A node of tidegate, and its admin API."""

    def __init__(self, name, command, port, admin, token):
        self.admin, self.token = admin, token
        # To each member of etcd, if it can be cut.
        self.network = []
        super().__init__(name, command, port)

    def ask(self, method, path, body=None):
        """The status and the text of a response of the admin API."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.admin}{path}", method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {self.token}", "Accept": "text/plain"},
        )
        try:
            with urllib.request.urlopen(request, timeout=30) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def readiness(self):
        """What `/readyz` says, or why it cannot be read."""
        try:
            status, text = self.ask("GET", "/readyz")
        except OSError as error:
            return f"no response: {error}"
        return text.strip() if status == 200 else f"{status}: {text.strip()}"

    def metric(self, name):
        """The sum of a metric; 0 if the node does not respond."""
        try:
            _, text = self.ask("GET", "/metrics")
        except OSError:
            return 0.0
        lines = [line for line in text.splitlines() if re.match(rf"{name}[{{ ]", line)]
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines)

    def get(self, path, connection=None):
        """A connection and the status and text of a response on it."""
        connection = connection or http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        connection.request("GET", path, headers={"Host": HOST})
        response = connection.getresponse()
        return connection, response.status, response.read().decode()


class Proxy:
    """A TCP proxy in front of a port, as the network that can fail."""

    def __init__(self, port):
        self.target = port
        self.passing, self.connections = threading.Event(), []
        self.passing.set()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            client, _ = self.listener.accept()
            try:
                server = socket.create_connection(("127.0.0.1", self.target), 5)
            except OSError:
                client.close()
                continue
            server.settimeout(None)
            # Set as long as bytes may pass on this connection.
            passing = threading.Event()
            passing.set()
            connection = (client, server, passing)
            self.connections.append(connection)
            for source, sink in ((client, server), (server, client)):
                sink.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                arguments = (source, sink, connection)
                threading.Thread(target=self._copy, args=arguments, daemon=True).start()

    def _copy(self, source, sink, connection):
        while True:
            try:
                data = source.recv(65536)
                self.passing.wait()
                connection[2].wait()
                if not data:
                    break
                sink.sendall(data)
            except OSError:
                break
        for end in connection[:2]:
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        try:
            self.connections.remove(connection)
        except ValueError:
            pass

    def cut(self):
        """Passes nothing in any direction and closes nothing."""
        self.passing.clear()

    def heal(self):
        """Passes everything again, also what has waited."""
        self.passing.set()

    def leave_half_open(self):
        """Passes nothing more on the connections of now, and closes none of them."""
        for _, _, passing in self.connections:
            passing.clear()
        self.connections = []

    def reset(self):
        """Resets the connections of now."""
        for client, server, _ in self.connections:
            for end in (client, server):
                try:
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    # Ends the thread that receives, without telling the peer.
                    end.shutdown(socket.SHUT_RD)
                    end.close()
                except OSError:
                    pass
        self.connections = []


class Origin:
    """A server of pages, each of which has a version that only grows."""

    def __init__(self):
        self.versions, self.lock = {}, threading.Lock()
        origin = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):  # The name is that of the base class.
                body = str(origin.version(self.path)).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.send_header("Cache-Control", "max-age=86400")
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def version(self, path):
        with self.lock:
            return self.versions.get(path, 0)

    def change(self, path):
        """Gives a page its next version."""
        with self.lock:
            self.versions[path] = self.versions.get(path, 0) + 1
            return self.versions[path]


class Fleet:
    """All processes, started in the order in which they need each other."""

    def __init__(self, tidegate, etcd_arguments=(), alone="10m", can_be_cut=False):
        """Nodes that can be cut from etcd also have caches on disk."""
        self.tidegate, self.token, self.can_be_cut = tidegate, secrets.token_hex(16), can_be_cut
        self.origin = Origin()
        self.members = self._etcd(list(etcd_arguments))
        port = free_port()
        self.redis = Member("redis", [
            program("redis-server"), "--port", str(port), "--bind", "127.0.0.1", "--save", "",
            "--appendonly", "no",
        ], port)
        clients = ",".join(f"127.0.0.1:{member.port}" for member in self.members)
        self.url = f"etcd://{clients}{PREFIX}"
        wait("etcd has a leader", lambda: self.put("/fleet-started", "1"))
        self.site = os.path.join(directory(), "site")
        os.makedirs(self.site, exist_ok=True)
        disk = DISK if can_be_cut else ""
        write("site/main.yaml",
              MAIN.format(redis=port, origin=self.origin.port, alone=alone, disk=disk))
        write("site/version.yaml", VERSION.format(0))
        self.apply()
        self.nodes = [self._node(name) for name in NODES]
        wait("every node is ready", self.is_whole)

    def _etcd(self, more):
        ports = [(free_port(), free_port()) for _ in MEMBERS]
        peers = [f"http://127.0.0.1:{peer}" for _, peer in ports]
        cluster = ",".join(f"{name}={peer}" for name, peer in zip(MEMBERS, peers))
        members = []
        for name, (port, _), peer in zip(MEMBERS, ports, peers):
            client = f"http://127.0.0.1:{port}"
            members.append(Member(name, [
                program("etcd"), f"--name={name}", f"--data-dir={os.path.join(directory(), name)}",
                f"--listen-client-urls={client}", f"--advertise-client-urls={client}",
                f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}",
                f"--initial-cluster={cluster}", "--log-level=error", *more,
            ], port))
        return members

    def _node(self, name):
        port, admin = free_port(), free_port()
        state = os.path.join(directory(), f"{name}-state")
        network = [Proxy(member.port) for member in self.members] if self.can_be_cut else []
        clients = ",".join(f"127.0.0.1:{proxy.port}" for proxy in network)
        url = f"etcd://{clients}{PREFIX}" if network else self.url
        cache = os.path.join(directory(), f"{name}-cache")
        node = Node(name, [
            "env", f"WEB={port}", f"ADMIN={admin}", f"TOKEN={self.token}", f"CACHE={cache}",
            self.tidegate, "up", url, f"--node={name}", f"--state-dir={state}",
        ], port, admin, self.token)
        node.network = network
        return node

    def engines(self):
        """Everything that holds shared state."""
        return [*self.members, self.redis]

    def is_whole(self):
        """True if every node follows etcd, uses Redis, and has nothing to report."""
        return all(
            node.readiness() == "ready" and node.metric("tidegate_shared_limits_servers") == 3
            for node in self.nodes
        )

    def ctl(self, *arguments):
        """Runs `tidegate ctl`; returns its exit code and what it printed."""
        done = subprocess.run(
            [self.tidegate, "ctl", *arguments, "--etcd", self.url], cwd=directory(),
            capture_output=True, text=True, check=False,
        )
        return done.returncode, done.stdout + done.stderr

    def apply(self):
        code, text = self.ctl("apply", "site")
        if code != 0:
            raise Failed(f"ctl apply: {text}")

    def put(self, key, value):
        """Writes a key through the first member of etcd that accepts it; false if none does."""
        encoded = [base64.b64encode(text.encode()).decode() for text in (key, value)]
        return self.call("/v3/kv/put", {"key": encoded[0], "value": encoded[1]}) is not None

    def put_version(self, version):
        """Changes what `/version` serves, without `ctl`."""
        return self.put(f"{PREFIX}/config/version.yaml", VERSION.format(version))

    def call(self, path, body):
        """The response of the first member that is up, by etcd's JSON gateway."""
        for member in self.members:
            if member.state() != "up":
                continue
            url = f"http://127.0.0.1:{member.port}{path}"
            request = urllib.request.Request(url, data=json.dumps(body).encode())
            try:
                with urllib.request.urlopen(request, timeout=5) as response:
                    return json.loads(response.read())
            except (OSError, ValueError):
                continue
        return None

    def purge(self, node, path, wait_seconds=10):
        """Purges a page through a node; returns the response."""
        body = {"url": f"http://{HOST}{path}"}
        status, text = node.ask("POST", f"/v1/caches/pages/purge?wait={wait_seconds}", body)
        if status != 200:
            raise Failed(f"purge of {path} by {node.name}: {status} {text}")
        return json.loads(text)


class Load:
    """A connection to each node with one request after the other, each of which must succeed."""

    def __init__(self, nodes, paths=("/version", "/pages/load")):
        self.over = threading.Event()
        self.requests, self.failures = {node.name: 0 for node in nodes}, []
        self.threads = [
            threading.Thread(target=self._work, args=(node, paths), daemon=True) for node in nodes
        ]
        for thread in self.threads:
            thread.start()

    def _work(self, node, paths):
        connection = None
        while not self.over.wait(LOAD_PAUSE_SECONDS):
            path = paths[self.requests[node.name] % len(paths)]
            self.requests[node.name] += 1
            try:
                connection, status, text = node.get(path, connection)
                if status != 200:
                    self.failures.append(f"{node.name} {path}: {status} {text[:200]}")
            except (OSError, http.client.HTTPException) as error:
                connection = None
                self.failures.append(f"{node.name} {path}: {error!r}")

    def total(self):
        return sum(self.requests.values())

    def stop(self):
        """Ends the load; returns how many requests were sent and what failed."""
        self.over.set()
        for thread in self.threads:
            thread.join()
        return self.total(), self.failures


def program(name):
    """Where a server of Debian is, also outside of the path of ordinary users."""
    path = shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin")
    if path is None:
        raise Failed(f"{name} is not installed (scripts/prepare test installs it)")
    return path


def wait(what, is_so, seconds=START_SECONDS):
    """Waits until something is so; returns how long that took."""
    began = time.monotonic()
    while not is_so():
        if time.monotonic() - began > seconds:
            raise Failed(f"not within {seconds:.0f} s: {what}")
        time.sleep(0.02)
    return time.monotonic() - began
