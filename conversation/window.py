"""What of a transcript is sent to the model: a pure function of the messages, the agent's terms and the providers' counts.

Tokens are estimated from bytes. Each answer says how many tokens its request really had, and the estimates of later requests
under the same spec are corrected by the largest such difference: no tokenizer is needed, and every process comes to the same
result.

What is sent changes its beginning only in steps, a quarter of the room apart, since a provider's cache of prompts knows a
request by its beginning. A step is taken before a message, never between a call and its results: old results become stubs, and
the oldest messages are left out until the next quarter has room. Of a turn that is left out in part, the message that asked for
it stays, so a request begins with what somebody asked. A long result is a preview from its first request on.

With `Context.compact` the oldest messages are summarised in place of being left out. Whether that is due is decided here, too;
the walk begins anew behind each summary. Where one has failed, the oldest messages are left out, and another one is due a step
later.

Where a provider has refused a request for its length, the budget is two thirds of what that had, until the next summary: a
summary is due, or the oldest messages are left out.
"""

import copy
from collections import Counter, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any, TypeAlias

from pydantic import Field

from holdfast.conversation import notes
from holdfast.conversation.log.transcript import PAUSED, Compaction, is_ok
from holdfast.conversation.record import Record
from holdfast.conversation.sizes import asking_tokens, budget_of, fixed_tokens, message_tokens
from holdfast.conversation.terms.context import READ_RESULT, Context
from holdfast.conversation.terms.spec import AgentSpec
from holdfast.conversation.text import excerpt, jsontext
from holdfast.conversation.text.envelope import summarized, turn_ends
from holdfast.conversation.text.tokens import text_tokens

Message: TypeAlias = dict[str, Any]
Reported: TypeAlias = Mapping[int, tuple[str, int]]
"""By an answer's place: the digest of the spec, and how many tokens the request had, as far as the provider said so."""

STEPS = 4
"""How many steps fit into the room for messages."""
PARTS = 8
"""A correction of the estimates is a multiple of 1/8, so that it changes seldom."""
MOST_CORRECTED = 4
LEAST_TOKENS = 500
"""The estimate below which a request corrects nothing: it is mostly what surrounds the words."""
LEAST_SAVED, LEAST_PART = 1024, 0.3
"""What a summary has to save, in tokens and as a part of those before; in a small window a step is enough."""


NONE: Mapping[int, bool] = MappingProxyType({})
LEAST_MODEL = 4000
"""The smallest window of a model, in tokens."""
MOST_DOUBLED = 4
"""How often the wait for the next summary doubles where one after the other fails: up to 16 steps."""


class Rule(StrEnum):
    """Why something of the transcript is not sent as it is."""

    TRUNCATED = "truncated"  # the oldest messages: they would not fit into the budget
    RETAIN = "retain"  # a result beyond what `Context.retain` says of its tool: a stub stands in its place
    PREVIEW = "preview"  # a result of more tokens than `Context.preview`: its beginning and its size stand in its place
    COMPACTED = "compacted"  # the oldest messages: a summary stands in their place


class LeftOut(Record):
    """Messages that are not sent, or a result that is sent as a stub or as a preview."""

    first: int = Field(description="The place of the first message among all of the conversation, from 0.")
    last: int = Field(description="The place of the last one.")
    rule: Rule = Field(description="Why they are left out.")
    tokens: int = Field(description="About how many tokens that saves.")
    tool_call_id: str = Field(
        default="", description="The call whose result is a stub or a preview; empty of messages that are not sent."
    )


@dataclass(frozen=True, slots=True)
class Summarizing:
    """The messages that a summary is to stand for.

    Attributes:
        messages: What is summarised: the last summary, and the messages since, as they were sent.
        first: The place of the first message that stays as it is.
        asked: The place of the message that asked for the turn of that one, if it is summarised; it is sent as well.
        tokens: About how many tokens the messages of the request have without the summary.
        rest: About how many the others have, that message included.
        least: How many tokens the summary has to save.
        behind: Whether the first message is the last summary.
    """

    messages: list[Message]
    first: int
    asked: int | None
    tokens: int
    rest: int
    least: int
    behind: bool = False

    def saves(self, summary: str) -> int | None:
        """How many tokens the request has less with the summary; None if it saves too little."""
        saved = self.tokens - self.rest - message_tokens(_summary(summary, self.first))
        return saved if saved >= self.least else None


@dataclass(frozen=True, slots=True)
class Window:
    """The messages for a request.

    Attributes:
        messages: The messages, without the instructions.
        tokens: About how many tokens the request has, with instructions and tools.
        budget: How many it may have; None if the agent does not bound them.
        left_out: What is not sent as it is, in the order of the transcript.
        cached: How many messages the request before this one began with, too; 0 after a step.
        withheld: The name of the tool that is not offered yet: `read_result`, until a result has become a preview; else empty.
        due: What is summarised before such a request; None if nothing is.
    """

    messages: list[Message]
    tokens: int
    budget: int | None = None
    left_out: tuple[LeftOut, ...] = ()
    cached: int = 0
    withheld: str = ""
    due: Summarizing | None = None

    @property
    def fits(self) -> bool:
        """Whether the request is within its budget, or is made smaller first. If not, it is as small as it can be."""
        return self.budget is None or self.tokens <= self.budget or self.due is not None


def window(
    spec: AgentSpec,
    messages: Sequence[Message],
    reported: Reported,
    stopped: str = "",
    *,
    compacted: Compaction | None = None,
    failed: Collection[int] = (),
    refused: Mapping[int, bool] = NONE,
    by_hand: bool = False,
) -> Window:
    """What an agent's next request has of the messages; `reported` is what providers said of earlier ones.

    `stopped` is the bound, in words, of a turn that has reached one: the request for its last words ends with that.
    `compacted` is the last summary, `failed` the places of those that have failed since, and `refused` those of requests that
    were too long, as a `Transcript` has them. `by_hand`: a summary is due whatever the threshold, if it saves enough.
    """
    walk = Walk(spec, compacted)
    walk.extend(messages[walk.length :], reported, failed, refused)
    return walk.window(stopped, by_hand=by_hand)


def _summary(summary: str, of_messages: int) -> Message:
    """The message that stands for so many first messages: the model's notes, in an envelope of Holdfast's own."""
    return {"role": "user", "content": summarized(summary, of_messages)}


def closing(stopped: str) -> tuple[Message, ...]:
    """What stands at the end of the request for a turn's last words, and nowhere in the transcript."""
    return ({"role": "user", "content": turn_ends(stopped)},) if stopped else ()


@dataclass(slots=True)
class _Group:
    """Messages that stay together: one of somebody, or an answer with the results of its calls and what continues it.

    A member is a message with its place and with the tokens that it had when it was first sent.
    """

    role: str
    members: list[tuple[int, Message, int]] = field(default_factory=list)
    size: int = 0
    noted: int | None = None  # how many tokens it has in a request for a summary, once that is known

    @property
    def first(self) -> int:
        return self.members[0][0]

    def goes_on_with(self, message: Message) -> bool:
        """Whether a message belongs to this group: a result, a word on the answer, or the continuation of a paused one."""
        last = self.members[-1][1]
        role = message["role"]
        return role == "tool" or "misfit" in message or (role == "assistant" and last.get("finish_reason") == PAUSED)


class Walk:
    """The walk of `window` over a transcript, which can be continued as that grows.

    Attributes:
        length: How many messages it has passed, or left to the summary behind which it begins.
        behind: That summary, if there is one.
    """

    def __init__(self, spec: AgentSpec, compacted: Compaction | None = None) -> None:
        self.length = 0
        self._digest = spec.digest
        self.behind = compacted
        self._terms, self._fixed, self._budget = spec.context or Context(preview=None), fixed_tokens(spec), budget_of(spec)
        self._declared, self._small, self._asking = self._budget, (self._terms.budget or 0) < LEAST_MODEL, asking_tokens(spec)
        self._preview = self._terms.preview if spec.tool(READ_RESULT) is not None else None
        self._withheld = READ_RESULT if self._preview is not None else ""
        self._groups: deque[_Group] = deque()
        self._asked: _Group | None = None  # what somebody asked, if the window begins after it
        self._kept = 0  # how many messages the groups have
        self._parts = PARTS
        self._shown = 0  # tokens of what is sent
        self._since = 0  # tokens since the last step
        self._cached = 0
        self._stubs: dict[int, tuple[Message, LeftOut]] = {}
        self._left: list[LeftOut] = []
        self._head: Message | None = None  # the summary
        self._failed: Collection[int] = ()
        self._refused: Mapping[int, bool] = {}
        self._fails = 0  # how many summaries have failed since
        self._waited = 0  # tokens since the last of these
        self._due: Summarizing | None = None  # what is to be summarised before a request at this place
        if compacted is not None:
            self._begin_behind(compacted)

    def _begin_behind(self, compacted: Compaction) -> None:
        self.length, self._head = compacted.messages, _summary(compacted.summary, compacted.messages)
        self._shown = message_tokens(self._head)
        if compacted.asked is not None:
            place, message = compacted.asked
            tokens = message_tokens(message)
            self._asked = _Group("user", [(place, message, tokens)], tokens)
            self._shown += tokens

    def copied(self) -> "Walk":
        """A walk that goes on from here, and leaves this one as it is."""
        copied, groups = copy.copy(self), deque(map(copy.copy, self._groups))
        if groups:
            groups[-1].members = list(groups[-1].members)  # the others get no more
        vars(copied).update(_groups=groups, _stubs=dict(self._stubs), _left=list(self._left))
        return copied

    def extend(
        self,
        messages: Iterable[Message],
        reported: Reported,
        failed: Collection[int] = (),
        refused: Mapping[int, bool] = NONE,
    ) -> None:
        """The next messages of the transcript. Reports on requests under another spec do not count.

        `failed` are the places, of all messages, at which a summary has failed; `refused` has those of requests that were too
        long (True), and of where their turns were over (False).
        """
        self._failed, self._refused = failed, refused
        for message in messages:
            self._reach()
            digest, tokens = reported.get(self.length, ("", 0))
            self._add(message, tokens if digest == self._digest else None)
            self.length += 1

    def window(self, stopped: str = "", *, by_hand: bool = False) -> Window:
        """What a request has at this place, where the walk ends; `stopped` and `by_hand` as `window` takes them."""
        self._reach()
        last = closing(stopped)
        self._shown += sum(map(message_tokens, last))
        self._settle(compacts=not stopped, by_hand=by_hand)
        groups = (*((self._asked,) if self._asked is not None else ()), *self._groups)
        return Window(
            messages=[*self._sent(groups), *last],
            tokens=(self._shown + self._fixed) * self._parts // PARTS,
            budget=self._budget,
            left_out=tuple(sorted((*self._left_out(), *(one for _, one in self._stubs.values())), key=lambda left: left.first)),
            cached=self._cached,
            withheld=self._withheld,
            due=self._due,
        )

    def _sent(self, groups: Iterable[_Group]) -> list[Message]:
        """The messages of these groups as they are sent, behind the summary."""
        sent = self._as_sent(groups)
        return sent if self._head is None else [self._head, *sent]

    def _as_sent(self, groups: Iterable[_Group]) -> list[Message]:
        members = (member for group in groups for member in group.members)
        return [self._stubs[place][0] if place in self._stubs else message for place, message, _ in members]

    def _left_out(self) -> list[LeftOut]:
        behind = self.behind
        if behind is None:
            return self._left
        whole = LeftOut(first=0, last=behind.messages - 1, rule=Rule.COMPACTED, tokens=max(behind.saved, 0))
        return [whole, *self._left]

    def _add(self, message: Message, reported: int | None) -> None:
        goes_on = bool(self._groups) and self._groups[-1].goes_on_with(message)
        if not goes_on:
            self._settle()
        if message["role"] == "assistant":
            self._answered(reported)
        if not goes_on:
            self._groups.append(_Group(message["role"]))
        tokens, group = self._first_sent(message), self._groups[-1]
        group.members.append((self.length, message, tokens))
        group.size, group.noted = group.size + tokens, None
        self._kept += 1
        self._shown += tokens
        self._since += tokens
        self._waited += tokens

    def _first_sent(self, message: Message) -> int:
        """The tokens of a message as it is first sent; a long result is a preview then, whatever follows."""
        tokens, content, tool = message_tokens(message), message.get("content"), message.get("name", "")
        if self._preview is None or message["role"] != "tool" or not isinstance(content, str) or tool == READ_RESULT:
            return tokens
        bounds = self._terms.of_tool(tool)
        if text_tokens(content) <= self._preview or (bounds is not None and bounds.never):
            return tokens
        call = message["tool_call_id"]
        shown = {**message, "content": excerpt.preview(content, call, self._preview)}
        saved = tokens - message_tokens(shown)
        if saved <= 0:
            return tokens
        self._withheld = ""
        self._stubs[self.length] = shown, _left(self.length, Rule.PREVIEW, saved, call)
        return tokens - saved

    def _answered(self, reported: int | None) -> None:
        if self.behind is not None and self.length < self.behind.settled:
            return  # its request did not begin with the summary
        estimate = self._shown + self._fixed
        if reported is not None and estimate >= LEAST_TOKENS:
            self._parts = max(self._parts, min(-(-reported * PARTS // estimate), MOST_CORRECTED * PARTS))
        self._cached = self._kept + (len(self._asked.members) if self._asked is not None else 0) + (self._head is not None)

    def _settle(self, *, compacts: bool = True, by_hand: bool = False) -> None:
        """Take a step if the last one is a step's length ago, or if there is no room; none if a summary is due (`compacts`)."""
        if self._budget is None:
            return
        room, step = self._room(self._budget)
        self._due = self._to_summarise(room, step, by_hand=by_hand) if compacts else None
        if self._due is None and (self._since >= step or self._shown > room):
            self._step(room, step)

    def _room(self, budget: int) -> tuple[int, int]:
        """How many tokens the messages may have, and the length of a step."""
        room = budget * PARTS // self._parts - self._fixed
        return room, max(room // STEPS, 1)

    def _reach(self) -> None:
        """Be at the next place: a summary may have failed there, and a request may have been too long."""
        if self._budget is None:
            return
        failed, refused = self.length in self._failed and self._terms.compact is not None, self._refused.get(self.length)
        if failed:
            self._fails, self._waited = self._fails + 1, 0
            self._step(*self._room(self._budget))
        if refused is False:
            self._budget = self._declared
        elif refused:
            self._settle(compacts=False)
            self._budget = min(self._budget, (self._fixed + self._shown * 2 // 3) * self._parts // PARTS)
            if failed:
                self._step(*self._room(self._budget))

    def _step(self, room: int, step: int) -> None:
        self._since, before = 0, (len(self._stubs), self._shown)
        self._retain()
        summarises = self._terms.compact is not None and not self._fails and self._shown <= room
        while not summarises and self._shown > room - step and len(self._groups) > 1:
            if self._kept - len(self._groups[0].members) < self._terms.keep and self._shown <= room:
                break
            self._leave_out(self._groups.popleft())
        if (len(self._stubs), self._shown) != before:
            self._cached = 0

    def _to_summarise(self, room: int, step: int, *, by_hand: bool) -> Summarizing | None:
        """What is to be summarised before a request at this place; None if nothing is, or if that would save too little."""
        compact = self._terms.compact
        waits = step * 2 ** min(self._fails - 1, MOST_DOUBLED) if self._fails else 0
        early = self._shown <= compact.at * room or self._waited < waits if compact is not None else True
        if compact is None or (early and not by_hand):
            return None
        if self.behind is not None and self.length <= self.behind.settled:
            return None  # there was one just now
        groups = list(self._groups)
        first = len(groups) - 1
        while first > 0 and groups[first].role == groups[first - 1].role == "user":
            first -= 1  # what the model has not answered yet
        kept, most = sum(len(group.members) for group in groups[first:]), self._most_summarised(room)
        sizes = [self._noted(group) for group in groups[:first]]
        size = sum(sizes)
        while first > 0 and (
            kept < (compact.keep or 0) or groups[first].role == groups[first - 1].role == "user" or size > most
        ):
            first -= 1
            kept += len(groups[first].members)
            size -= sizes[first]
        if first <= 0:
            return None
        found = self._summarising(groups, first, step)
        return found if found.saves("") is not None else None

    def _noted(self, group: _Group) -> int:
        if group.noted is None:
            group.noted = notes.tokens(self._as_sent([group]))
        return group.noted

    def _most_summarised(self, room: int) -> int:
        """How many tokens the messages of a request for a summary may have: the model that summarises takes no more, either."""
        if self._small:
            return room * 3 // 2  # no model is as small, and the instructions for summaries alone would take most of it
        in_front = [*([self._head] if self._head is not None else []), *self._as_sent([self._asked] if self._asked else [])]
        return (self._budget or 0) * PARTS // self._parts - self._asking - notes.tokens(in_front)

    def _summarising(self, groups: list[_Group], first: int, step: int) -> Summarizing:
        """The summary of the groups in front of one, and of what is sent in front of them."""
        oldest = [*((self._asked,) if self._asked is not None else ()), *groups[:first]]
        asked = None
        if groups[first].role != "user":
            asked = next((group for group in reversed(oldest) if group.role == "user"), None)
        size = sum(group.size for group in oldest) + (message_tokens(self._head) if self._head is not None else 0)
        return Summarizing(
            messages=self._sent(oldest),
            first=groups[first].first,
            asked=None if asked is None else asked.first,
            tokens=self._shown,
            rest=self._shown - size + (asked.size if asked is not None else 0),
            least=max(int(self._shown * LEAST_PART), min(LEAST_SAVED, step)),
            behind=self._head is not None,
        )

    def _retain(self) -> None:
        if not self._terms.retain:
            return
        turn, counts, sizes = 1, Counter[str](), Counter[str]()
        for group in reversed(self._groups):
            for place, message, tokens in reversed(group.members):
                tool = message.get("name", "")
                bounds = self._terms.of_tool(tool) if message["role"] == "tool" else None
                if bounds is None or bounds.never:
                    continue
                counts[tool] += 1
                sizes[tool] += tokens
                exceeded = bounds.exceeded(age=turn, count=counts[tool], tokens=sizes[tool])
                if exceeded is not None and not self._is_stub(place):
                    self._shorten(group, place, message, tokens, exceeded)
            turn += group.role == "user"

    def _is_stub(self, place: int) -> bool:
        return place in self._stubs and self._stubs[place][1].rule is Rule.RETAIN

    def _shorten(self, group: _Group, place: int, message: Message, tokens: int, bound: str) -> None:
        whole = message_tokens(message)
        why = f"this result, of about {whole} tokens, is not shown any more (Retain({bound}) of {message.get('name', '')!r})"
        stub = {**message, "content": jsontext.dumps({"ok": is_ok(message), "left_out": why})}
        left = message_tokens(stub)
        if left < tokens:
            self._stubs[place] = stub, _left(place, Rule.RETAIN, whole - left, message.get("tool_call_id", ""))
            group.size, group.noted = group.size - (tokens - left), None
            self._shown -= tokens - left

    def _leave_out(self, group: _Group) -> None:
        """Leave out the oldest group. What somebody asked stays until all of its turn is left out."""
        self._kept -= len(group.members)
        begins_turn, asked = self._groups[0].role == "user", self._asked
        if group.role == "user" and not begins_turn:
            self._asked = group
        else:
            self._drop(group)
        if asked is not None and (begins_turn or self._asked is not asked):
            self._drop(asked)
            self._asked = None if self._asked is asked else self._asked

    def _drop(self, group: _Group) -> None:
        self._shown -= group.size
        for place, _, _ in group.members:
            self._stubs.pop(place, None)
        left = LeftOut(first=group.first, last=group.members[-1][0], rule=Rule.TRUNCATED, tokens=group.size)
        while self._left and self._left[-1].first <= left.last + 1:  # they follow each other, but for what was asked
            last = self._left.pop()
            if last.last + 1 < left.first:
                self._left.append(last)
                break
            ends = {"first": min(last.first, left.first), "last": max(last.last, left.last)}
            left = left.model_copy(update={**ends, "tokens": last.tokens + left.tokens})
        self._left.append(left)


def _left(place: int, rule: Rule, tokens: int, call: str) -> LeftOut:
    return LeftOut(first=place, last=place, rule=rule, tokens=tokens, tool_call_id=call)
