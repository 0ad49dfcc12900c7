"""Bugs to plant in permission rules, as those in `bugs.py`: rules that are not looked at, or not when it matters."""

from unittest import mock

from holdfast.actors.worker import run_rules
from holdfast.actors.worker.gate import Gate, stopped
from holdfast.client import publishing
from holdfast.conversation.judging import progress
from holdfast.conversation.terms.rule_verdict import RuleEffect


def rules_that_are_read_once():
    """A worker reads the rules when it first needs them, and takes it that nobody publishes others after that."""
    begin_by = Gate.begin_by

    async def once(self, agent):
        if self._asked_at:
            return self._rules(agent), None
        return await begin_by(self, agent)

    return mock.patch.object(Gate, "begin_by", once)


def a_dispatch_that_nobody_judges():
    """A call is judged when it is proposed, and nobody looks whether other rules are in force when it runs."""
    return mock.patch.object(run_rules, "stopped", return_value=None)


def a_clients_call_that_is_judged_once():
    """What has waited for a person is handed over to a client, whatever rules were published meanwhile."""
    return mock.patch.object(progress, "_is_judged_again", return_value=False)


def a_question_at_dispatch_that_is_not_asked():
    """Right before a run only rules that deny count."""

    def lenient(*args, **kwargs):
        ruled = stopped(*args, **kwargs)
        return ruled if ruled is not None and ruled.effect is RuleEffect.DENY else None

    return mock.patch.object(run_rules, "stopped", lenient)


def a_publication_that_does_not_wait():
    """Rules count as published as soon as they are written: workers act on those before for a while."""
    return mock.patch.object(publishing, "RULES_LAG_MS", 0)


RULED = (
    rules_that_are_read_once,
    a_dispatch_that_nobody_judges,
    a_clients_call_that_is_judged_once,
    a_question_at_dispatch_that_is_not_asked,
    a_publication_that_does_not_wait,
)
