"""Sign-in at an identity provider: the authorization code flow of OpenID Connect, with PKCE, state and nonce.

The browser keeps one secret in a cookie. State, nonce and the PKCE verifier are derived from it. The store keeps only its
digest, as a ticket that the callback uses up.
"""

import asyncio
import base64
import hashlib
import hmac
import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import httpx

from holdfast.client.access import TicketKind
from holdfast.conversation import Proof
from holdfast.redaction import PLAIN

from .authentication import Issuer
from .caller import Caller
from .discovery import AGAIN_S, FAILURES, FETCH_S, KEEP_S, Fetched, connected, document_of, json_of, place_in
from .rates import Rates
from .refusal import Refusal, too_often
from .tickets import SECRET, Tickets
from .tokens import InvalidToken, Tokens

WAY_S = 600
"""The time to sign in at the provider, in seconds."""
BEGUN_PER_S = 20
BEGUN_AT_ONCE = 200
"""How many sign-ins may begin at once from all addresses: strangers begin them, and each takes room in the store."""
SCOPE = "openid profile email"
LONGEST_CODE = 4096

logger = logging.getLogger("holdfast.server")


class CodeFlow:
    """The code flow with one provider."""

    def __init__(self, issuer: Issuer, tickets: Tickets) -> None:
        self.name = urlsplit(issuer.url).hostname or issuer.url
        """The provider's name for people: its host."""
        self._issuer = issuer
        self._client_id = issuer.client_id or ""
        self._tickets = tickets
        self._tokens = Tokens(replace(issuer, audience=self._client_id))
        self._document = Fetched(lambda http: document_of(http, issuer), f"nobody can sign in at {issuer.url}")
        self._begun = Rates(BEGUN_PER_S, BEGUN_AT_ONCE)

    async def begun(self, address: str, callback: str, next_path: str) -> tuple[str, str]:
        """The provider's URL to which the browser goes, and the secret for its cookie.

        The ticket counts for the browser's `address`; the provider sends the browser back to `callback`, which leads on to
        `next_path`.
        """
        self._tickets.check_rate(TicketKind.SIGNING_IN, address)
        if wait_s := self._begun.take(None):
            raise too_often("rate_limited", "too many sign-ins were begun", wait_s)
        place = await self._place("authorization_endpoint")
        secret = await self._tickets.begun(next_path, WAY_S)
        asked = {
            "response_type": "code",
            "client_id": self._client_id,
            "redirect_uri": callback,
            "scope": SCOPE,
            "state": _derived(secret, "state"),
            "nonce": _derived(secret, "nonce"),
            "code_challenge": _text(hashlib.sha256(_derived(secret, "verifier").encode()).digest()),
            "code_challenge_method": "S256",
        }
        return f"{place}{'&' if urlsplit(place).query else '?'}{urlencode(asked)}", secret

    async def came_back(self, secret: str | None, query: Mapping[str, str], callback: str) -> tuple[Caller, str]:
        """The person who signed in at the provider, and where the browser goes next.

        `secret` is that of the browser's cookie, `query` the provider's answer in the URL, `callback` as it was for `begun`.
        """
        if secret is None or not SECRET.fullmatch(secret):
            raise _lost()
        if not hmac.compare_digest(query.get("state", "").encode(), _derived(secret, "state").encode()):
            raise _lost()
        ticket = await self._tickets.used_up(secret)
        if ticket is None or query.get("iss", self._issuer.url) != self._issuer.url:  # RFC 9207: another provider's answer
            raise _lost()
        code = query.get("code", "")
        if not 0 < len(code) <= LONGEST_CODE:
            logger.info(
                "the identity provider signed nobody in: %s", PLAIN.redacted(ascii(query.get("error", "no code"))[:100])
            )
            raise Refusal(403, "not_signed_in", "the identity provider did not sign you in")
        token = await self._exchanged(code, secret, callback)
        try:
            caller, until = await self._tokens.caller(token, Proof.OIDC, nonce=_derived(secret, "nonce"))
        except InvalidToken as error:
            logger.warning("the identity provider's token is not accepted: %s", error)
            raise Refusal(
                403, "not_signed_in", "the identity provider's answer is not accepted; the server's log says why"
            ) from None
        if not caller.scopes:
            raise Refusal(403, "no_scopes", f"{caller.principal.id!r} has no scopes here: an administrator has to grant some")
        return replace(caller, ends_at=round(until * 1000)), ticket.next_path

    async def _exchanged(self, code: str, secret: str, callback: str) -> str:
        place = await self._place("token_endpoint")
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": callback,
            "client_id": self._client_id,
            "code_verifier": _derived(secret, "verifier"),
        }
        options: dict[str, Any] = {"data": form}
        if (client_secret := self._issuer.client_secret) is not None:
            methods = (self._document.value or {}).get("token_endpoint_auth_methods_supported")
            if isinstance(methods, list) and "client_secret_basic" not in methods and "client_secret_post" in methods:
                form["client_secret"] = client_secret
            else:
                options["auth"] = httpx.BasicAuth(quote(self._client_id, safe=""), quote(client_secret, safe=""))
        try:
            async with asyncio.timeout(FETCH_S), connected() as http:
                token = (await json_of(http, "POST", place, **options)).get("id_token")
        except FAILURES as error:
            logger.warning("the identity provider gave no token: %s", PLAIN.said(error, 300))
            raise Refusal(503, "identity_provider_unavailable", "the identity provider gave no token") from None
        if not isinstance(token, str):
            logger.warning("the identity provider's answer has no id_token")
            raise Refusal(503, "identity_provider_unavailable", "the identity provider gave no token")
        return token

    async def _place(self, name: str) -> str:
        if self._document.age_s >= KEEP_S:
            await self._document.renew()
        try:
            if self._document.value is not None:
                return place_in(self._document.value, name, self._issuer)
        except ValueError as error:
            logger.warning("nobody can sign in at %s: %s", self._issuer.url, error)
        detail = "the identity provider does not answer, or its answer is not usable"
        raise Refusal(503, "identity_provider_unavailable", detail, headers={"Retry-After": str(AGAIN_S)})


def _lost() -> Refusal:
    return Refusal(400, "sign_in_lost", "this sign-in was used, took too long, or was begun in another browser: begin again")


def _derived(secret: str, name: str) -> str:
    """One of the values derived from a secret; it reveals neither the secret nor the others: 256 bits in 43 characters."""
    return _text(hmac.digest(secret.encode(), name.encode(), "sha256"))


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
