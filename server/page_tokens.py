"""The route of page tokens: an application's back end lends one page a small part of its own permissions, for a while."""

from dataclasses import replace
from typing import Literal

from pydantic import BaseModel, Field

from holdfast.client.access import AccessScope, TicketKind
from holdfast.conversation import Principal, Proof, SuspensionKind
from holdfast.conversation.ids import CONVERSATION_ID
from holdfast.errors import InvalidInput

from .bodies import Body
from .operation import Asked, Operation

DEFAULT_S = 900
MOST_S = 3600
LENT = (AccessScope.READ, AccessScope.DECIDE, AccessScope.START, AccessScope.CLIENT)
"""The scopes that can be lent: a page administers nothing."""


class PageTokenBody(Body):
    """A page to let in."""

    conversation_id: str = Field(
        pattern=f"^{CONVERSATION_ID.pattern}$", description="The one conversation that the page may touch."
    )
    tree: bool = Field(default=False, description="Whether it may also touch those below it, which it has delegated to.")
    scopes: list[Literal["read", "decide", "start", "client"]] = Field(
        default=["read", "decide", "start"],
        min_length=1,
        max_length=4,
        description="What the page may do; you need each of these scopes yourself. With `client`, but without `decide`, it "
        "settles only the calls that it has claimed.",
    )
    kinds: list[Literal["approval", "elicitation", "client_exec", "lost", "review", "limit"]] = Field(
        default=["elicitation", "client_exec"],
        min_length=1,
        max_length=6,
        description="The kinds of calls that it may decide; name `approval` only if the page's user is the approver, and "
        "`limit` only if they may let a turn go on.",
    )
    ttl_s: float = Field(default=DEFAULT_S, ge=1, le=MOST_S, description="For how many seconds the token is valid.")
    principal: str | None = Field(
        default=None,
        min_length=1,
        max_length=200,
        description="The id of the page's user, as you state it; the log names it. By default your own.",
    )


class PageTokenReply(BaseModel):
    """A page token."""

    token: str = Field(description="Send it as `Authorization: Bearer`; it is never shown again.")
    expires_at: int = Field(description="When it ends, in integer milliseconds UTC.")
    scopes: list[AccessScope]
    kinds: list[SuspensionKind]
    conversation_id: str
    tree: bool
    principal: str


async def page_token(asked: Asked) -> PageTokenReply:
    """A token for one page. It ends no later than its maker's credential: the API key, token or session."""
    caller, body = asked.caller, asked.body
    scopes = frozenset(AccessScope(scope) for scope in body.scopes)
    for scope in LENT:
        if scope in scopes:
            caller.check_scope(scope)
    await asked.serving.reach.check_exists(caller, body.conversation_id)
    lent = replace(
        caller,
        principal=_principal(caller.principal, body.principal),
        scopes=scopes,
        conversation_id=body.conversation_id,
        tree=body.tree,
        kinds=frozenset(SuspensionKind(kind) for kind in body.kinds),
        maker=caller.key_id or caller.name,
    )
    asked.serving.tickets.check_rate(TicketKind.PAGE, caller.account)
    secret, ticket = await asked.serving.tickets.issue(TicketKind.PAGE, lent, body.ttl_s)
    return PageTokenReply(
        token=f"hfp_{secret}",
        expires_at=ticket.expires_at,
        scopes=[scope for scope in LENT if scope in scopes],
        kinds=[kind for kind in SuspensionKind if kind.value in body.kinds],
        conversation_id=body.conversation_id,
        tree=body.tree,
        principal=lent.principal.id,
    )


def _principal(maker: Principal, stated: str | None) -> Principal:
    """The principal of a page. Only the maker vouches for a name it states; a page gets no role."""
    if stated is None:
        return Principal(maker.id, proof=maker.proof)
    try:
        return Principal(stated, proof=Proof.STATED).check_visible()
    except InvalidInput as error:
        raise InvalidInput("principal", error.problem, error.fix) from None


OPERATIONS = (
    Operation(
        "POST",
        "/v1/page-tokens",
        page_token,
        AccessScope.START,
        name="createPageToken",
        summary="A short-lived token for one of your pages, which may touch only one conversation.",
        reply=PageTokenReply,
        body=PageTokenBody,
        status=201,
    ),
)
