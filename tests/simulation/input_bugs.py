"""Bugs to plant in what is done with messages that wait, as those in `bugs.py`: they join, begin or are told of wrongly."""

import contextlib
from unittest import mock

from holdfast.conversation import Interrupt, Send, Status, When
from holdfast.conversation.judging import machine, messages
from holdfast.conversation.judging.judgement import Draft
from holdfast.conversation.judging.progress import join
from holdfast.conversation.judging.table import LATE, TABLE, Ignored
from holdfast.conversation.log import fold
from holdfast.conversation.log.transcript import Transcript
from holdfast.conversation.records.events import InputSuperseded, InputWithdrawn


def _judged(command, judge):
    return mock.patch.dict(machine.JUDGES, {command: judge})


def _drafted(changed):
    """Plant a bug in an event of the judgements of messages: `changed` has it, by the state before and the event."""

    def drafted(before, command):
        class Careless(Draft):
            def emit(self, event):
                return Draft.emit(self, changed(before, event))

        return Careless(before, command)

    return mock.patch.object(messages, "Draft", drafted)


def _joins_where(holds):
    send = messages.send

    def joining(state, command):
        judged = send(state, command)
        if command.when is When.STEER and state.turn is not None and holds(state):
            draft = Draft(judged.state, command, list(judged.events))
            join(draft)
            return draft.done(judged.reply)
        return judged

    return _judged(Send, joining)


def a_steered_message_that_joins_while_a_model_call_goes_on():
    """A steered message joins at once where no call is open, whether the model is at work or not."""
    return _joins_where(lambda state: state.model_called)


def a_steered_message_that_joins_before_results():
    """A steered message joins at once, among the calls of the last answer."""
    return _joins_where(lambda state: state.calls.any_open)


def a_turns_end_that_forgets_its_steered_messages():
    """What would have joined a turn goes with it."""
    over = fold._turn_over

    def forgetful(state, event, outcome, **more):
        return over(fold._with_turn(state, steered=()), event, outcome, **more)

    return mock.patch.object(fold, "_turn_over", forgetful)


def an_interruption_that_leaves_a_steered_message():
    """An interruption supersedes what was queued before, and not what would have joined the turn that it cancels."""

    def changed(before, event):
        steered = () if before.turn is None else [one.seq for one in before.turn.steered]
        if not isinstance(event, InputSuperseded):
            return event
        left = {seq: name for seq, name in zip(event.message_seqs, event.message_ids, strict=True) if seq not in steered}
        return event.model_copy(update={"message_seqs": tuple(left), "message_ids": tuple(left.values())})

    return _drafted(changed)


def _kept(kind):
    """Plant that what an event takes away waits on."""
    apply, add = fold._apply, Transcript.add

    def applied(state, event):
        return state if isinstance(event, kind) else apply(state, event)

    def added(transcript, seq, event):
        if not isinstance(event, kind):
            add(transcript, seq, event)

    stack = contextlib.ExitStack()
    stack.enter_context(mock.patch.object(fold, "_apply", applied))
    stack.enter_context(mock.patch.object(Transcript, "add", added))
    return stack


def a_superseded_message_that_is_answered():
    """What an interruption supersedes waits on."""
    return _kept(InputSuperseded)


def a_withdrawn_message_that_is_answered():
    """What somebody withdraws waits on."""
    return _kept(InputWithdrawn)


def an_interruption_that_is_told_as_of_now():
    """A repeated interruption is told the epoch of the present."""
    repeated = machine.repeated

    def present(state, command):
        judged = repeated(state, command)
        if judged is not None and isinstance(command, Interrupt):
            judged = machine.Judgement(reply=judged.reply.model_copy(update={"epoch": state.epoch + 1}))
        return judged

    return mock.patch.object(machine, "repeated", present)


def an_interruption_in_an_old_epoch():
    """Interruptions are not counted."""
    return _drafted(lambda _, event: event.model_copy(update={"epoch": 1}) if isinstance(event, InputSuperseded) else event)


def a_delayed_message_that_is_queued_by_its_priority():
    """An urgent message does not wait for its time."""
    accepted = fold._message_accepted

    def urgent(state, event):
        return accepted(state, event.model_copy(update={"due_at": 0}) if event.priority < 128 else event)

    return mock.patch.object(fold, "_message_accepted", urgent)


def a_message_that_overtakes_those_of_its_priority():
    """The last message of a priority begins first."""
    put = fold._with_input

    def newest(state, message):
        state = put(state, message)
        return state.model_copy(update={"queue": tuple(sorted(state.queue, key=lambda one: (one.priority, -one.seq)))})

    return mock.patch.object(fold, "_with_input", newest)


def a_withdrawal_of_whichever_waits_first():
    """A withdrawal takes the first message, not the one that it names."""

    def changed(before, event):
        return event.model_copy(update={"message_seq": before.waiting[0].seq}) if isinstance(event, InputWithdrawn) else event

    return _drafted(changed)


def a_wake_that_is_ignored_while_a_turn_generates():
    """What is due waits until the model has answered."""
    ignored = {**TABLE[Status.GENERATING], "wake": Ignored(LATE.why)}
    return mock.patch.dict(TABLE, {Status.GENERATING: ignored})


def a_refusal_while_busy_that_forgets_the_queue():
    """A message that is to be refused while something goes on is accepted."""
    send = messages.send

    def hospitable(state, command):
        return send(state, command.model_copy(update={"when": When.QUEUE}) if command.when is When.REJECT else command)

    return _judged(Send, hospitable)


def a_message_that_silences_a_call():
    """A message cancels what waits for a person."""
    send = messages.send

    def loud(state, command):
        judged = send(state, command)
        waiting = state.calls.awaiting()
        if command.when is not When.STEER or not waiting:
            return judged
        draft = Draft(judged.state, command, list(judged.events))
        messages.cancel_turn(draft, None)
        return draft.done(judged.reply)

    return _judged(Send, loud)


INPUT = (
    a_steered_message_that_joins_while_a_model_call_goes_on,
    a_steered_message_that_joins_before_results,
    a_turns_end_that_forgets_its_steered_messages,
    an_interruption_that_leaves_a_steered_message,
    a_superseded_message_that_is_answered,
    a_withdrawn_message_that_is_answered,
    an_interruption_that_is_told_as_of_now,
    an_interruption_in_an_old_epoch,
    a_delayed_message_that_is_queued_by_its_priority,
    a_message_that_overtakes_those_of_its_priority,
    a_withdrawal_of_whichever_waits_first,
    a_wake_that_is_ignored_while_a_turn_generates,
    a_refusal_while_busy_that_forgets_the_queue,
    a_message_that_silences_a_call,
)
