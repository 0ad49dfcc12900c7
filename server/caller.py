"""The caller of a request, and what they may do."""

from dataclasses import dataclass

from holdfast.client.access import AccessScope, Quotas
from holdfast.conversation import Principal, SuspensionKind
from holdfast.conversation.terms.decisions import OF_CALLS
from holdfast.visible import without_hidden

from .refusal import Refusal
from .slots import Share

OPERATING = frozenset({AccessScope.DECIDE, AccessScope.ADMIN})
"""The scopes of an operator: a caller with one of them, other than a page, may take the places reserved for operators."""
OF_CALLER, OF_PAGE, OF_CONVERSATION, OF_MAKER, OF_OTHERS = 1 / 4, 1 / 16, 1 / 8, 1 / 2, 3 / 4
"""The largest share of a server's places for one caller; one page; all pages of a conversation; all pages of a maker; and all
callers together that are no operators."""


@dataclass(frozen=True, slots=True)
class Caller:
    """The verified sender of a request.

    Attributes:
        agents: The agents whose conversations they may touch; None for all.
        conversation_id: The one conversation that a page token may touch; None for all.
        tree: Whether a page token may also touch the conversations below that one.
        kinds: The kinds of calls that a page token may decide; None for all.
        key_id: The API key behind the credential; None without one.
        ends_at: When the credential ends, in integer milliseconds UTC; None if only its revocation ends it.
        quotas: The quotas of the API key behind the credential; None without one.
        maker: Who made a page token; empty for all but pages.
    """

    principal: Principal
    scopes: frozenset[AccessScope]
    agents: frozenset[str] | None = None
    conversation_id: str | None = None
    kinds: frozenset[SuspensionKind] | None = None
    key_id: str | None = None
    ends_at: int | None = None
    quotas: Quotas | None = None
    maker: str = ""
    tree: bool = False

    @property
    def account(self) -> tuple[str, str, str | None]:
        """The account on which requests are counted. A page has its own, so that it uses up nobody else's share."""
        return self.principal.proof, self.principal.id, self.conversation_id

    @property
    def shares(self) -> tuple[Share, ...]:
        """The shares of a server's places in which a request of this caller counts."""
        others = Share("others", OF_OTHERS, "those who do not operate have")
        if self.conversation_id is None:
            own = Share(self.account, OF_CALLER)
            return (own,) if self.scopes & OPERATING else (own, others)
        return (
            Share(self.account, OF_PAGE),
            Share(("conversation", self.conversation_id), OF_CONVERSATION, "the pages of this conversation have"),
            Share(("maker", self.maker), OF_MAKER, "the pages of your maker have"),
            others,
        )

    @property
    def name(self) -> str:
        """The principal's name for log lines, with every character visible."""
        return without_hidden(f"{self.principal.proof}:{self.principal.id}", lambda char: ascii(char)[1:-1])

    @property
    def is_page(self) -> bool:
        """Whether they came with a page token."""
        return self.conversation_id is not None

    def decides(self, kind: SuspensionKind) -> bool:
        """Whether they may decide calls of this kind."""
        return AccessScope.DECIDE in self.scopes and (self.kinds is None or kind in self.kinds)

    def executes(self, kind: SuspensionKind) -> bool:
        """Whether they may carry out calls of this kind as a client."""
        of_clients = AccessScope.CLIENT in self.scopes and kind is SuspensionKind.CLIENT_EXEC
        return of_clients and (self.kinds is None or kind in self.kinds)

    @property
    def ends(self) -> tuple[SuspensionKind, ...] | None:
        """The kinds of calls that may end with one of their clients, beside those that it has claimed; None: all."""
        if AccessScope.DECIDE in self.scopes and self.kinds is None:
            return None
        return tuple(kind for kind in SuspensionKind if self.decides(kind))

    def touches(self, agent: str) -> bool:
        """Whether they may touch the conversations of this agent."""
        return self.agents is None or agent in self.agents

    def check_kind(self, kind: SuspensionKind | None) -> None:
        """Refuse a caller who may not decide calls of this kind; None: of every kind, or an unknown one."""
        if self.kinds is not None and kind not in self.kinds:
            raise Refusal(403, "not_permitted", f"this page may only decide {', '.join(sorted(self.kinds))}", {"kind": kind})

    def check_grants(self) -> None:
        """Refuse a page that may not decide every kind of call: a grant reaches beyond the call that it is shown."""
        if self.kinds is not None and not self.kinds.issuperset(OF_CALLS):
            detail = f"this page may only decide {', '.join(sorted(self.kinds))}: it neither gives nor ends grants"
            raise Refusal(403, "not_permitted", detail, {"kind": None})

    def check_scope(self, scope: AccessScope) -> None:
        """Refuse a caller without this scope."""
        if scope not in self.scopes:
            detail = f"{self.principal.id!r} may not do this: the scope {scope.value} is missing"
            challenge = f'Bearer realm="holdfast", error="insufficient_scope", scope="{scope.value}"'
            raise Refusal(403, "not_permitted", detail, {"scope": scope.value}, {"WWW-Authenticate": challenge})

    def check_whole(self) -> None:
        """Refuse a page: its token is for some operations on one conversation."""
        if self.is_page:
            detail = f"{self.principal.id!r} may not do this: a page token allows some operations on one conversation"
            raise Refusal(403, "not_permitted", detail, {"conversation_id": self.conversation_id})

    def check_agent(self, agent: str | None) -> None:
        """Refuse a caller who may not touch this agent; None stands for all agents."""
        if self.agents is not None and (agent is None or agent not in self.agents):
            raise Refusal(403, "not_permitted", f"{self.principal.id!r} may only touch some agents", {"agent": agent})


LOCAL = Caller(Principal("local"), frozenset(AccessScope))
"""The caller of a loopback server: signed in by its link, or with sign-in turned off."""
