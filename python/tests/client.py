"""An HTTP/1.1 client that hides nothing: bytes out, bytes in, every field as it came.

Owns one socket. Promises to tell a whole answer from one that was cut (`complete`), which
http.client does not. Never waits for ever: a silent server is an error after `patience_s`.
"""

import socket
import struct


def request(method, target, headers=(), body=None, version="1.1"):
    """The bytes of a request. `body` comes with its Content-Length."""
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


class Answer:
    """Status line, fields in their order, body, trailers, and the 1xx answers before it."""

    def __init__(self, head):
        line, *fields = head.decode("latin-1").split("\r\n")
        self.version, status, *reason = line.split(" ", 2)
        self.status = int(status)
        self.reason = reason[0] if reason else ""
        self.fields = [(n, v.strip(" \t")) for n, _, v in (f.partition(":") for f in fields)]
        self.body = b""
        self.chunks = []
        self.trailers = []
        self.informed = []
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
        self._kept = b""

    def send(self, data):
        self.socket.sendall(data if isinstance(data, bytes) else data.encode("latin-1"))

    def _more(self):
        """Take what has come: False at the end."""
        try:
            got = self.socket.recv(1 << 16)
        except ConnectionResetError:
            got = b""
        self._kept += got
        return bool(got)

    def until(self, mark):
        """What comes up to `mark`, without it. None if the connection ends before."""
        while mark not in self._kept:
            if not self._more():
                return None
        found, _, self._kept = self._kept.partition(mark)
        return found

    def exactly(self, count):
        """`count` bytes, or as many as came before the end."""
        while len(self._kept) < count:
            if not self._more():
                break
        found, self._kept = self._kept[:count], self._kept[count:]
        return found

    def give_back(self, data):
        """What was taken is to be read again."""
        self._kept = data + self._kept

    def rest(self):
        """Everything up to the end of the connection."""
        while self._more():
            pass
        found, self._kept = self._kept, b""
        return found

    def ended(self):
        """Whether the connection ends here, with nothing left on it. Waits for it."""
        return not self._kept and not self._more()

    def head(self):
        """The next head, be it 1xx or not."""
        block = self.until(b"\r\n\r\n")
        if block is None:
            raise ConnectionError(f"the connection ended before an answer: {self._kept!r}")
        return Answer(block)

    def answer(self, method="GET"):
        """The next whole answer, or what there is of it."""
        informed = []
        found = self.head()
        while 100 <= found.status < 200 and found.status != 101:
            informed.append(found)
            found = self.head()
        found.informed = informed
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
        """The next chunk: empty for the last, None if the connection ends before or in it."""
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
        """Go without a word: a reset, as from a machine that was switched off."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def close(self):
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
