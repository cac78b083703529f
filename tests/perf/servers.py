"""The servers of the soak: tidegate as a proxy with one worker, and nginx as its backend.

Owns their configurations. Raises Missing with one sentence when a program is not on this machine:
a line, not an error.
"""

import os
import shutil

from processes import Server, directory, free_port, write

MANY = 1_000_000_000
DOCUMENT = "x" * 2048
DOCUMENT_PATH = "/document"
RESPOND = '{ respond: { headers: { content-type: text/plain }, body: "pong" } }'


class Missing(Exception):
    """A program is not installed or not built."""


def backend():
    """nginx, which answers DOCUMENT and keeps connections."""
    program = _program("nginx")
    port = free_port()
    user = "user root;" if os.getuid() == 0 else ""
    place = os.path.join(directory(), f"nginx-{port}")
    os.mkdir(place)
    temporary = " ".join(
        f"{kind}_temp_path {place}/{kind};"
        for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    location = f"location / {{ default_type text/plain; return 200 '{DOCUMENT}'; }}"
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
  server {{ listen 127.0.0.1:{port} backlog=4096; {location} }}
}}
""")
    return Server("backend", [program, "-c", config, "-p", place, "-e", "stderr"], port)


def proxy(tidegate, backend_port):
    """tidegate before the backend; also the file of its configuration."""
    if not os.access(tidegate, os.X_OK):
        raise Missing(f"tidegate: {tidegate} is not there (make build)")
    port = free_port()
    text = "\n".join([
        "workers: 1",
        f'listeners: {{ web: {{ bind: "127.0.0.1:{port}" }} }}',
        f'upstreams: {{ backend: {{ servers: ["127.0.0.1:{backend_port}"] }} }}',
        "routes:",
        route("all", "/{*rest}", "{ upstream: backend }"),
        "",
    ])
    config = write(f"tidegate-{port}.yaml", text)
    return Server("tidegate", [tidegate, "up", config], port), config


def route(name, path, handler):
    """One route as a line of YAML."""
    return f'  - {{ name: {name}, match: {{ path: "{path}" }}, handler: {handler} }}'


def _program(name):
    # Debian keeps servers out of the path of ordinary users.
    path = shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin")
    if path is None:
        raise Missing(f"{name}: not installed (scripts/prepare installs it)")
    return path
