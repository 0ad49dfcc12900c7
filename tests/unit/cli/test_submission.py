"""The bound on a submission as a whole holds for each of its steps."""

import asyncio

import pytest

from holdfast.cli.job_file import Job
from holdfast.cli.submission import NOT_STARTED, Submission
from holdfast.conversation import OutcomeUnknown


class NobodyAnswers:
    """A client whose `start` gets no answer."""

    def __init__(self):
        self.asked = []

    async def start(self, agent, text, **_):
        self.asked.append(text)
        await asyncio.Event().wait()


class GivesUp:
    """A client whose own deadline passes before the submission's."""

    async def start(self, *_, **__):
        raise OutcomeUnknown("start of c-1", "m-1")


def job(number):
    return Job(line=number, conversation_id=f"c-{number}", agent="desk", messages=(f"hello {number}",))


async def test_a_start_that_gets_no_answer_ends_with_the_submission():
    client, results = NobodyAnswers(), []
    submission = Submission(client, concurrency=1, wait=False, timeout_s=0.05, report=results.append)

    await asyncio.wait_for(submission.run([job(1), job(2)]), 10)

    assert [(result.job.line, result.status) for result in results] == [(1, NOT_STARTED), (2, NOT_STARTED)]
    assert client.asked == ["hello 1"]


async def test_a_start_whose_own_deadline_passes_first_ends_the_submission_with_its_error():
    submission = Submission(GivesUp(), concurrency=1, wait=False, timeout_s=60, report=lambda _: None)

    with pytest.raises(OutcomeUnknown):
        await submission.run([job(1)])
