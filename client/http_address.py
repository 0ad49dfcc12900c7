"""The address of a server, and the token that is shown to that server alone."""

import ipaddress
import re
from dataclasses import dataclass, field
from urllib.parse import SplitResult, urlsplit

from holdfast.errors import ConfigurationError

_TOKEN = re.compile(r"[\x21-\x7e]{1,8192}")
_PATH = re.compile(r"(?:/[A-Za-z0-9._~!$&'()*+,;=:@%-]*)*")


@dataclass(frozen=True, slots=True)
class Address:
    """A server that is reached over HTTP: the URL where its routes begin, and the caller's token (None: none is sent)."""

    url: str
    token: str | None = field(default=None, repr=False)

    @classmethod
    def of(cls, url: str, token: str | None = None, *, plain_http: bool = False) -> "Address":
        """The address, checked. No error shows the URL or the token, since either may hold a secret.

        `url` is an `https://` or `http://` URL with the path under which the server is mounted. With `plain_http`, the token
        may be sent unencrypted to another machine; else `ConfigurationError`, as for a URL that holds a password
        or is no server's, and a token that cannot be one.
        """
        parts = _split(url)
        if token is not None and not _TOKEN.fullmatch(token):
            raise ConfigurationError("token", "it is no token: a token is printable ASCII without spaces", "copy it again")
        if token is not None and parts.scheme == "http" and not plain_http and not is_loopback(parts.hostname or ""):
            problem = "it would be sent over the network unencrypted, where others can read it"
            fix = "use https://, or plain_http=True (HOLDFAST_PLAIN_HTTP) where the network itself is trusted"
            raise ConfigurationError("token", problem, fix)
        return cls(f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}", token)

    @property
    def encrypted(self) -> bool:
        """Whether requests are encrypted."""
        return self.url.startswith("https:")


def is_loopback(host: str) -> bool:
    """Whether a host, as a URL names it, is this machine itself."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _split(url: str) -> SplitResult:
    fix = "give one such as https://holdfast.example.com (HOLDFAST_URL)"
    try:
        parts = urlsplit(url)
        known = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        known = False
    if not known or not url.isascii() or not url.isprintable() or " " in url:
        raise ConfigurationError("url", "it is no URL of a server", fix)
    if "@" in parts.netloc:
        raise ConfigurationError("url", "it holds a user or a password", "leave them out, and give a token (HOLDFAST_TOKEN)")
    if parts.query or parts.fragment or not _PATH.fullmatch(parts.path):
        raise ConfigurationError("url", "it has a query, a fragment, or a path that no server has", fix)
    return parts
