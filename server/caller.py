"""Who calls, and what they may do here."""

from dataclasses import dataclass

from holdfast.client.access import AccessScope, Quotas
from holdfast.conversation import Principal, SuspensionKind
from holdfast.visible import without_hidden

from .refusal import Refusal
from .slots import Share

OPERATING = frozenset({AccessScope.DECIDE, AccessScope.ADMIN})
"""Whoever may do one of these, and is no page, may take the places that are kept for operators."""
OF_CALLER, OF_PAGE, OF_CONVERSATION, OF_MAKER, OF_OTHERS = 1 / 4, 1 / 16, 1 / 8, 1 / 2, 3 / 4
"""Which part of a server's places one caller may hold; one page, all pages of a conversation, all pages of a maker; and all
together who are no operators."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who sends a request, as it was verified.

    Attributes:
        principal: The person or program.
        scopes: What they may do.
        agents: The agents whose conversations they may touch; None for all.
        conversation_id: The one conversation that a page token may touch; None for all.
        kinds: What a page token may decide, by what the calls wait for; None for all.
        key_id: The API key that stands behind the credential; None where none does.
        ends_at: When the credential ends, in integer milliseconds UTC; None where only its revocation ends it.
        quotas: How much the API key behind the credential may use; None where none stands there.
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

    @property
    def account(self) -> tuple[str, str, str | None]:
        """On whose account requests are counted. A page has one of its own, so that it uses up nobody else's share."""
        return self.principal.proof, self.principal.id, self.conversation_id

    @property
    def shares(self) -> tuple[Share, ...]:
        """The shares of a server's places that a request of theirs counts in."""
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
        """The principal's name, for lines of the log, in which every character is seen."""
        return without_hidden(f"{self.principal.proof}:{self.principal.id}", lambda char: ascii(char)[1:-1])

    @property
    def administers(self) -> bool:
        """Whether they administer the whole, and not some agents alone."""
        return AccessScope.ADMIN in self.scopes and self.agents is None

    @property
    def is_page(self) -> bool:
        """Whether they came with a page token."""
        return self.conversation_id is not None

    def decides(self, kind: SuspensionKind) -> bool:
        """Whether they may decide calls that wait for this."""
        return AccessScope.DECIDE in self.scopes and (self.kinds is None or kind in self.kinds)

    def touches(self, agent: str) -> bool:
        """Whether they may touch the conversations of this agent."""
        return self.agents is None or agent in self.agents

    def check_kind(self, kind: SuspensionKind | None) -> None:
        """Refuse a caller who may not decide calls that wait for this; None stands for all of them, or one that is not known.

        Raises:
            Refusal: The caller may decide others alone.
        """
        if self.kinds is not None and kind not in self.kinds:
            detail = f"this page may decide {', '.join(sorted(self.kinds))} alone"
            raise Refusal(403, "not_permitted", detail, {"kind": kind})

    def check_grants(self) -> None:
        """Refuse a page that may not decide whatever waits in its conversation: a grant reaches beyond the call it is shown.

        Raises:
            Refusal: The page may decide calls that wait for some things alone.
        """
        if self.kinds is not None and not self.kinds.issuperset(SuspensionKind):
            detail = f"this page may decide {', '.join(sorted(self.kinds))} alone: it neither gives nor ends grants"
            raise Refusal(403, "not_permitted", detail, {"kind": None})

    def check_scope(self, scope: AccessScope) -> None:
        """Refuse a caller without this scope.

        Raises:
            Refusal: The caller has it not.
        """
        if scope not in self.scopes:
            detail = f"{self.principal.id!r} may not do this: it takes the scope {scope.value}"
            challenge = f'Bearer realm="holdfast", error="insufficient_scope", scope="{scope.value}"'
            raise Refusal(403, "not_permitted", detail, {"scope": scope.value}, {"WWW-Authenticate": challenge})

    def check_whole(self) -> None:
        """Refuse a page.

        Raises:
            Refusal: The caller has a page token, which is for some operations on one conversation.
        """
        if self.is_page:
            detail = f"{self.principal.id!r} may not do this: a page token is for some things, and for one conversation alone"
            raise Refusal(403, "not_permitted", detail, {"conversation_id": self.conversation_id})

    def check_agent(self, agent: str | None) -> None:
        """Refuse a caller who may not touch this agent; None stands for all of them.

        Raises:
            Refusal: The caller may not touch it.
        """
        if self.agents is not None and (agent is None or agent not in self.agents):
            raise Refusal(403, "not_permitted", f"{self.principal.id!r} may touch some agents alone", {"agent": agent})


LOCAL = Caller(Principal("local"), frozenset(AccessScope))
"""Whoever has signed in over the link of a server on loopback, or reaches one that asks nobody."""
