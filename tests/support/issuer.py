"""An OpenID Connect issuer on this machine: discovery, keys, tokens."""

import contextlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm
from typing_extensions import override

AUDIENCE = "trainfare"


class Issuer(HTTPServer):
    """Serves its public keys; tests change what it answers."""

    def __init__(self, now: datetime) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.now = now
        self.fetched: list[str] = []
        self.private: dict[str, Any] = {"first": rsa.generate_private_key(65537, 2048)}
        self.keys: list[dict[str, Any]] = [self.public("first", alg="RS256")]
        self.discovery: dict[str, Any] = {"issuer": self.url, "jwks_uri": f"{self.url}/keys"}
        self.documents: dict[str, bytes] = {}
        self.was_called, self.gate = threading.Event(), threading.Event()
        """`was_called` is set by a request; answers wait until `gate` is set."""
        self.gate.set()

    def public(self, kid: str, **members: str) -> dict[str, Any]:
        """Return a public key as the issuer publishes it."""
        key = self.private[kid].public_key()
        kind = RSAAlgorithm if isinstance(key, rsa.RSAPublicKey) else ECAlgorithm
        return {**kind.to_jwk(key, as_dict=True), "kid": kid, **members}

    def add_curve_key(self, kid: str) -> None:
        """Create another key and publish it."""
        self.private[kid] = ec.generate_private_key(ec.SECP256R1())
        self.keys.append(self.public(kid))

    def document(self, path: str) -> bytes | None:
        """Return the document at a path."""
        if path in self.documents:
            return self.documents[path]
        if path == "/.well-known/openid-configuration":
            return json.dumps(self.discovery).encode()
        return json.dumps({"keys": self.keys}).encode() if path == "/keys" else None

    def token(
        self, kid: str | None = "first", *, algorithm: str = "RS256", key: Any = None, **claims: Any
    ) -> str:
        """Return a token; claims that are None are omitted."""
        seconds = int(self.now.timestamp())
        standard = {
            "iss": self.url,
            "aud": AUDIENCE,
            "sub": "ada",
            "exp": seconds + 600,
            "iat": seconds,
            "project": "default",
            "scope": "read openid",
        }
        stated = {
            name: value for name, value in {**standard, **claims}.items() if value is not None
        }
        signer = self.private[kid or "first"] if key is None else key
        headers = None if kid is None else {"kid": kid}
        return jwt.encode(stated, signer, algorithm=algorithm, headers=headers)


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        """Answer with the document at the path."""
        assert isinstance(self.server, Issuer)
        self.server.fetched.append(self.path)
        self.server.was_called.set()
        self.server.gate.wait()
        body = self.server.document(self.path)
        with contextlib.suppress(ConnectionError):  # the client may have disconnected
            self.send_response(404 if body is None else 200)
            self.end_headers()
            self.wfile.write(body or b"")

    @override
    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


@contextmanager
def running_issuer(now: datetime) -> Iterator[Issuer]:
    """Yield an issuer that answers."""
    with Issuer(now) as issuer:
        threading.Thread(target=issuer.serve_forever, daemon=True).start()
        yield issuer
        issuer.shutdown()
