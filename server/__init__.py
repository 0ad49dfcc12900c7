"""The HTTP server: conversations, decisions and event streams for whatever speaks HTTP; a client like any other.

`create_app` gives an ASGI application; `holdfast serve` runs it. The server keeps nothing, so that several run side by side
and each may die at any time.
"""

from .app import create_app, drain, sign_in_link
from .authentication import Authentication, Issuer, Proxy
from .authenticators import Authenticator, Credential, Presented
from .bounds import Bounds
from .caller import Caller
from .tokens import InvalidToken

__all__ = [
    "Authentication",
    "Authenticator",
    "Bounds",
    "Caller",
    "Credential",
    "InvalidToken",
    "Issuer",
    "Presented",
    "Proxy",
    "create_app",
    "drain",
    "sign_in_link",
]
