"""A WebSocket client and server (RFC 6455) in nothing but the standard library.

`websocket.py serve` echoes on a free port, which it prints on standard error as `port N`.
`websocket.py talk PORT` talks to that echo through whatever is in between, and says
`all came back` when every message did.
"""

import asyncio
import base64
import hashlib
import os
import sys

MAGIC = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0x0, 0x1, 0x2, 0x8, 0x9, 0xA
PATIENCE_S = 50


def accept(key):
    digest = hashlib.sha1((key + MAGIC).encode()).digest()
    return base64.b64encode(digest).decode()


def apply(mask, payload):
    """The masking of section 5.3, which undoes itself."""
    if not payload:
        return b""
    times = len(payload) // 4 + 1
    number = int.from_bytes(payload, "big") ^ int.from_bytes((mask * times)[: len(payload)], "big")
    return number.to_bytes(len(payload), "big")


def frame(opcode, payload, masked, final=True):
    head = bytearray([(0x80 if final else 0) | opcode])
    bit = 0x80 if masked else 0
    if len(payload) < 126:
        head.append(bit | len(payload))
    elif len(payload) < 1 << 16:
        head.append(bit | 126)
        head += len(payload).to_bytes(2, "big")
    else:
        head.append(bit | 127)
        head += len(payload).to_bytes(8, "big")
    if not masked:
        return bytes(head) + payload
    mask = os.urandom(4)
    return bytes(head) + mask + apply(mask, payload)


async def read_frame(reader, masked):
    first, second = await reader.readexactly(2)
    assert first & 0x70 == 0, "reserved bits are set"
    # Section 5.1: a client masks everything, a server nothing.
    assert bool(second & 0x80) == masked, "masked by the wrong side"
    length = second & 0x7F
    if length == 126:
        length = int.from_bytes(await reader.readexactly(2), "big")
    elif length == 127:
        length = int.from_bytes(await reader.readexactly(8), "big")
    mask = await reader.readexactly(4) if masked else None
    payload = await reader.readexactly(length)
    return bool(first & 0x80), first & 0x0F, apply(mask, payload) if masked else payload


async def read_head(reader):
    lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    fields = (line.split(":", 1) for line in lines[1:] if line)
    return lines[0], {name.strip().lower(): value.strip() for name, value in fields}


async def serve_one(reader, writer):
    _, fields = await read_head(reader)
    assert fields["upgrade"].lower() == "websocket", fields
    assert "upgrade" in fields["connection"].lower(), fields
    assert fields["sec-websocket-version"] == "13", fields
    answer = (
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Accept: {accept(fields['sec-websocket-key'])}\r\n\r\n"
    )
    writer.write(answer.encode())
    # A word of ours first, in the same breath as the head.
    writer.write(frame(TEXT, b"welcome", False))
    while True:
        final, opcode, payload = await read_frame(reader, True)
        if opcode == PING:
            opcode = PONG
        writer.write(frame(opcode, payload, False, final))
        await writer.drain()
        if opcode == CLOSE:
            break
    writer.close()


async def serve():
    server = await asyncio.start_server(serve_one, "127.0.0.1", 0, limit=1 << 20)
    print("port", server.sockets[0].getsockname()[1], file=sys.stderr, flush=True)
    await server.serve_forever()


async def converse(reader, writer):
    def send(opcode, payload, final=True):
        writer.write(frame(opcode, payload, True, final))

    async def expect(opcode, payload, final=True):
        got = await read_frame(reader, False)
        assert got == (final, opcode, payload), f"not what was sent: {got[:2]} {got[2][:40]!r}"

    await expect(TEXT, b"welcome")
    for size in [0, 1, 125, 126, 127, 65535, 65536, 1 << 20]:
        payload = os.urandom(size)
        send(BINARY, payload)
        await expect(BINARY, payload)
    send(PING, b"are you there")
    await expect(PONG, b"are you there")
    # One message in pieces, with a ping in between (section 5.4).
    send(TEXT, b"in ", final=False)
    send(PING, b"between")
    send(CONTINUATION, b"pieces")
    await expect(TEXT, b"in ", final=False)
    await expect(PONG, b"between")
    await expect(CONTINUATION, b"pieces")
    # Many at once, and then all the answers.
    for number in range(500):
        send(TEXT, b"message %d" % number)
    await writer.drain()
    for number in range(500):
        await expect(TEXT, b"message %d" % number)
    send(CLOSE, (1000).to_bytes(2, "big") + b"enough")
    await expect(CLOSE, (1000).to_bytes(2, "big") + b"enough")
    assert await reader.read() == b"", "more after the close"


async def talk(port):
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)
    key = base64.b64encode(os.urandom(16)).decode()
    request = (
        "GET /chat HTTP/1.1\r\nHost: chat.example\r\nUpgrade: websocket\r\n"
        f"Connection: Upgrade\r\nSec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n"
    )
    writer.write(request.encode())
    status, fields = await read_head(reader)
    assert status.startswith("HTTP/1.1 101 "), status
    assert fields["upgrade"].lower() == "websocket", fields
    assert fields["sec-websocket-accept"] == accept(key), fields
    await converse(reader, writer)
    writer.close()
    print("all came back")


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        asyncio.run(serve())
    else:
        asyncio.run(asyncio.wait_for(talk(int(sys.argv[2])), PATIENCE_S))
