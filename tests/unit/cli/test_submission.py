"""The bound on a submission as a whole holds for each of its steps."""

import asyncio
import json

import pytest

from holdfast.agent import Agent, App
from holdfast.cli import job_file, submit
from holdfast.cli.errors import ExitCode, InvalidLines
from holdfast.cli.job_file import Job
from holdfast.cli.submit import AWAY_AFTER, NOT_STARTED, REFUSED, TRIES, UNKNOWN, Submission
from holdfast.client import ConversationState
from holdfast.conversation import Status
from holdfast.errors import ClusterUnavailable, CorruptStore, OutcomeUnknown, Overloaded, StoreUnavailable

SHOP = App(agents=[Agent(name="desk")])


class NobodyAnswers:
    """A client whose `start` gets no answer."""

    def __init__(self):
        self.asked = []

    async def start(self, agent, text, **_):
        self.asked.append(text)
        await asyncio.Event().wait()


def job(number):
    return Job(line=number, conversation_id=f"c-{number}", agent="desk", messages=(f"hello {number}",))


async def test_a_start_that_gets_no_answer_ends_with_the_submission():
    client, results = NobodyAnswers(), []
    submission = Submission(client, concurrency=1, wait=False, timeout_s=0.05, report=results.append)

    await asyncio.wait_for(submission.run([job(1), job(2)]), 10)

    assert [(result.job.line, result.status) for result in results] == [(1, NOT_STARTED), (2, NOT_STARTED)]
    assert client.asked == ["hello 1"]


class Forgets:
    """A client that leaves open what came of the starts of some jobs, so many times; the others are done at once."""

    def __init__(self, error, times, *texts):
        self.left = dict.fromkeys(texts, times)
        self.error = error
        self.asked = []

    async def start(self, _agent, text, *, conversation_id, **_):
        self.asked.append((text, conversation_id))
        if self.left.get(text, 0) > 0:
            self.left[text] -= 1
            raise self.error
        return Done(conversation_id)


class Done:
    """A conversation that has its answer."""

    def __init__(self, conversation_id):
        self.id = conversation_id
        self.receipt = None

    async def wait(self, **_):
        return ConversationState(status=Status.IDLE, turn_id="t-1", reply="hello", error=None, pending=[], running=[], seq=7)


@pytest.fixture
def at_once(monkeypatch):
    monkeypatch.setattr(submit, "RETRY_S", 0.0)


async def submitted(client, count):
    results = []
    running = Submission(client, concurrency=2, wait=False, timeout_s=60, report=results.append)
    await asyncio.wait_for(running.run([job(number) for number in range(1, count + 1)]), 10)
    return {result.job.line: result for result in results}


LOST = OutcomeUnknown("the start", "m-1")


@pytest.mark.parametrize("error", [LOST, StoreUnavailable("it hangs"), ClusterUnavailable("gone"), Overloaded("c-2", 1000)])
async def test_a_line_whose_outcome_is_unknown_is_asked_again_with_its_id_and_the_others_go_on(error, at_once):
    client = Forgets(error, 1, "hello 2")

    results = await submitted(client, 3)

    assert {line: result.status for line, result in results.items()} == dict.fromkeys((1, 2, 3), Status.IDLE)
    assert client.asked.count(("hello 2", "c-2")) == 2


async def test_a_line_that_nobody_ever_answers_is_reported_and_the_others_are_done(at_once):
    client = Forgets(LOST, 1000, "hello 2")

    results = await submitted(client, 4)

    assert [results[line].status for line in (1, 2, 3, 4)] == [Status.IDLE, UNKNOWN, Status.IDLE, Status.IDLE]
    assert client.asked.count(("hello 2", "c-2")) == TRIES
    assert "m-1" in results[2].error
    assert results[2].code is ExitCode.UNREACHABLE


async def test_a_line_that_found_no_actor_is_not_started_and_the_others_are_done(at_once):
    results = await submitted(Forgets(Overloaded("c-2", 1000), 1000, "hello 2"), 3)

    assert [results[line].status for line in (1, 2, 3)] == [Status.IDLE, NOT_STARTED, Status.IDLE]


async def test_a_conversation_that_cannot_be_read_is_refused_and_the_others_are_done(at_once):
    results = await submitted(Forgets(CorruptStore("its log is torn"), 1000, "hello 2"), 3)

    assert [results[line].status for line in (1, 2, 3)] == [Status.IDLE, REFUSED, Status.IDLE]


async def test_a_store_that_stays_away_ends_the_submission_in_time(at_once):
    count = 20 * AWAY_AFTER
    client = Forgets(StoreUnavailable("nobody listens"), 1000, *(f"hello {number}" for number in range(count + 1)))

    with pytest.raises(StoreUnavailable):
        await submitted(client, count)

    assert len(client.asked) <= TRIES * (AWAY_AFTER + 2)


class Notes:
    """A client that notes how conversations are started."""

    def __init__(self):
        self.started = {}

    async def start(self, _agent, _text, *, conversation_id, attended, **_):
        self.started[conversation_id] = attended
        return Done(conversation_id)


async def test_a_line_says_whether_there_is_somebody_to_ask(tmp_path):
    path = tmp_path / "jobs.jsonl"
    line = {"agent": "desk", "messages": ["hi"], "conversation_id": "c-1"}
    lines = [line, line | {"conversation_id": "c-2", "attended": False}]
    path.write_text("\n".join(map(json.dumps, lines)))
    client = Notes()
    await Submission(client, concurrency=2, wait=False, timeout_s=10, report=lambda _: None).run(job_file.read(path, SHOP))
    assert client.started == {"c-1": True, "c-2": False}


def test_a_line_that_says_it_otherwise_starts_nothing(tmp_path):
    path = tmp_path / "jobs.jsonl"
    path.write_text('{"agent": "desk", "messages": ["hi"], "attended": "no"}')
    with pytest.raises(InvalidLines) as refused:
        job_file.read(path, SHOP)
    assert refused.value.lines == ("line 1: attended: Input should be a valid boolean",)


def test_a_message_of_a_line_is_a_text_or_parts(tmp_path):
    path = tmp_path / "jobs.jsonl"
    said = [{"type": "text", "text": "What is it?"}, {"type": "image_url", "image_url": {"url": "https://a.example/x.png"}}]
    lines = [
        {"agent": "desk", "messages": ["hi", said]},
        {"agent": "desk", "messages": ["hi", [*said, {"type": "no"}]]},
        {"agent": "desk", "messages": [7]},
        {"agent": "desk", "messages": ["x" * 1_100_000]},
    ]
    path.write_text(json.dumps(lines[0]))
    assert job_file.read(path, SHOP)[0].messages[1] == said
    path.write_text("\n".join(map(json.dumps, lines)))
    with pytest.raises(InvalidLines) as refused:
        job_file.read(path, SHOP)
    assert [line.partition(";")[0] for line in refused.value.lines] == [
        "line 2: messages.1[2].type: 'no' is no type of part",
        "line 3: messages.0: int is neither a string nor a list of parts",
        "line 4: messages.0: it has 1100000 bytes, 1048576 are allowed",
    ]
