"""Bugs to plant in budgets, as those in `bugs.py`: answers that count twice, and budgets that nobody reads."""

from unittest import mock

from holdfast.conversation import AgentSpec, Budget
from holdfast.persistence import MemoryStore


def an_answer_that_counts_before_it_is_written():
    """A write is counted though it is refused."""
    append = MemoryStore.append

    async def counting(self, conversation_id, write):
        before = dict(self._spent)
        try:
            return await append(self, conversation_id, write)
        except Exception:
            if self._spent == before:
                self._account(conversation_id, write, self._clock())
            raise

    return mock.patch.object(MemoryStore, "append", counting)


def a_budget_that_nobody_reads():
    """A turn begins, whatever was used before."""
    return mock.patch.object(Budget, "over", return_value=None)


def a_second_budget_that_nothing_counts_toward():
    """Of two budgets of an agent, answers count toward the first one."""
    return mock.patch.object(AgentSpec, "budgeted", property(lambda self: tuple(one.per for one in self.budgets[:1])))


BUDGETED = (
    an_answer_that_counts_before_it_is_written,
    a_budget_that_nobody_reads,
    a_second_budget_that_nothing_counts_toward,
)
