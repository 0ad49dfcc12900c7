"""What Ray says of a worker, in the words of the workers."""

import pytest
from ray.exceptions import ActorDiedError, ActorUnavailableError, RayTaskError

from holdfast.actors.ray_launcher import RayWorker
from holdfast.actors.ray_workers import WorkerDied, WorkerUnavailable
from holdfast.actors.worker.refusals import AppBroken, Dropped, Succeeded
from holdfast.actors.workers import WorkPaused
from holdfast.errors import StoreUnavailable


class Raising:
    """A method of a Ray actor that answers with an error."""

    def __init__(self, error):
        self.error = error

    async def remote(self, *_args):
        raise self.error


class Actor:
    def __init__(self, error):
        self.process = Raising(error)


def raised(error):
    """What Ray hands to the caller when a worker's method raises this."""
    return RayTaskError("process", "Traceback: raised", error, proctitle="w", pid=1, ip="ip").as_instanceof_cause()


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ActorDiedError(), WorkerDied),
        (ActorUnavailableError("it is started again", b"0" * 16), WorkerUnavailable),
    ],
)
async def test_only_an_actor_that_ray_does_not_start_again_has_died(error, kind):
    with pytest.raises(WorkerUnavailable, match=type(error).__name__) as said:
        await RayWorker(Actor(error)).process()
    assert type(said.value) is kind


@pytest.mark.parametrize(
    "error",
    [AppBroken("it"), Dropped("it"), Succeeded("it"), WorkPaused("it"), StoreUnavailable("it")],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize(
    "given", [raised, lambda error: RayTaskError("process", "T", error, "w", 1, "ip")], ids=["both", "ray"]
)
async def test_what_a_worker_raises_is_raised_here_and_not_rays_account_of_it(given, error):
    with pytest.raises(type(error)) as said:
        await RayWorker(Actor(given(error))).process()
    assert said.value is error


async def test_what_nobody_expects_of_a_worker_is_left_as_ray_tells_it():
    with pytest.raises(RayTaskError) as said:
        await RayWorker(Actor(raised(ZeroDivisionError("1 / 0")))).process()
    assert isinstance(said.value, ZeroDivisionError)


class Saying:
    """A method of a Ray actor that says what it was called with."""

    def __init__(self):
        self.said = []

    def remote(self, *args, **kwargs):
        self.said.append((args, kwargs))
        return self._answer()

    async def _answer(self):
        return self.said[-1]


async def test_what_is_asked_about_claims_reaches_the_worker_as_it_was_asked():
    actor = Actor(None)
    actor.keeps = Saying()
    worker = RayWorker(actor)
    assert await worker.keeps(("process-1.abc", "process-1.def")) == ((["process-1.abc", "process-1.def"],), {})
