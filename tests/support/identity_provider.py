"""An identity provider over HTTP: its keys, and the authorization code flow for a person who is signed in there already."""

import base64
import hashlib
import json
import secrets
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import parse_qsl, urlencode, urlsplit

from joserfc import jwk, jwt

CLIENT, SECRET = "desk", "s3cret/+:%"


class Provider(ThreadingHTTPServer):
    """An identity provider that signs tokens with the key it has.

    Attributes:
        refusing: The error with which it sends browsers back; '' where it signs them in.
        claims: The claims of ID tokens that are others than they should be.
        answer: What the token endpoint answers in place of what it should.
        document: The parts of its discovery document that are others than they should be.
        seen: The sign-ins that it was asked for.
    """

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Answering)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.asked = 0
        self.refusing = ""
        self.claims, self.document, self.answer = {}, {}, None
        self.seen, self.codes = [], {}
        self.rotate()

    def rotate(self):
        self.key = jwk.ECKey.generate_key("P-256", auto_kid=True)

    def token(self, **changes):
        claims = {"iss": self.url, "aud": "holdfast", "sub": "ana", "exp": int(time.time()) + 600, "scope": "holdfast:read"}
        return jwt.encode({"alg": "ES256", "kid": self.key.kid}, claims | changes, self.key, algorithms=["ES256"])

    def back(self, query):
        """Where a browser is sent that came with this query."""
        self.seen.append(query)
        if self.refusing:
            return f"{query['redirect_uri']}?{urlencode({'error': self.refusing, 'state': query['state']})}"
        code = secrets.token_hex(8)
        self.codes[code] = query
        return f"{query['redirect_uri']}?{urlencode({'code': code, 'state': query['state']})}"

    def exchanged(self, form, authorization):
        """What the token endpoint answers: a code is good once, for whoever began, with the verifier and the secret."""
        begun = self.codes.pop(form.get("code", ""), None)
        given = base64.b64decode(authorization.removeprefix("Basic ")).decode() if authorization else ""
        proven = given == f"{CLIENT}:s3cret%2F%2B%3A%25" or form.get("client_secret") == SECRET
        challenge = base64.urlsafe_b64encode(hashlib.sha256(form.get("code_verifier", "").encode()).digest())
        if begun is None or not proven or form["redirect_uri"] != begun["redirect_uri"]:
            return 400, {"error": "invalid_grant"}
        if challenge.rstrip(b"=").decode() != begun["code_challenge"] or begun["code_challenge_method"] != "S256":
            return 400, {"error": "invalid_grant"}
        claims = {"aud": CLIENT, "nonce": begun["nonce"]} | self.claims
        return 200, {"id_token": self.token(**claims), "access_token": "unused", "token_type": "Bearer"}


class Answering(BaseHTTPRequestHandler):
    def do_GET(self):
        provider, parts = self.server, urlsplit(self.path)
        provider.asked += parts.path == "/keys"
        if parts.path == "/authorize":
            self.send_response(302)
            self.send_header("Location", provider.back(dict(parse_qsl(parts.query))))
            self.end_headers()
            return
        url = provider.url
        found = {
            "/.well-known/openid-configuration": {
                "issuer": url,
                "jwks_uri": f"{url}/keys",
                "authorization_endpoint": f"{url}/authorize",
                "token_endpoint": f"{url}/token",
            }
            | provider.document,
            "/keys": {"keys": [provider.key.as_dict(private=False)]},
        }[parts.path]
        self._answer(200, json.dumps(found).encode())

    def do_POST(self):
        form = dict(parse_qsl(self.rfile.read(int(self.headers["Content-Length"])).decode()))
        status, found = self.server.exchanged(form, self.headers.get("Authorization", ""))
        answer = self.server.answer
        self._answer(*(answer if answer is not None else (status, json.dumps(found).encode())))

    def _answer(self, status, body):
        self.send_response(status)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """Say nothing."""


@contextmanager
def identity_provider():
    """A provider that runs."""
    with Provider() as running:
        Thread(target=running.serve_forever, daemon=True).start()
        yield running
        running.shutdown()
