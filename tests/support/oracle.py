"""What must hold of a conversation whatever broke, read straight from the store and from what bodies wrote down outside."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from holdfast.conversation import Receipt, State, Status, evolve, outstanding
from holdfast.conversation.records.events import Event, RunScheduled
from holdfast.conversation.terms.decisions import SuspensionKind
from holdfast.conversation.terms.spec import Executor, OnLost
from holdfast.persistence import RedisStore

TERMINAL = {"turn_completed", "turn_failed", "turn_cancelled"}


class Oracle:
    """Judges conversations of one store, whose tools write each run of a body into `runs`."""

    def __init__(self, store: RedisStore, runs: Path) -> None:
        self.store = store
        self.runs = runs

    async def events(self, conversation_id: str) -> list[Event]:
        """The whole log."""
        found: list[Event] = []
        while page := await self.store.read(conversation_id, after=len(found)):
            assert [seq for seq, _ in page] == list(range(len(found) + 1, len(found) + 1 + len(page)))
            found += [event for _, event in page]
        return found

    def bodies(self, conversation_id: str) -> list[dict[str, Any]]:
        """What the conversation's tools wrote down: a line for each time that a body began."""
        log = self.runs / conversation_id
        return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []

    async def acknowledged(self, conversation_id: str, receipt: Receipt, *, by: str) -> None:
        """What a receipt confirms is in the log at its place, and nowhere else; `by` is the id of what was asked."""
        events = await self.events(conversation_id)
        places = [seq for seq, event in enumerate(events, 1) if by in _asked_as(event)]
        assert places == [receipt.seq], (places, receipt)

    async def at_rest(self, conversation_id: str, *, status: Status = Status.IDLE) -> list[Event]:
        """The conversation is whole and rests, and each body ran as often as its log allows; its log."""
        events = await self.events(conversation_id)
        state = _folded(conversation_id, events)
        assert state == await self.store.load(conversation_id)  # snapshot and tail say the same as the whole log
        assert state.status == status
        assert not outstanding(state)
        assert await self.store._redis.hgetall(self.store._keys.runs(conversation_id)) == {}
        assert [view.suspension_id for view in await self.store.pending_of(conversation_id)] == []
        _once(event.suspension_id for event in events if event.kind == "suspension_settled")
        _once(event.message_id for event in events if event.kind == "message_accepted")
        calls = _once(call.tool_call_id for event in events if event.kind == "model_answered" for call in event.calls)
        results = _once(event.tool_call_id for event in events if event.kind == "call_resolved")
        assert results <= calls
        turns = _once(event.turn_id for event in events if event.kind == "turn_started")
        assert _once(event.turn_id for event in events if event.kind in TERMINAL) == turns
        self._runs_allowed(conversation_id, events)
        self._claims_allowed(conversation_id, events)
        return events

    def handled(self, conversation_id: str) -> list[dict[str, Any]]:
        """What attached clients wrote down: a line for each time that a handler began (`attached_client.py`)."""
        log = self.runs / f"{conversation_id}.handled"
        return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []

    def _claims_allowed(self, conversation_id: str, events: list[Event]) -> None:
        """No call has two claimants at a time, none that is denied has one, and each attempt is its claimant's alone, once."""
        claimants: dict[str, str] = {}
        handed_over: set[str] = set()
        attempts: dict[tuple[str, int], str] = {}
        for event in events:
            match event.kind:
                case "call_suspended" if event.suspension_kind is SuspensionKind.CLIENT_EXEC:
                    handed_over.add(event.tool_call_id)
                case "call_claimed":
                    assert event.tool_call_id in handed_over, f"{event.tool_call_id} waits for no client"
                    assert event.tool_call_id not in claimants, f"two claimants of {event.tool_call_id}"
                    assert event.attempt == sum(call == event.tool_call_id for call, _ in attempts) + 1
                    claimants[event.tool_call_id] = attempts[event.tool_call_id, event.attempt] = event.client_id
                case "call_given_back":
                    assert claimants.pop(event.tool_call_id) == event.client_id
                case "suspension_settled":
                    handed_over.discard(event.tool_call_id)
                    claimants.pop(event.tool_call_id, None)
                case "call_resolved" if event.by == "rule":
                    assert event.tool_call_id not in handed_over, f"{event.tool_call_id} was handed over, and denied"
        began = [(one["key"], one["attempt"], one["client_id"]) for one in self.handled(conversation_id)]
        assert set(Counter(began).values()) <= {1}, began
        assert {(call, attempt): by for call, attempt, by in began}.items() <= attempts.items(), (began, attempts)

    def _runs_allowed(self, conversation_id: str, events: list[Event]) -> None:
        """No body began that was not scheduled, none twice for one attempt, and no attempt followed that nobody allowed."""
        scheduled: dict[str, list[RunScheduled]] = defaultdict(list)
        again: Counter[str] = Counter()
        by_run: set[str] = set()
        for event in events:
            match event.kind:
                case "run_scheduled":
                    scheduled[event.tool_call_id].append(event)
                case "suspension_settled" if event.by == "redispatch":
                    again[event.tool_call_id] += 1
                case "call_resolved" if event.by == "run":
                    by_run.add(event.tool_call_id)
        for call_id, runs in scheduled.items():
            assert [run.attempt for run in runs] == list(range(1, len(runs) + 1))
            if runs[0].executor is Executor.SERVER and runs[0].on_lost is not OnLost.REDISPATCH:
                assert len(runs) == 1 + again[call_id] + runs[-1].resumed, (call_id, runs)
        began = Counter((body["key"], body["attempt"]) for body in self.bodies(conversation_id))
        allowed = Counter((call_id, run.attempt - run.resumed) for call_id, runs in scheduled.items() for run in runs)
        assert began <= allowed, (began, allowed)  # a run that follows a decision on the one before is the same attempt
        for call_id in by_run:  # a result that a run gave was given by the last one
            assert (call_id, len(scheduled[call_id]) - scheduled[call_id][-1].resumed) in began


def _folded(conversation_id: str, events: list[Event]) -> State:
    state = State(conversation_id=conversation_id)
    for event in events:
        state = evolve(state, event)
    return state


def _asked_as(event: Event) -> set[str]:
    """The ids under which somebody outside asked for what the event says."""
    return {value for name in ("decision_id", "message_id", "request_id") if (value := getattr(event, name, None))}


def _once(ids: Iterable[str]) -> set[str]:
    found = Counter(ids)
    assert set(found.values()) <= {1}, found
    return set(found)
