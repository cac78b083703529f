"""A WebSocket client (RFC 6455) that shows the raw handshake and every frame."""

import base64
import hashlib
import os

from client import Client, request

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0x0, 0x1, 0x2, 0x8, 0x9, 0xA
# RFC 6455 section 1.3.
MAGIC = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


def masked(payload, mask):
    if not payload:
        return b""
    times = len(payload) // 4 + 1
    key = int.from_bytes((mask * times)[:len(payload)], "big")
    return (int.from_bytes(payload, "big") ^ key).to_bytes(len(payload), "big")


def frame(opcode, payload=b"", is_final=True):
    """The bytes of a frame of a client (section 5.2)."""
    length = len(payload)
    if length < 126:
        size = bytes([0x80 | length])
    elif length < 1 << 16:
        size = bytes([0x80 | 126]) + length.to_bytes(2, "big")
    else:
        size = bytes([0x80 | 127]) + length.to_bytes(8, "big")
    mask = os.urandom(4)
    return bytes([(0x80 if is_final else 0) | opcode]) + size + mask + masked(payload, mask)


class Session:
    """A session; `response` is the response to the handshake."""

    def __init__(self, port, target, headers=(), subprotocols=()):
        self.client = Client(port)
        key = base64.b64encode(os.urandom(16))
        fields = [("upgrade", "websocket"), ("connection", "Upgrade"),
                  ("sec-websocket-version", "13"), ("sec-websocket-key", key.decode())]
        if subprotocols:
            fields.append(("sec-websocket-protocol", ", ".join(subprotocols)))
        self.client.send(request("GET", target, [*fields, *headers]))
        self._expected = base64.b64encode(hashlib.sha1(key + MAGIC).digest()).decode()

    def opened(self):
        """Waits for the response to the handshake; returns the session."""
        self.response = self.client.response()
        if self.response.status == 101:
            assert self.response.header("sec-websocket-accept") == self._expected
            assert self.response.header("upgrade").lower() == "websocket"
            assert "upgrade" in self.response.header("connection").lower()
        return self

    def send(self, message):
        if isinstance(message, str):
            self.client.send(frame(TEXT, message.encode()))
        else:
            self.client.send(frame(BINARY, message))

    def frame(self):
        """The next frame: opcode and payload, or None at the end of the connection."""
        head = self.client.exactly(2)
        if len(head) < 2:
            return None
        assert head[0] & 0x80, "small messages are not fragmented"
        assert not head[0] & 0x70, "no extension was negotiated"
        assert not head[1] & 0x80, "section 5.1: a server does not mask"
        length = head[1]
        if length == 126:
            length = int.from_bytes(self.client.exactly(2), "big")
        elif length == 127:
            length = int.from_bytes(self.client.exactly(8), "big")
        return head[0] & 0x0F, self.client.exactly(length)

    def message(self):
        """The next message, or (code, reason) of a close. Pings are answered."""
        while (found := self.frame()) is not None:
            opcode, payload = found
            if opcode == TEXT:
                return payload.decode()
            if opcode == BINARY:
                return payload
            if opcode == CLOSE:
                code = int.from_bytes(payload[:2], "big") if payload else None
                return code, payload[2:].decode()
            if opcode == PING:
                self.client.send(frame(PONG, payload))
        return None

    def send_close(self, code=1000, reason=""):
        self.client.send(frame(CLOSE, code.to_bytes(2, "big") + reason.encode() if code else b""))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.client.close()
