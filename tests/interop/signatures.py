"""Signs requests with http-message-signatures: `keys DIRECTORY` writes key pairs there, and
`send URL DIRECTORY` sends a signed request with each of them, good ones and altered ones."""

import base64
import hashlib
import http.client
import sys
import uuid
from pathlib import Path
from urllib.parse import urlsplit

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from http_message_signatures import HTTPMessageSigner, HTTPSignatureKeyResolver, algorithms

ALGORITHMS = {
    "hmac-sha256": algorithms.HMAC_SHA256,
    "ed25519": algorithms.ED25519,
    "ecdsa-p256-sha256": algorithms.ECDSA_P256_SHA256,
    "rsa-pss-sha512": algorithms.RSA_PSS_SHA512,
    "rsa-v1_5-sha256": algorithms.RSA_V1_5_SHA256,
}
SECRET = b"0123456789abcdef0123456789abcdef"


def write_keys(directory):
    pem = serialization.Encoding.PEM
    for name in ALGORITHMS:
        if name == "hmac-sha256":
            continue
        if name == "ed25519":
            pair = ed25519.Ed25519PrivateKey.generate()
        elif name.startswith("ecdsa"):
            pair = ec.generate_private_key(ec.SECP256R1())
        else:
            pair = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        private = pair.private_bytes(
            pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        spki = serialization.PublicFormat.SubjectPublicKeyInfo
        (directory / f"{name}.key").write_bytes(private)
        (directory / f"{name}.pub").write_bytes(pair.public_key().public_bytes(pem, spki))


class Keys(HTTPSignatureKeyResolver):
    def __init__(self, directory):
        self.directory = directory

    def resolve_private_key(self, key_id):
        if key_id == "hmac-sha256":
            return SECRET
        return (self.directory / f"{key_id}.key").read_bytes()

    def resolve_public_key(self, key_id):
        raise NotImplementedError


class Message:
    def __init__(self, method, url, body):
        digest = base64.b64encode(hashlib.sha256(body).digest()).decode()
        self.method, self.url, self.body = method, url, body
        self.headers = {"Host": urlsplit(url).netloc, "Content-Digest": f"sha-256=:{digest}:"}


def send(message, method=None, target=None, body=None):
    url = urlsplit(message.url)
    connection = http.client.HTTPConnection(url.netloc, timeout=60)
    content = message.body if body is None else body
    connection.request(
        method or message.method, target or f"{url.path}?{url.query}", content, message.headers
    )
    response = connection.getresponse()
    return response.status, response.getheader("x-seen")


def main():
    command, *rest = sys.argv[1:]
    if command == "keys":
        return write_keys(Path(rest[0]))
    url, directory = rest[0], Path(rest[1])
    for name, algorithm in ALGORITHMS.items():
        message = Message("POST", f"{url}/orders?a=1&b=c%20d", b'{"n": 1}')
        signer = HTTPMessageSigner(signature_algorithm=algorithm, key_resolver=Keys(directory))
        components = ("@method", "@authority", "@path", "@query", "content-digest")
        nonce = uuid.uuid4().hex
        signer.sign(message, key_id=name, covered_component_ids=components, nonce=nonce)
        status, owner = send(message)
        altered = [
            send(message, method="PUT")[0],
            send(message, target="/orders?a=2&b=c%20d")[0],
            send(message, target="/other?a=1&b=c%20d")[0],
            send(message, body=b'{"n": 2}')[0],
            send(message)[0],
        ]
        print(name, status, owner, *altered)


main()
