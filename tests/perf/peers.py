"""The servers that are compared, each with one worker and no access log.

Owns the configurations. Each `start_*` gives a running Server, or raises Missing with one
sentence when its program is not on this machine: a missing peer is a line, not an error.
"""

import os
import shutil
import subprocess

from processes import Server, folder, free_port, write

MANY = 1_000_000_000
PONG = "pong"
DOCUMENT = "x" * 2048
# The paths that a request goes to, for every peer.
HELLO_PATH = "/ping"
DOCUMENT_PATH = "/document"

API_KEY = "perf-key-0123456789abcdef"


class Missing(Exception):
    """The program of a peer is not installed or not built."""


class Peers:
    """Starts peers; knows where their programs are and which core is theirs."""

    def __init__(self, tidegate, floors, server_core, client_core):
        self.tidegate = tidegate
        self.floors = floors
        self.core = server_core
        # The backend of a proxy is part of the load, so it shares the client's core.
        self.backend_core = client_core

    # hello

    def floor_hello(self):
        port = free_port()
        command = [self._floor("floor-hello"), f"127.0.0.1:{port}"]
        return Server("floor", command, port, self.core)

    def nginx_hello(self):
        location = f"location / {{ default_type text/plain; return 200 '{PONG}'; }}"
        return self._nginx("nginx", "", location, self.core)

    def tidegate_hello(self):
        return self.tidegate_with("tidegate", [route("ping", HELLO_PATH, RESPOND)])

    # proxy

    def backend(self):
        location = f"location / {{ default_type text/plain; return 200 '{DOCUMENT}'; }}"
        return self._nginx("backend", "", location, self.backend_core)

    def floor_proxy(self, backend):
        port = free_port()
        command = [self._floor("floor-proxy"), f"127.0.0.1:{backend.port}", f"127.0.0.1:{port}"]
        return Server("floor", command, port, self.core)

    def nginx_proxy(self, backend):
        upstream = f"""
          upstream backend {{
            server 127.0.0.1:{backend.port};
            keepalive 1024; keepalive_requests {MANY}; keepalive_timeout 1h;
          }}"""
        location = """
          location / {
            proxy_pass http://backend; proxy_http_version 1.1; proxy_set_header Connection "";
          }"""
        return self._nginx("nginx", upstream, location, self.core)

    def haproxy_proxy(self, backend):
        program = _program("haproxy")
        port = free_port()
        config = write(f"haproxy-{port}.cfg", f"""
global
  nbthread 1
  maxconn 8192
defaults
  mode http
  timeout client 1h
  timeout server 1h
  timeout connect 5s
  timeout http-keep-alive 1h
  option http-keep-alive
  http-reuse always
frontend web
  bind 127.0.0.1:{port}
  default_backend backend
backend backend
  server backend 127.0.0.1:{backend.port}
""")
        return Server("haproxy", [program, "-db", "-q", "-f", config], port, self.core)

    def tidegate_proxy(self, backend, name="tidegate", filters=""):
        handler = "{ upstream: backend }"
        lines = [f'upstreams: {{ backend: {{ servers: ["127.0.0.1:{backend.port}"] }} }}']
        return self.tidegate_with(name, [route("all", "/{*rest}", handler, filters)], lines)

    def tidegate_filtered(self, backend):
        filters = (
            f"[{{ key_auth: {{ keys: [{{ consumer: perf, key: {API_KEY} }}] }} }}, "
            f"{{ rate_limit: {{ rate: {MANY // 100}/s, burst: 1000000, key: client_ip }} }}]"
        )
        return self.tidegate_proxy(backend, "filtered", filters)

    # routes

    def tidegate_routes(self, count):
        """`count` routes in the shape of a gateway's: services with versions and parameters."""
        routes = []
        for number in range(count - 1):
            path = f"/api/v{number % 3}/service-{number:05}/items/{{id}}"
            routes.append(route(f"r{number}", path, RESPOND))
        routes.append(route("asked", "/api/v1/asked/items/{id}", RESPOND))
        return self.tidegate_with(f"{count} routes", routes)

    # how each is started

    def tidegate_with(self, name, routes, lines=()):
        if not self.tidegate:
            raise Missing("tidegate: no --tidegate PATH given")
        if not os.access(self.tidegate, os.X_OK):
            raise Missing(f"tidegate: {self.tidegate} is not there (make build)")
        port = free_port()
        listener = f'listeners: {{ web: {{ bind: "127.0.0.1:{port}" }} }}'
        text = "\n".join(["workers: 1", listener, *lines, "routes:", *routes, ""])
        config = write(f"tidegate-{port}.yaml", text)
        return Server(name, [self.tidegate, "up", config], port, self.core)

    def _floor(self, name):
        path = os.path.join(self.floors, name)
        if not os.access(path, os.X_OK):
            raise Missing(f"{name}: not built (cargo build --release --package bench)")
        return path

    def _nginx(self, name, upstream, location, core):
        program = _program("nginx")
        port = free_port()
        user = "user root;" if os.getuid() == 0 else ""
        place = os.path.join(folder(), f"nginx-{port}")
        os.mkdir(place)
        temporary = " ".join(
            f"{kind}_temp_path {place}/{kind};"
            for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        config = write(f"nginx-{port}.conf", f"""
{user}
worker_processes 1;
daemon off;
pid {place}/pid;
error_log stderr crit;
events {{ worker_connections 16384; }}
http {{
  access_log off;
  keepalive_requests {MANY}; keepalive_timeout 1h;
  {temporary}
  {upstream}
  server {{ listen 127.0.0.1:{port} backlog=4096; {location} }}
}}
""")
        return Server(name, [program, "-c", config, "-p", place, "-e", "stderr"], port, core)


RESPOND = f'{{ respond: {{ headers: {{ content-type: text/plain }}, body: "{PONG}" }} }}'


def route(name, path, handler, filters=""):
    """One route as a line of YAML."""
    filters = f", filters: {filters}" if filters else ""
    return f'  - {{ name: {name}, match: {{ path: "{path}" }}, handler: {handler}{filters} }}'


def _program(name):
    # Debian keeps servers out of the path of ordinary users.
    path = shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin")
    if path is None:
        raise Missing(f"{name}: not installed (tests/doors/prepare installs it)")
    return path


def versions(peers):
    """What each program calls itself."""
    found = {}
    asked = {"nginx": "-v", "haproxy": "-v", "wrk": "-v"}
    for name, option in asked.items():
        try:
            result = subprocess.run(
                [_program(name), option], capture_output=True, text=True, check=False
            )
            found[name] = (result.stdout + result.stderr).splitlines()[0].strip()
        except (Missing, IndexError):
            found[name] = None
    if peers.tidegate and os.access(peers.tidegate, os.X_OK):
        result = subprocess.run(
            [peers.tidegate, "version"], capture_output=True, text=True, check=False
        )
        found["tidegate"] = result.stdout.strip()
    return found
