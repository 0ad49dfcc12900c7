"""The configured ways to authenticate callers: API keys always; an identity provider's tokens; a proxy; a link."""

import ipaddress
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from holdfast.client.access import AccessScope, scopes_of
from holdfast.errors import ConfigurationError, InvalidInput

Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "Ed25519")
"""The signature algorithms that may be allowed: asymmetric ones, so that a verifier cannot make tokens."""
USUAL = ("RS256", "ES256", "EdDSA")
PROXY_SCOPES = (AccessScope.READ, AccessScope.START, AccessScope.DECIDE)
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


def _variables(kind: type, beginning: str, **others: str) -> dict[str, str]:
    """The variable of each field of a class, by the field's name."""
    return {one.name: beginning + others.get(one.name, one.name).upper() for one in fields(kind)}


_OIDC, _PROXY = _variables(Issuer, "HOLDFAST_OIDC_", url="issuer"), _variables(Proxy, "HOLDFAST_PROXY_")
VARIABLES = (*_OIDC.values(), *_PROXY.values())
"""The known variables. Others are refused: a misspelt one could let in more callers than intended."""


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
            raise ConfigurationError("no_auth", "--no-auth lets everybody in, and other settings say who is let in", fix)
        for origin in self.origins:
            if not _ORIGIN.fullmatch(origin):
                fix = "write it as browsers do: the scheme, the host in small letters, and a port that is not the default"
                raise ConfigurationError("cors_origins", f"{origin!r:.80} is no origin", fix)

    @property
    def configured(self) -> bool:
        """Whether an identity provider or a proxy is configured."""
        return self.issuer is not None or self.proxy.user_header is not None

    @classmethod
    def of(cls, environ: Mapping[str, str], *, anyone: bool = False) -> "Authentication":
        """The authentication that the `HOLDFAST_*` variables describe; `ConfigurationError` if they are invalid together."""
        given = {name: value.strip() for name, value in environ.items() if name.startswith("HOLDFAST_") and value.strip()}
        for name in sorted(given):
            if name.startswith(("HOLDFAST_OIDC_", "HOLDFAST_PROXY_")) and name not in VARIABLES:
                field = name.removeprefix("HOLDFAST_").lower()
                raise ConfigurationError(field, f"there is no variable {name:.80}", f"use one of {', '.join(VARIABLES)}")
        issuer = _issuer(given)
        return cls(issuer, _proxy(given, issuer), tuple(_words(given.get("HOLDFAST_CORS_ORIGINS", ""))), anyone)


def _issuer(given: Mapping[str, str]) -> Issuer | None:
    said: dict[str, Any] = {name: given[variable] for name, variable in _OIDC.items() if variable in given}
    if "url" not in said:
        if said:
            stray = min(_OIDC[name] for name in said)
            raise ConfigurationError("oidc_issuer", f"{stray} is set, and HOLDFAST_OIDC_ISSUER is not", "name the issuer")
        return None
    if "audience" not in said:
        fix = "set HOLDFAST_OIDC_AUDIENCE to the claim `aud` of the tokens for this server"
        raise ConfigurationError("oidc_audience", "without it, tokens for other services would be accepted", fix)
    if "client_secret" in said and "client_id" not in said:
        fix = "set HOLDFAST_OIDC_CLIENT_ID to the client of the secret, or leave the secret out"
        raise ConfigurationError("oidc_client_id", "a client secret is set without a client id", fix)
    for name, place in (("url", "oidc_issuer"), ("jwks_url", "oidc_jwks_url")):
        if name in said and not is_safe(said[name]):
            fix = "give a URL that begins with https:// (on loopback also http://)"
            raise ConfigurationError(place, "it is no URL, or answers to it could be changed on the way", fix)
    said["algorithms"] = tuple(_words(said.get("algorithms", ""))) or USUAL
    if unknown := [name for name in said["algorithms"] if name not in ALGORITHMS]:
        raise ConfigurationError("oidc_algorithms", f"{unknown[0]!r:.40} is not accepted", f"use {', '.join(ALGORITHMS)}")
    return Issuer(**said | _scopes("oidc_scopes", said))


def _proxy(given: Mapping[str, str], issuer: Issuer | None) -> Proxy:
    said: dict[str, Any] = {name: given[variable] for name, variable in _PROXY.items() if variable in given}
    for name in ("user_header", "roles_header", "token_header"):
        if name in said and (not _HEADER.fullmatch(said[name]) or said[name].lower() in _TAKEN):
            problem = f"{said[name]!r:.80} cannot be that header"
            raise ConfigurationError(f"proxy_{name}", problem, "name a header that only the proxy sets")
    said["peers"] = _networks(_words(said.get("peers", "")))
    if "user_header" in said and not said["peers"]:
        fix = "name the networks of the proxy in HOLDFAST_PROXY_PEERS, such as 10.0.0.7/32"
        raise ConfigurationError("proxy_peers", "without them, anybody could send the proxy's header", fix)
    if "roles_header" in said and "user_header" not in said:
        raise ConfigurationError("proxy_user_header", "a header of roles is set without a header of the user", "set both")
    if "token_header" in said and issuer is None:
        fix = "set HOLDFAST_OIDC_ISSUER and HOLDFAST_OIDC_AUDIENCE to those of its tokens"
        raise ConfigurationError("oidc_issuer", "without an issuer, the proxy's signed header cannot be verified", fix)
    return Proxy(**said | _scopes("proxy_scopes", said))


def is_safe(url: str) -> bool:
    """Whether a URL can be trusted to answer for itself: over TLS, or from this machine."""
    parts = urlsplit(url)
    here = parts.scheme == "http" and parts.hostname in _LOOPBACK
    return (parts.scheme == "https" or here) and bool(parts.hostname) and parts.username is None and not parts.fragment


def _networks(names: Sequence[str]) -> tuple[Network, ...]:
    try:
        return tuple(map(ipaddress.ip_network, names))
    except ValueError as error:
        raise ConfigurationError("proxy_peers", str(error), "give networks such as 10.0.0.7/32 or fd00::/64") from None


def _scopes(field: str, said: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return {"scopes": scopes_of(_words(said["scopes"]))} if "scopes" in said else {}
    except InvalidInput as error:
        raise ConfigurationError(field, error.problem, error.fix) from None


def _words(text: str) -> list[str]:
    return [word for word in re.split(r"[\s,]+", text) if word]
