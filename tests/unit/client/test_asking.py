"""A command whose Ray died under it is asked again, and what is not known is never told as refused."""

import contextlib

import pytest

from holdfast.actors.answers import Replied
from holdfast.client import AsyncClient
from holdfast.client.stack_gateway import StackGateway
from holdfast.conversation import Receipt
from holdfast.errors import ClusterUnavailable, OutcomeUnknown, Overloaded, StoreUnavailable, WrongCluster
from holdfast.persistence import MemoryStore

RECEIPT = Receipt(conversation_id="c-1", seq=3, accepted_at=1)


class Transport:
    """Answers or raises, once for each command."""

    def __init__(self, *answers):
        self._answers = list(answers)

    async def deliver(self, delivery):
        answer = self._answers.pop(0)
        if isinstance(answer, TimeoutError):  # it dies, with an actor that has the command
            delivery.handed = True
            raise answer
        return delivery.given_up(answer) if isinstance(answer, Exception) else Replied(answer)


class Restarted:
    """A stack whose first transport is lost with its Ray, and whose second one stays."""

    may_start = False

    def __init__(self, first, second):
        self._all = [first, second]

    @property
    def ready(self):
        return self._all[0]

    async def lost(self, transport):
        if len(self._all) == 2:
            del self._all[0]
            return True
        return False

    @contextlib.asynccontextmanager
    async def asking(self, give_up):
        yield

    async def store(self):
        return MemoryStore()


def conversation(first, second):
    return AsyncClient(StackGateway(Restarted(Transport(first), Transport(second)), timeout_s=10)).conversation("c-1")


@pytest.mark.parametrize("gone", [TimeoutError(), ClusterUnavailable("gone"), WrongCluster("a", "b")], ids=repr)
async def test_a_command_is_asked_again_where_its_ray_died(gone):
    assert await conversation(gone, RECEIPT).send("hello") == RECEIPT


REFUSALS = [StoreUnavailable("away"), Overloaded("c-1", 1000), ClusterUnavailable("gone"), WrongCluster("a", "b")]


@pytest.mark.parametrize("refusal", REFUSALS, ids=repr)
async def test_what_the_ray_that_died_may_have_done_is_of_unknown_outcome_whatever_the_next_one_says(refusal):
    with pytest.raises(OutcomeUnknown) as unknown:
        await conversation(TimeoutError(), refusal).send("hello", message_id="m-7")
    assert unknown.value.retry_id == "m-7"


async def test_a_refusal_by_the_first_ray_is_told_as_it_is():
    with pytest.raises(StoreUnavailable):
        await conversation(StoreUnavailable("away"), RECEIPT).send("hello")


@pytest.mark.parametrize("refusal", REFUSALS, ids=repr)
async def test_what_the_ray_that_died_never_had_is_told_as_the_next_one_says_it(refusal):
    with pytest.raises(type(refusal)):
        await conversation(ClusterUnavailable("gone"), refusal).send("hello")
