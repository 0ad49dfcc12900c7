"""Who gets into a Redis besides this process: somebody without a password, somebody who listens on the way."""

from urllib.parse import parse_qs, urlsplit

from holdfast.conversation import HoldfastError
from holdfast.persistence.keys import STORE_ID
from holdfast.persistence.redis_connection import client, translated

from .check import Check, fail, ok, warn
from .redis_url import anonymous, by_socket, on_loopback, own_socket

_ASKS = ("NOAUTH", "NOPERM", "NoPermission", "WRONGPASS", "Authentication", "DENIED")
_NO = ("0", "F", "FALSE", "N", "NO")
"""What the driver takes for no."""
_PASSWORD = "set a password (redis-cli ACL SETUSER, or requirepass), and put it into HOLDFAST_REDIS_URL"  # noqa: S105 - advice


async def door_checks(url: str) -> list[Check]:
    """Whether the Redis at a URL asks who comes, and whether the way there can be listened to."""
    loopback = by_socket(url) or await on_loopback(urlsplit(url).hostname or "localhost")
    return [auth(url, loopback=loopback, open_=await answers_strangers(url)), tls(url, loopback=loopback)]


async def answers_strangers(url: str) -> bool | None:
    """Whether it lets somebody read who has no credentials; None where that is not to be known."""
    redis = client(anonymous(url), lambda: None)
    try:
        async with translated():
            await redis.get(STORE_ID)
    except HoldfastError as error:
        if any(word in str(error) for word in _ASKS):
            return False
        # A server that asks for a certificate breaks the connection off; it does so only where this process shows one.
        return False if "ssl_certfile" in parse_qs(urlsplit(url).query) else None
    finally:
        await redis.aclose()
    return True


def auth(url: str, *, loopback: bool, open_: bool | None) -> Check:
    """What follows from whether strangers are let in."""
    if own_socket(url):
        return ok("redis auth", "by a unix socket that nobody but this user gets to")
    if open_ is None:
        return warn("redis auth", "whether it lets somebody in who has no password could not be told", _PASSWORD)
    if not open_:
        return ok("redis auth", "it lets nobody in without credentials")
    if loopback:
        return warn("redis auth", "it asks for no password: everybody on this machine reads and decides everything", _PASSWORD)
    return fail("redis auth", "it asks for no password: whoever reaches it reads and decides everything", _PASSWORD)


def tls(url: str, *, loopback: bool) -> Check:
    """What follows from how the URL leads there."""
    parts = urlsplit(url)
    if parts.scheme == "rediss":
        if parse_qs(parts.query).get("ssl_cert_reqs", ["required"])[0].lower() in ("none", "optional", "cert_none"):
            return warn(
                "redis tls", "the server's certificate is not checked", "leave ssl_cert_reqs out; name the CA by ssl_ca_certs"
            )
        if parse_qs(parts.query).get("ssl_check_hostname", ["true"])[0].upper() in _NO:
            said = "the server's name is not checked: whoever has any certificate of that CA may stand in for it"
            return warn("redis tls", said, "leave ssl_check_hostname out; connect by the name that the certificate has")
        return ok("redis tls", "the connection is by TLS")
    if loopback:
        return ok("redis tls", "none, and none is needed: the connection does not leave this machine")
    said = "the connection leaves this machine without TLS: whoever listens on the way reads passwords and conversations"
    return warn("redis tls", said, "have Redis serve TLS, and use rediss:// (or a tunnel, and its address on this machine)")
