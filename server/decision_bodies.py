"""The bodies of decisions, made from the decisions' own fields: on a pending call, on a call, and on several."""

from dataclasses import MISSING, fields
from enum import StrEnum
from typing import Annotated, Any, Literal, Union, get_args, get_type_hints

from pydantic import Field, RootModel, create_model

from holdfast.conversation import Decision, Level, ReviewVerdict, Scope
from holdfast.conversation.judging.deciding import MOST
from holdfast.conversation.terms.decisions import BY_KIND

from .bodies import Body, ClientId, Key

MOST_EACH = 100
"""The most decisions in a request that judges each by itself; every one counts as a request of its caller."""


def _fields(value: type, **as_json: Any) -> dict[str, Any]:
    """The fields of a dataclass as fields of a body, with their descriptions; `as_json` gives some another type."""
    found = {}
    for one in fields(value):
        kind, *said = get_args(get_type_hints(value, include_extras=True)[one.name])
        found[one.name] = (Annotated[as_json.get(one.name, kind), *said], ... if one.default is MISSING else one.default)
    return found


def _literal(kind: type[StrEnum]) -> Any:
    return Literal[tuple(one.value for one in kind)]


_Scope = create_model(
    "ScopeBody", __base__=Body, __module__=__name__, __doc__=Scope.__doc__, **_fields(Scope, level=_literal(Level))
)


CLAIMED_BY = Field(
    default=None, description="The client that has claimed the call, if this is its result: nobody else's is taken then."
)


class _Decision(Body):
    def decided(self) -> Decision:
        """The decision; `InvalidDecision` if its scope cannot be used."""
        kind = BY_KIND[getattr(self, "decision")]  # noqa: B009 - each kind of body has it, as a literal
        said = {one.name: getattr(self, one.name) for one in fields(kind)}
        if said.get("scope") is not None:
            said["scope"] = Scope(**dict(said["scope"]))
        found: Decision = kind(**said)
        return found


class _Place(_Decision):
    conversation_id: str | None = Field(
        default=None,
        description="The conversation of the suspension, as the list of pending calls names it. Without it, a suspension is "
        "found only while it is open, and a repetition of a recorded decision is refused as stale.",
    )
    tool_call_id: str | None = Field(
        default=None, description="The call of the suspension. With it and the conversation, nothing has to be looked up."
    )


class _OfSuspension(_Place):
    decision_id: Key = None
    client_id: ClientId | None = CLAIMED_BY


class _OfCall(_Decision):
    decision_id: Key = None
    client_id: ClientId | None = CLAIMED_BY
    tool_call_id: str = Field(description="The call.")
    suspension_id: str | None = Field(
        default=None, description="Binds the decision to what was shown; needed once the call has been suspended twice."
    )


class _OfSeveral(_Place):
    suspension_id: str = Field(max_length=1000, description="Binds the decision to what was shown.")


def _any(base: type[_Decision], suffix: str) -> Any:
    """A body for a decision of any kind, with the fields of `base`."""
    kinds = []
    for kind, decision in BY_KIND.items():
        said = _fields(decision, arguments=dict[str, Any] | None, scope=_Scope | None, verdict=_literal(ReviewVerdict))
        name = f"{decision.__name__}{suffix}"
        said["decision"] = (Literal[kind.value], ...)
        kinds.append(create_model(name, __base__=base, __module__=__name__, __doc__=decision.__doc__, **said))
    return Annotated[Union[tuple(kinds)], Field(discriminator="decision")]  # noqa: UP007 - a union of classes made here


class _Keyed(RootModel[Any]):
    @property
    def decision_id(self) -> str | None:
        key: str | None = self.root.decision_id
        return key


class ResolveBody(_Keyed):
    """A decision about a pending call, by its kind."""

    root: _any(_OfSuspension, "Body")  # type: ignore[valid-type]


class ResolveCallBody(_Keyed):
    """A decision about a call of a conversation, by its kind."""

    root: _any(_OfCall, "CallBody")  # type: ignore[valid-type]


class RedeemBody(RootModel[Any]):
    """A decision by a link, by its kind."""

    root: _any(_Decision, "ByLink")  # type: ignore[valid-type]


class DecisionItem(RootModel[Any]):
    """One of several decisions, by its kind."""

    root: _any(_OfSeveral, "Item")  # type: ignore[valid-type]


class ResolveManyBody(Body):
    """Decisions about pending calls of one conversation, each by its suspension alone: all are taken, or none."""

    decisions: list[DecisionItem] = Field(min_length=1, max_length=MOST)
    decision_id: Key = None


class ResolveEachBody(Body):
    """Decisions about pending calls of any conversations, each taken or refused by itself."""

    decisions: list[DecisionItem] = Field(min_length=1, max_length=MOST_EACH)
    decision_id: Key = None
