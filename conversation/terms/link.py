"""Links: a signed text by which one principal decides one pending call, in place of a credential.

A token is `<key id>.<terms>.<signature>`. The signature is an HMAC-SHA-256 over the store, the namespace, the key id and the
terms as they stand in the token, so no changed token has one. Whoever has the text can use it: it is a secret.
"""

import base64
import hashlib
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

from holdfast.conversation.ids import packed
from holdfast.conversation.text import jsontext
from holdfast.errors import ConfigurationError, InvalidInput, InvalidLink, LinkProblem

from .decisions import DecisionKind
from .principal import Principal, Proof

FORMAT = "holdfast.link.1"
"""The first string under each signature, so that none of anything else can pass for that of a link."""
FORM = "holdfast.link.form.1"
MOST_CHARS = 700
LONGEST_LINK_S = 90 * 86_400
"""For how many seconds a link is valid at most."""
SHOWN_CHARS = 32
"""How many characters of the digest of what was shown are in a link."""
_TOKEN = re.compile(r"[A-Za-z0-9]{1,16}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]{43}")


@dataclass(frozen=True, slots=True)
class LinkTerms:
    """What a link says.

    Attributes:
        shown: The beginning of the digest of what its suspension showed; empty if an older release suspended the call.
        principal: Whose decision it is, with the proof `link`.
        decisions: The kinds of decision that it makes.
        expires_at: When it ends, in integer milliseconds UTC by the store's clock.
        nonce: The id of the decision that is made by it.
    """

    conversation_id: str
    suspension_id: str
    shown: str
    principal: Principal
    decisions: tuple[DecisionKind, ...]
    expires_at: int
    nonce: str

    def check_time(self, now: int) -> Self:
        """The terms themselves before the link ends; then `InvalidLink`."""
        if now >= self.expires_at:
            raise InvalidLink(LinkProblem.EXPIRED)
        return self


@dataclass(frozen=True, slots=True)
class LinkKeys:
    """The keys that sign links, the first one, and check them, all, for one namespace of one store."""

    keys: Mapping[str, bytes] = field(repr=False)
    store_id: str
    namespace: str

    def __post_init__(self) -> None:
        if not self.keys:
            fix = "set HOLDFAST_LINK_KEYS=k1:<key> on servers and wherever links are made; `openssl rand -hex 32` makes a key"
            raise ConfigurationError("link_keys", "there is no key that signs links", fix)

    def signed(self, terms: LinkTerms) -> str:
        """The token of a link; `InvalidInput` if it would be too long."""
        who = terms.principal
        parts = [terms.conversation_id, terms.suspension_id, terms.shown, who.id, list(who.roles)]
        said = jsontext.dumps([*parts, [one.value for one in terms.decisions], terms.expires_at, terms.nonce])
        key_id, text = next(iter(self.keys)), _encoded(said.encode())
        token = f"{key_id}.{text}.{self._signature(FORMAT, key_id, text)}"
        if len(token) > MOST_CHARS:
            problem = f"the link would have {len(token)} characters, and {MOST_CHARS} are allowed"
            raise InvalidInput(
                "to", problem, "name a principal with a shorter id, or with the roles alone that the call asks for"
            )
        return token

    def opened(self, token: str) -> LinkTerms:
        """What a token says, once its signature is checked; else `InvalidLink`. Its time is for the caller to check."""
        key_id, text, signature = check_token(token).split(".")
        if key_id not in self.keys:
            raise InvalidLink(LinkProblem.KEY)
        if not hmac.compare_digest(signature, self._signature(FORMAT, key_id, text)):
            raise InvalidLink(LinkProblem.MALFORMED)
        conversation_id, suspension_id, shown, who, roles, decisions, expires_at, nonce = jsontext.loads(_decoded(text))
        principal, kinds = Principal(who, roles=roles, proof=Proof.LINK), tuple(map(DecisionKind, decisions))
        return LinkTerms(conversation_id, suspension_id, shown, principal, kinds, expires_at, nonce)

    def form_token(self, token: str) -> str:
        """The text by which the form of a link's own page is known."""
        return self._signature(FORM, token.partition(".")[0], token)

    def _signature(self, *parts: str) -> str:
        """`parts` are a format, the id of a key and the signed text."""
        return _encoded(hmac.new(self.keys[parts[1]], packed(self.store_id, self.namespace, *parts), hashlib.sha256).digest())


def check_token(token: object) -> str:
    """The token itself, if it has the form of one; else `InvalidLink`."""
    if isinstance(token, str) and len(token) <= MOST_CHARS and _TOKEN.fullmatch(token):
        return token
    raise InvalidLink(LinkProblem.MALFORMED)


def link_url(public_url: str, token: str) -> str:
    """The address of a link's page at the server that people reach under this URL."""
    return f"{public_url}/r/{token}"


def _encoded(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def _decoded(text: str) -> str:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode()
