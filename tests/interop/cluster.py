"""A peer of net.cluster, written from the description of Silly's wire format.

Serves on a free port, which it prints: 1 calls the address in the data back, 2 reverses, 3 sends
half a response and ends the connection, 4 responds twice, and to a session without a call.
"""

import socket
import struct
import sys

RESPONSE = 1 << 31
# Longer than a busy machine needs; the test fails, and does not hang.
PATIENCE = 60


def receive(connection, size):
    data = b""
    while len(data) < size:
        piece = connection.recv(size - len(data))
        if not piece:
            return None
        data += piece
    return data


def packet(connection):
    head = receive(connection, 4)
    return head and receive(connection, struct.unpack("<I", head)[0])


def response(session, data):
    return struct.pack("<II", 4 + len(data), session | RESPONSE) + data


def call_back(address, trace):
    host, port = address.decode().rsplit(":", 1)
    with socket.create_connection((host, int(port)), PATIENCE) as connection:
        for session in (0, 5, RESPONSE - 1):
            request = struct.pack("<IIQ", session, 9, trace) + b"from python"
            request = struct.pack("<I", len(request)) + request
            for at in range(0, len(request), 3):
                connection.sendall(request[at : at + 3])
            body = packet(connection)
            assert struct.unpack("<I", body[:4])[0] == session | RESPONSE, body
        return body[4:]


def handle(connection, body):
    session, command, trace = struct.unpack("<IIQ", body[:16])
    data = body[16:]
    if command == 1:
        connection.sendall(response(session, call_back(data, trace)))
    elif command == 2:
        connection.sendall(response(session, data[::-1]))
    elif command == 3:
        connection.sendall(response(session, b"never complete")[:9])
        return False
    elif command == 4:
        once = response(session, b"once")
        connection.sendall(response(session ^ 0x7FFF, b"no call") + once + once)
    return True


def main():
    with socket.create_server(("127.0.0.1", 0)) as server:
        print("port", server.getsockname()[1], file=sys.stderr, flush=True)
        while True:
            connection, _ = server.accept()
            connection.settimeout(PATIENCE)
            with connection:
                while (body := packet(connection)) and handle(connection, body):
                    pass


main()
