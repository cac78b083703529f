"""A server with TLS that ends its first connection of HTTP/2 with GOAWAY and HTTP_1_1_REQUIRED.

`goaway.py LAST` names the last stream that it may have processed. Later ones serve HTTP/1.1 alone.
"""

import socket
import ssl
import sys
import threading

LAST = int(sys.argv[1])
HTTP_1_1_REQUIRED = 0xD


def frame(kind, payload):
    return len(payload).to_bytes(3, "big") + bytes([kind, 0]) + bytes(4) + payload


def read_http2(connection):
    connection.sendall(frame(4, b""))
    received = b""
    # HEADERS follow the preface, the settings of the client and perhaps others.
    while not has_headers(received):
        some = connection.recv(65536)
        if not some:
            return
        received += some
    words = LAST.to_bytes(4, "big") + HTTP_1_1_REQUIRED.to_bytes(4, "big")
    connection.sendall(frame(7, words))
    # Ends once the client has read it.
    connection.unwrap()


def has_headers(received):
    at = len(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
    while at + 9 <= len(received):
        if received[at + 3] == 1:
            return True
        at += 9 + int.from_bytes(received[at : at + 3], "big")
    return False


def read_http1(connection):
    received = b""
    while some := connection.recv(65536):
        received += some
        if b"\r\n\r\n" in received:
            method = received.split(b" ")[0]
            body = b"HTTP/1.1 " + method
            head = f"HTTP/1.1 200 OK\r\ncontent-length: {len(body)}\r\n\r\n"
            connection.sendall(head.encode() + body)
            received = b""


def serve(connection, context):
    try:
        with context.wrap_socket(connection, server_side=True) as secure:
            is_http2 = secure.selected_alpn_protocol() == "h2"
            print("http2" if is_http2 else "http1", file=sys.stderr, flush=True)
            (read_http2 if is_http2 else read_http1)(secure)
    except OSError:
        pass


context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain("server.pem", "server.key")
context.set_alpn_protocols(["h2", "http/1.1"])
listener = socket.create_server(("127.0.0.1", 0))
print("listening", listener.getsockname()[1], file=sys.stderr, flush=True)
while True:
    connection, _ = listener.accept()
    threading.Thread(target=serve, args=(connection, context), daemon=True).start()
