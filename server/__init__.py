"""The HTTP server: conversations, decisions and event streams for any HTTP client. It works through an `AsyncClient`.

`create_app` gives an ASGI application; `holdfast serve` runs it. The server keeps no state: several run side by side, and each
may die at any time.

A function's "Raises" lists only its special errors. Besides these, a function that refuses something raises `Refusal`, and one
that reads or writes the store raises `StoreUnavailable` if Redis does not answer in time.
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
