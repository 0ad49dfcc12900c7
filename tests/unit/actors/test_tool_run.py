"""What is told of a body that did not return."""

import asyncio

from given_worker import GivenWorker, carried_out, runnable

from holdfast.agent import Agent, Tool
from holdfast.conversation.terms.parts import ImagePart, TextPart


async def outcome_of(body, **options):
    store, request = await runnable()
    worker = GivenWorker(store, Agent(name="desk", model="m", tools=[Tool(callback=body, **options)]))
    return await carried_out(worker, request)


async def test_a_body_that_passes_its_bound_is_told_so():
    async def lookup():
        await asyncio.sleep(30)

    outcome = await outcome_of(lookup, run_timeout_s=0.05)
    assert (outcome.ok, outcome.content) == (False, '{"ok":false,"error":"the tool did not finish within 0.05 s"}')


async def test_a_timeout_of_the_bodys_own_is_told_as_what_it_is():
    async def lookup():
        raise TimeoutError("the carrier does not answer")

    outcome = await outcome_of(lookup, run_timeout_s=30)
    assert not outcome.ok
    assert "the carrier does not answer" in outcome.content
    assert "did not finish" not in outcome.content


PNG = b"\x89PNG\r\n\x1a\n"
PICTURE = ImagePart.of(PNG)


async def test_images_of_a_result_are_recorded_beside_its_envelope():
    async def lookup():
        return [TextPart.of("A dot."), PICTURE]

    outcome = await outcome_of(lookup)
    said = '{"ok":true,"result":[{"type":"text","text":"A dot."},{"type":"image_url","attached":1}]}'
    assert (outcome.ok, outcome.content, outcome.attached) == (True, said, (PICTURE,))


async def test_a_result_of_parts_that_is_too_large_is_refused_whole():
    async def lookup():
        return [ImagePart.of(PNG + b"x" * 200_000)]

    outcome = await outcome_of(lookup)
    assert (outcome.ok, outcome.attached) == (False, ())
    assert "bytes from lookup, 262144 are allowed (Limits.result_bytes)" in outcome.content


async def test_a_part_of_a_result_that_is_none_is_told_by_its_field():
    async def lookup():
        return ImagePart.of("http://a.example/x.png")

    outcome = await outcome_of(lookup)
    assert (outcome.ok, outcome.attached) == (False, ())
    assert "cannot be a result: result[0].image_url.url: it is no https URL" in outcome.content
