"""Prints a token of every algorithm, by PyJWT, and writes the keys to the file that is named."""

import json
import sys
import time

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, HMACAlgorithm, OKPAlgorithm, RSAAlgorithm

pair = rsa.generate_private_key(public_exponent=65537, key_size=2048)
rsa_names = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"]
keys = {name: (pair, RSAAlgorithm) for name in rsa_names}
curves = {"ES256": ec.SECP256R1(), "ES384": ec.SECP384R1(), "ES512": ec.SECP521R1()}
keys |= {name: (ec.generate_private_key(curve), ECAlgorithm) for name, curve in curves.items()}
keys["EdDSA"] = (ed25519.Ed25519PrivateKey.generate(), OKPAlgorithm)
secret = b"0123456789abcdef" * 4
keys |= {name: (secret, HMACAlgorithm) for name in ["HS256", "HS384", "HS512"]}

published = []
for name, (key, kind) in keys.items():
    public = key if isinstance(key, bytes) else key.public_key()
    jwk = kind.to_jwk(public)
    jwk = json.loads(jwk) if isinstance(jwk, str) else jwk
    jwk.pop("key_ops", None)
    published.append({**jwk, "kid": name, "alg": name})
    claims = {"sub": "ann", "aud": ["shop"], "exp": int(time.time()) + 600}
    print(name, jwt.encode(claims, key, algorithm=name, headers={"kid": name}))
with open(sys.argv[1], "w") as file:
    json.dump({"keys": published}, file)
