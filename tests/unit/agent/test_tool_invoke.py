import asyncio
import concurrent.futures
import contextvars
import threading
from dataclasses import replace

import pytest

from holdfast.agent import InvalidArguments, Tool, ToolContext, tool
from holdfast.errors import ConfigurationError

CONTEXT = ToolContext(conversation_id="c-1", turn_id="t-1", tool_call_id="call_1", context={"user": 7}, resources="db")
SCHEMA = {"type": "object", "properties": {"order": {"type": "string"}}}
USER: contextvars.ContextVar[str] = contextvars.ContextVar("USER")


async def test_a_coroutine_function_runs_on_the_event_loop():
    @tool
    async def where() -> tuple[int, bool]:
        await asyncio.sleep(0)
        return threading.get_ident(), asyncio.get_running_loop().is_running()

    assert await where.invoke({}, CONTEXT) == (threading.get_ident(), True)


async def test_a_plain_function_runs_in_a_thread_with_the_callers_context_variables():
    USER.set("ada")

    @tool
    def where() -> tuple[int, str]:
        return threading.get_ident(), USER.get()

    thread, user = await where.invoke({}, CONTEXT)
    assert thread != threading.get_ident()
    assert user == "ada"


async def test_a_plain_function_that_returns_an_awaitable_is_awaited():
    async def later() -> str:
        return "later"

    assert await Tool(name="later", callback=lambda: later()).invoke({}, CONTEXT) == "later"  # noqa: PLW0108


async def test_the_context_is_injected_by_annotation():
    @tool
    def refund(order: str, call: ToolContext, maybe: ToolContext | None = None) -> object:
        return order, call, maybe

    assert await refund.invoke({"order": "7"}, CONTEXT) == ("7", CONTEXT, CONTEXT)


async def test_a_verbatim_tool_gets_its_arguments_as_they_are():
    def refund(order: int, call: ToolContext) -> object:
        return order, call

    declared = Tool(name="refund", callback=refund, parameters=SCHEMA)
    assert await declared.invoke({"order": "7"}, CONTEXT) == ("7", CONTEXT)


async def test_a_verbatim_tool_may_take_any_arguments():
    declared = Tool(name="refund", callback=lambda **arguments: arguments, parameters=SCHEMA)
    assert await declared.invoke({"order": "7", "not a name": 1}, CONTEXT) == {"order": "7", "not a name": 1}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [({}, "order"), ({"order": "7", "extra": 1}, "extra"), ({"order": "7", "call": "forged"}, "not for the model")],
)
async def test_arguments_that_a_verbatim_callback_cannot_take_are_invalid_and_nothing_runs(arguments, message):
    ran = []

    def refund(order: str, call: ToolContext) -> None:
        ran.append((order, call))

    with pytest.raises(InvalidArguments, match=message):
        await Tool(name="refund", callback=refund, parameters=SCHEMA).invoke(arguments, CONTEXT)
    assert ran == []


def test_a_verbatim_schema_may_not_claim_the_parameter_of_the_context():
    def refund(order: ToolContext) -> None:
        pass

    with pytest.raises(ConfigurationError, match=r"tool 'refund'\.parameters\.order.*rename"):
        Tool(name="refund", callback=refund, parameters=SCHEMA)


async def test_a_type_error_of_the_body_is_not_taken_for_invalid_arguments():
    @tool
    def refund() -> None:
        raise TypeError("of the body")

    with pytest.raises(TypeError, match="of the body"):
        await refund.invoke({}, CONTEXT)


async def test_what_the_body_raises_comes_out():
    @tool
    async def refund() -> None:
        raise LookupError("no such order")

    with pytest.raises(LookupError, match="no such order"):
        await refund.invoke({}, CONTEXT)


@pytest.mark.parametrize(
    "error", [SystemExit(3), KeyboardInterrupt(), StopIteration(5), GeneratorExit(), asyncio.CancelledError()]
)
async def test_no_body_in_a_thread_can_end_or_hang_the_worker(error):
    @tool
    def leave() -> None:
        raise error

    with pytest.raises(RuntimeError):
        await leave.invoke({}, CONTEXT)


async def test_a_cancelled_future_in_a_thread_is_not_taken_for_a_cancelled_run():
    @tool
    def leave() -> None:
        raise concurrent.futures.CancelledError

    with pytest.raises(concurrent.futures.CancelledError):
        await leave.invoke({}, CONTEXT)


async def test_a_coroutine_body_cannot_end_the_worker():
    @tool
    async def leave() -> None:
        raise SystemExit(3)

    with pytest.raises(RuntimeError, match="SystemExit: 3"):
        await leave.invoke({}, CONTEXT)


async def test_a_cancelled_run_is_cancelled():
    started = asyncio.Event()

    @tool
    async def wait() -> None:
        started.set()
        await asyncio.Event().wait()

    run = asyncio.create_task(wait.invoke({}, CONTEXT))
    await started.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run


@pytest.mark.parametrize("executor", ["human", "client"])
async def test_the_body_of_a_human_or_client_tool_never_runs(executor):
    @tool(executor=executor)
    def ask() -> None:
        raise AssertionError

    with pytest.raises(ConfigurationError, match=f"{executor} produces the result"):
        await ask.invoke({}, CONTEXT)


async def test_progress_reaches_the_listener_from_a_thread_and_from_the_loop():
    heard: list[object] = []

    @tool(streaming=True)
    def blocking(call: ToolContext) -> None:
        call.report_progress({"done": 1}, message="one")

    @tool(streaming=True)
    async def concurrent_(call: ToolContext) -> None:
        call.report_progress(2)

    listening = replace(CONTEXT, report=lambda value, message: heard.append((value, message)))
    await blocking.invoke({}, listening)
    await concurrent_.invoke({}, listening)
    assert heard == [({"done": 1}, "one"), (2, None)]


async def test_progress_of_a_tool_that_does_not_stream_is_refused_with_the_fix():
    @tool
    def quiet(call: ToolContext) -> None:
        call.report_progress(1)

    with pytest.raises(RuntimeError, match="streaming=True"):
        await quiet.invoke({}, replace(CONTEXT, report=lambda _value, _message: None))
