"""The configured ways to authenticate callers: API keys always; an identity provider's tokens; a proxy; a link."""

import ipaddress
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias
from urllib.parse import urlsplit

from holdfast.client.access import AccessScope, scopes_of
from holdfast.errors import ConfigurationError, InvalidInput

Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "Ed25519")
"""The signature algorithms that may be allowed: asymmetric ones, so that a verifier cannot make tokens."""
USUAL = ("RS256", "ES256", "EdDSA")
PROXY_SCOPES = (AccessScope.READ, AccessScope.START, AccessScope.DECIDE)
VARIABLES = (
    *(f"HOLDFAST_OIDC_{name}" for name in ("ISSUER", "AUDIENCE", "JWKS_URL", "ALGORITHMS", "ID_CLAIM", "ROLES_CLAIM")),
    *(
        f"HOLDFAST_OIDC_{name}"
        for name in ("SCOPE_CLAIM", "SCOPE_PREFIX", "SCOPES", "AGENTS_CLAIM", "CLIENT_ID", "CLIENT_SECRET")
    ),
    *(f"HOLDFAST_PROXY_{name}" for name in ("PEERS", "USER_HEADER", "ROLES_HEADER", "TOKEN_HEADER", "SCOPES")),
)
"""The known variables. Others are refused: a misspelt one could let in more callers than intended."""
_HEADER = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,63}")
_TAKEN = frozenset({"authorization", "cookie", "host", "origin", "content-type", "content-length", "idempotency-key"})
_ORIGIN = re.compile(r"https?://[a-z0-9.-]+(:[0-9]{1,5})?|https?://\[[0-9a-f:]+\](:[0-9]{1,5})?")
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True, slots=True)
class Issuer:
    """An identity provider (OpenID Connect) whose tokens are accepted.

    Attributes:
        url: The issuer, as the claim `iss` of its tokens names it.
        audience: The required value of the claim `aud`.
        jwks_url: The URL of its public keys; None: as its discovery document says.
        algorithms: The accepted signature algorithms.
        id_claim: The claim that names the principal.
        scope_claim: The claim with the scopes; a dot leads into an object (`resource_access.scopes`).
        scope_prefix: The prefix of Holdfast's scopes in that claim (`holdfast:read`).
        scopes: The scopes that every verified token has in addition.
        roles_claim: The claim with the principal's roles.
        agents_claim: The claim with the agents that the principal may touch; None: all agents.
        client_id: This server's id at the provider, for people to sign in there; None: they cannot.
        client_secret: The secret of `client_id`; None if the provider asks for none.
    """

    url: str
    audience: str
    jwks_url: str | None = None
    algorithms: tuple[str, ...] = USUAL
    id_claim: str = "sub"
    scope_claim: str = "scope"
    scope_prefix: str = "holdfast:"
    scopes: tuple[AccessScope, ...] = ()
    roles_claim: str = "roles"
    agents_claim: str | None = None
    client_id: str | None = None
    client_secret: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Proxy:
    """A proxy that authenticates.

    Attributes:
        peers: The networks from which it connects. Only from there do its plain headers, the scheme and the client's address
            count.
        user_header: The plain header that names the principal; None: there is none.
        roles_header: The plain header with the principal's roles, separated by commas.
        scopes: The scopes of a principal of a plain header.
        token_header: The header with a token of the issuer. It counts from any address, since it is signed.
    """

    peers: tuple[Network, ...] = ()
    user_header: str | None = None
    roles_header: str | None = None
    scopes: tuple[AccessScope, ...] = PROXY_SCOPES
    token_header: str | None = None

    def is_peer(self, address: str) -> bool:
        """Whether an address is one of the proxy's."""
        try:
            found = ipaddress.ip_address(address.partition("%")[0])
        except ValueError:  # a unix socket has no address
            return False
        mapped = getattr(found, "ipv4_mapped", None)
        return any((mapped or found) in network for network in self.peers)


@dataclass(frozen=True, slots=True)
class Authentication:
    """Who is let in besides the holders of API keys.

    Attributes:
        issuer: The identity provider whose tokens are accepted.
        proxy: The proxy that authenticates.
        origins: The origins of other sites whose pages may send requests, with a bearer and without cookies (CORS).
        anyone: Whether everybody is let in without credentials: for loopback alone.
    """

    issuer: Issuer | None = None
    proxy: Proxy = field(default_factory=Proxy)
    origins: tuple[str, ...] = ()
    anyone: bool = False

    def __post_init__(self) -> None:
        if self.anyone and (self.configured or self.origins or self.proxy.peers or self.proxy.token_header):
            fix = "leave --no-auth out, or unset HOLDFAST_OIDC_*, HOLDFAST_PROXY_* and HOLDFAST_CORS_ORIGINS"
            raise ConfigurationError("no_auth", "nobody is asked who they are, and others are let in too", fix)
        for origin in self.origins:
            if not _ORIGIN.fullmatch(origin):
                fix = "write it as browsers do: scheme, host in small letters, port if it is not the usual one"
                raise ConfigurationError("cors_origins", f"{origin!r:.80} is no origin", fix)

    @property
    def configured(self) -> bool:
        """Whether an identity provider or a proxy is configured."""
        return self.issuer is not None or self.proxy.user_header is not None

    @classmethod
    def of(cls, environ: Mapping[str, str], *, anyone: bool = False) -> "Authentication":
        """The authentication that the `HOLDFAST_*` variables describe; `docs/authentication.md` lists them.

        Raises:
            ConfigurationError: A variable is invalid, or does not go with another.
        """
        given = {name: value.strip() for name, value in environ.items() if name.startswith("HOLDFAST_") and value.strip()}
        for name in sorted(given):
            if name.startswith(("HOLDFAST_OIDC_", "HOLDFAST_PROXY_")) and name not in VARIABLES:
                field = name.removeprefix("HOLDFAST_").lower()
                raise ConfigurationError(field, f"there is no variable {name:.80}", f"use one of {', '.join(VARIABLES)}")
        issuer = _issuer(given)
        return cls(issuer, _proxy(given, issuer), tuple(_words(given.get("HOLDFAST_CORS_ORIGINS", ""))), anyone)


def _issuer(given: Mapping[str, str]) -> Issuer | None:
    url, audience = given.get("HOLDFAST_OIDC_ISSUER"), given.get("HOLDFAST_OIDC_AUDIENCE")
    if url is None:
        if stray := sorted(name for name in given if name.startswith("HOLDFAST_OIDC_")):
            raise ConfigurationError("oidc_issuer", f"{stray[0]} is set, and HOLDFAST_OIDC_ISSUER is not", "name the issuer")
        return None
    if audience is None:
        fix = "set HOLDFAST_OIDC_AUDIENCE to what the claim `aud` of tokens for this server names"
        raise ConfigurationError("oidc_audience", "there is none: tokens for other services would do", fix)
    if given.get("HOLDFAST_OIDC_CLIENT_SECRET") and not given.get("HOLDFAST_OIDC_CLIENT_ID"):
        fix = "set HOLDFAST_OIDC_CLIENT_ID to the id that it belongs to, or leave the secret out"
        raise ConfigurationError("oidc_client_id", "there is a secret, and no client", fix)
    jwks_url = given.get("HOLDFAST_OIDC_JWKS_URL")
    for name, value in (("oidc_issuer", url), ("oidc_jwks_url", jwks_url)):
        if value is not None and not is_safe(value):
            fix = "give one that begins with https:// (http:// does for loopback)"
            raise ConfigurationError(name, "it is no URL, or what is fetched there could be changed on its way", fix)
    algorithms = tuple(_words(given.get("HOLDFAST_OIDC_ALGORITHMS", ""))) or USUAL
    if unknown := [name for name in algorithms if name not in ALGORITHMS]:
        raise ConfigurationError("oidc_algorithms", f"{unknown[0]!r:.40} is not taken", f"use {', '.join(ALGORITHMS)}")
    return Issuer(
        url,
        audience,
        jwks_url,
        algorithms,
        id_claim=given.get("HOLDFAST_OIDC_ID_CLAIM", "sub"),
        scope_claim=given.get("HOLDFAST_OIDC_SCOPE_CLAIM", "scope"),
        scope_prefix=given.get("HOLDFAST_OIDC_SCOPE_PREFIX", "holdfast:"),
        scopes=_scopes(given, "HOLDFAST_OIDC_SCOPES", ()),
        roles_claim=given.get("HOLDFAST_OIDC_ROLES_CLAIM", "roles"),
        agents_claim=given.get("HOLDFAST_OIDC_AGENTS_CLAIM"),
        client_id=given.get("HOLDFAST_OIDC_CLIENT_ID"),
        client_secret=given.get("HOLDFAST_OIDC_CLIENT_SECRET"),
    )


def _proxy(given: Mapping[str, str], issuer: Issuer | None) -> Proxy:
    headers = {name: given.get(f"HOLDFAST_PROXY_{name.upper()}") for name in ("user_header", "roles_header", "token_header")}
    for name, header in headers.items():
        if header is not None and (not _HEADER.fullmatch(header) or header.lower() in _TAKEN):
            raise ConfigurationError(f"proxy_{name}", f"{header!r:.80} cannot be that header", "name one of the proxy's own")
    peers = _networks(_words(given.get("HOLDFAST_PROXY_PEERS", "")))
    if headers["user_header"] is not None and not peers:
        fix = "name the networks of the proxy in HOLDFAST_PROXY_PEERS, such as 10.0.0.7/32"
        raise ConfigurationError("proxy_peers", "there are none, so that anybody could send the header", fix)
    if headers["roles_header"] is not None and headers["user_header"] is None:
        raise ConfigurationError("proxy_user_header", "there is a header of roles, and none of the user", "name that too")
    if headers["token_header"] is not None and issuer is None:
        fix = "set HOLDFAST_OIDC_ISSUER and HOLDFAST_OIDC_AUDIENCE to those of its tokens"
        raise ConfigurationError("oidc_issuer", "there is none to verify the proxy's signed header", fix)
    return Proxy(peers=peers, scopes=_scopes(given, "HOLDFAST_PROXY_SCOPES", PROXY_SCOPES), **headers)


def is_safe(url: str) -> bool:
    """Whether a URL can be trusted to answer for itself: over TLS, or from this machine."""
    parts = urlsplit(url)
    here = parts.scheme == "http" and parts.hostname in _LOOPBACK
    return (parts.scheme == "https" or here) and bool(parts.hostname) and parts.username is None and not parts.fragment


def _networks(names: Sequence[str]) -> tuple[Network, ...]:
    found = []
    for name in names:
        try:
            found.append(ipaddress.ip_network(name))
        except ValueError as error:
            raise ConfigurationError("proxy_peers", str(error), "give networks such as 10.0.0.7/32 or fd00::/64") from None
    return tuple(found)


def _scopes(given: Mapping[str, str], name: str, default: tuple[AccessScope, ...]) -> tuple[AccessScope, ...]:
    if name not in given:
        return default
    try:
        return scopes_of(_words(given[name]))
    except InvalidInput as error:
        raise ConfigurationError(name.removeprefix("HOLDFAST_").lower(), error.problem, error.fix) from None


def _words(text: str) -> list[str]:
    return [word for word in re.split(r"[\s,]+", text) if word]
