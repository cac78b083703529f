"""An HTTP/1.1 client that shows the raw bytes and every field as received.

Owns one socket. Promises to distinguish a complete response from a truncated one (`complete`),
which http.client does not. Every wait is bounded: a silent server is an error after `patience_s`.
"""

import socket
import struct


def request(method, target, headers=(), body=None, version="1.1"):
    """The bytes of a request. A `body` adds its Content-Length."""
    lines = [f"{method} {target} HTTP/{version}"]
    pairs = list(headers.items()) if isinstance(headers, dict) else list(headers)
    if not any(name.lower() == "host" for name, _ in pairs):
        lines.append("host: test")
    if body is not None:
        lines.append(f"content-length: {len(body)}")
    lines += [f"{name}: {value}" for name, value in pairs]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + (body or b"")


def chunk(data):
    return b"%x\r\n%b\r\n" % (len(data), data)


class Response:
    """Status line, fields in order, body, trailers, and the interim responses before it."""

    def __init__(self, head):
        line, *fields = head.decode("latin-1").split("\r\n")
        self.version, status, *reason = line.split(" ", 2)
        self.status = int(status)
        self.reason = reason[0] if reason else ""
        self.fields = [(n, v.strip(" \t")) for n, _, v in (f.partition(":") for f in fields)]
        self.body = b""
        self.chunks = []
        self.trailers = []
        self.interim = []
        self.complete = True

    def all(self, name):
        return [value for field, value in self.fields if field.lower() == name]

    def header(self, name):
        found = self.all(name)
        return found[0] if found else None

    def __repr__(self):
        return f"{self.status} {self.reason} {self.fields} {self.body[:400]!r}"


class Client:
    def __init__(self, port, host="127.0.0.1", patience_s=60, receive_buffer=None):
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.socket = socket.socket(family)
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(patience_s)
        self.socket.connect((host, port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = bytearray()

    def send(self, data):
        self.socket.sendall(data if isinstance(data, bytes) else data.encode("latin-1"))

    def _more(self):
        """Receives bytes; returns False at the end."""
        try:
            got = self.socket.recv(1 << 16)
        except ConnectionResetError:
            got = b""
        self._buffer += got
        return bool(got)

    def until(self, mark):
        """Returns the bytes before `mark`; None if the connection ends first."""
        while mark not in self._buffer:
            if not self._more():
                return None
        found = self._take(self._buffer.index(mark))
        del self._buffer[:len(mark)]
        return found

    def exactly(self, count):
        """Returns `count` bytes, or fewer at the end of the connection."""
        while len(self._buffer) < count:
            if not self._more():
                break
        return self._take(count)

    def _take(self, count):
        found = bytes(self._buffer[:count])
        del self._buffer[:count]
        return found

    def give_back(self, data):
        """Pushes bytes back, to be read again."""
        self._buffer[:0] = data

    def rest(self):
        """Returns everything up to the end of the connection."""
        while self._more():
            pass
        return self._take(len(self._buffer))

    def ended(self):
        """Waits for more bytes; True if the connection ends without any."""
        return not self._buffer and not self._more()

    def head(self):
        """Returns the next head, also of an interim response."""
        block = self.until(b"\r\n\r\n")
        if block is None:
            raise ConnectionError(f"the connection ended before a response: {self._buffer!r}")
        return Response(block)

    def response(self, method="GET"):
        """Returns the next response, possibly truncated."""
        interim = []
        found = self.head()
        while 100 <= found.status < 200 and found.status != 101:
            interim.append(found)
            found = self.head()
        found.interim = interim
        if method != "HEAD" and found.status not in (101, 204, 304):
            self._body(found)
        return found

    def _body(self, found):
        if "chunked" in (found.header("transfer-encoding") or ""):
            while (data := self.chunk()) is not None:
                if not data:
                    return self._trailers(found)
                found.chunks.append(data)
                found.body += data
            found.complete = False
        elif found.header("content-length") is not None:
            length = int(found.header("content-length"))
            found.body = self.exactly(length)
            found.complete = len(found.body) == length
        else:
            found.body = self.rest()

    def chunk(self):
        """Returns the next chunk: empty for the last, None if the connection ends too early."""
        line = self.until(b"\r\n")
        if line is None:
            return None
        size = int(line.split(b";")[0], 16)
        if size == 0:
            return b""
        data = self.exactly(size + 2)
        return data[:size] if len(data) == size + 2 else None

    def _trailers(self, found):
        while True:
            line = self.until(b"\r\n")
            if line is None:
                found.complete = False
                return
            if not line:
                return
            name, _, value = line.decode("latin-1").partition(":")
            found.trailers.append((name.lower(), value.strip()))

    def vanish(self):
        """Resets the connection, like a machine that was switched off."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def close(self):
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
