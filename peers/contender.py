"""The conversation that every contender holds, and how it is driven and timed; it runs in each contender's own environment.

A user's message, a model call that asks a person, the suspension, the answer, a second model call, the final answer. The model
calls are litellm's, streamed, with the same options for all.
"""

import argparse
import asyncio
import contextlib
import itertools
import json
import os
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

MODEL = "openai/gpt-4o-mini"
TEXT = "turn 1"
ANSWER = "yes"
FINAL = "Thank you."
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "ask",
            "description": "Ask the user.",
            "parameters": {
                "type": "object",
                "properties": {"question": {"type": "string"}},
                "required": ["question"],
                "additionalProperties": False,
            },
        },
    }
]


asked_of_model: list[int] = []
"""How many messages each model call of this process carried."""


async def call_model(messages: list[dict[str, Any]], tools: list[dict[str, Any]] = TOOLS) -> dict[str, Any]:
    """The model's next message: the call that Holdfast's worker makes, with the same options."""
    import litellm

    asked_of_model.append(len(messages))
    stream = await litellm.acompletion(
        model=MODEL,
        messages=[dict(message) for message in messages],
        tools=tools,
        stream=True,
        stream_options={"include_usage": True},
        num_retries=0,
        max_retries=0,
        timeout=600,
        _skip_mcp_handler=True,
    )
    content, calls = "", {}
    async for chunk in stream:
        if not chunk.choices:
            continue
        delta = chunk.choices[0].delta
        content += delta.content or ""
        for part in delta.tool_calls or []:
            called = calls.setdefault(part.index, {"id": "", "name": "", "arguments": ""})
            called["id"] = called["id"] or part.id or ""
            called["name"] += part.function.name or ""
            called["arguments"] += part.function.arguments or ""
    message: dict[str, Any] = {"role": "assistant", "content": content or None}
    if calls:
        message["tool_calls"] = [
            {"id": one["id"], "type": "function", "function": {"name": one["name"], "arguments": one["arguments"]}}
            for _, one in sorted(calls.items())
        ]
    return message


async def import_litellm() -> None:
    """Import it now, so that no conversation is measured with it."""
    await asyncio.to_thread(__import__, "litellm")


def tool_message(tool_call_id: str, answer: Any) -> dict[str, Any]:
    """The tool's result, in the same envelope as Holdfast's."""
    return {"role": "tool", "tool_call_id": tool_call_id, "content": json.dumps({"ok": True, "result": answer})}


class Contender:
    """What each system implements; everything is of one process and one event loop."""

    packages: tuple[str, ...] = ()
    """Distributions whose versions are printed."""
    settings = ""
    """What differs from the defaults, in words."""
    held_by = "none"
    """Which process must go on for what is suspended."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.mark = ""
        """What the command line, environment or directory of this system's servers contains; for the time they compute."""

    async def open(self) -> None:
        """Get ready."""

    async def close(self) -> None:
        """Give up what is open."""

    async def suspend(self, name: str) -> None:
        """Start the conversation; back once it waits for the answer, durably."""
        raise NotImplementedError

    async def resume(self, name: str, answer: str = ANSWER) -> str:
        """Answer it; the model's final text."""
        raise NotImplementedError

    async def messages(self, name: str) -> list[dict[str, Any]]:
        """The history as it stands."""
        raise NotImplementedError

    async def bytes_at_rest(self) -> dict[str, int]:
        """What the store takes now, by kind of medium."""
        raise NotImplementedError

    async def pids(self) -> list[int]:
        """Other processes than this one that die with it in a crash."""
        return []

    async def pending(self) -> dict[str, Any]:
        """List what waits over all conversations: `found`, the names, and in words `how`."""
        raise NotImplementedError


async def gathered(names: list[str], at_once: int, work: Callable[[str], Awaitable[None]]) -> None:
    """Do the work for each name, so many at once."""
    waiting = iter(names)

    async def one_after_another() -> None:
        for name in waiting:
            await work(name)

    async with asyncio.TaskGroup() as group:
        for _ in range(at_once):
            group.create_task(one_after_another())


async def throughput(contender: Contender) -> dict[str, Any]:
    """Whole conversations a second, by how many are held at once; each level is warmed up at its own width first."""
    levels = []
    for at_once in contender.options.levels:
        took: list[float] = []

        async def whole(name: str, took: list[float] = took) -> None:
            began = time.perf_counter()
            await contender.suspend(name)
            text = await contender.resume(name)
            assert text == FINAL, text
            took.append(time.perf_counter() - began)

        prefix = f"{contender.options.prefix}-{at_once}"
        say(f"warming up with {at_once} at once")
        until = time.perf_counter() + contender.options.warm_s
        for number in itertools.count():  # as long as it takes until everything is there that this level needs
            await gathered([f"{prefix}-warm-{number}-{one}" for one in range(2 * at_once)], at_once, whole)
            if time.perf_counter() > until:
                break
        took.clear()
        count = max(contender.options.count, 2 * at_once)
        say(f"measuring {count} with {at_once} at once")
        began, before = time.perf_counter(), computed(contender.mark)
        await gathered([f"{prefix}-{number}" for number in range(count)], at_once, whole)
        seconds = time.perf_counter() - began
        cpu = used(before, computed(contender.mark))
        levels.append(
            {
                "at_once": at_once,
                "conversations": count,
                "seconds": seconds,
                "per_s": count / seconds,
                "cpu_ms": sum(cpu.values()) / count * 1000,
                "cpu_ms_by_role": {role: round(spent / count * 1000, 1) for role, spent in cpu.items()},
                "p50_ms": statistics.median(took) * 1000,
            }
        )
        say(f"{at_once} at once: {count / seconds:.1f} a second")
    return {"levels": levels}


async def suspend(contender: Contender) -> dict[str, Any]:
    """Suspend conversations, measure them at rest, list them; then wait to be killed."""
    names = [f"{contender.options.prefix}-{number}" for number in range(contender.options.count)]
    await contender.suspend(f"{contender.options.prefix}-first")  # what is created once is not counted
    before = await contender.bytes_at_rest()
    began = time.perf_counter()
    await gathered(names, 16, contender.suspend)
    seconds = time.perf_counter() - began
    after = await contender.bytes_at_rest()
    began = time.perf_counter()
    pending = await contender.pending()
    listed_s = time.perf_counter() - began
    return {
        "suspended": len(names),
        "seconds": seconds,
        "bytes_each": {kind: (after[kind] - before[kind]) / len(names) for kind in after},
        "held_by": contender.held_by,
        "pids": await contender.pids(),
        "pending": {**pending, "ms": listed_s * 1000, "rss_bytes": rss_bytes()},
    }


async def resume(contender: Contender) -> dict[str, Any]:
    """In a new process: answer what another process suspended, to its end."""
    names = [f"{contender.options.prefix}-{number}" for number in range(contender.options.count)]
    began = time.perf_counter()
    text = await contender.resume(names[0])
    first_s = time.perf_counter() - began
    finished = [text]
    began = time.perf_counter()

    async def answer(name: str) -> None:
        finished.append(await contender.resume(name))

    await gathered(names[1:], 16, answer)
    seconds = time.perf_counter() - began
    done = sum(text == FINAL for text in finished)
    return {"resumed": len(names), "finished": done, "first_ms": first_s * 1000, "seconds": seconds}


async def race(contender: Contender) -> dict[str, Any]:
    """Two answers to the same question at the same moment: what each writer is told."""
    rounds, heard = [], []
    for number in range(contender.options.count):
        name = f"{contender.options.prefix}-{number}"
        await contender.suspend(name)
        before = len(asked_of_model)
        told = await asyncio.gather(
            contender.resume(name, f"{ANSWER} A"), contender.resume(name, f"{ANSWER} B"), return_exceptions=True
        )
        rounds.append([str(one) if not isinstance(one, BaseException) else f"{type(one).__name__}: {one}" for one in told])
        history = await contender.messages(name)
        heard.append(
            {
                "answers_kept": sum(message["role"] == "tool" for message in history),
                "model_calls": len(asked_of_model) - before
                or sum(message["role"] == "assistant" and not message.get("tool_calls") for message in history),
            }
        )
    accepted = [sum(one == FINAL for one in told) for told in rounds]
    return {
        "rounds": len(rounds),
        "both_told_done": accepted.count(2),
        "one_refused": accepted.count(1),
        "answers_kept": statistics.mean(one["answers_kept"] for one in heard),
        "model_calls": statistics.mean(one["model_calls"] for one in heard),
        "refusals": sorted({one.partition(":")[0] for told in rounds for one in told if one != FINAL}),
    }


def rss_bytes() -> int:
    """What this process holds resident."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def computed(mark: str) -> dict[int, tuple[str, float]]:
    """Seconds that this process and the system's servers have computed so far, by process, with what each is."""
    found = {}
    for process in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            here = int(process.name) == os.getpid()
            if not here and (not mark or not _marked(process, mark.encode())):
                continue
            ticks = sum(int(field) for field in (process / "stat").read_text().rpartition(")")[2].split()[11:13])
            title = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").split()
            role = "client" if here else (title[0].partition(".")[0] if title[0].startswith("ray::") else Path(title[0]).name)
            found[int(process.name)] = (role, ticks / os.sysconf("SC_CLK_TCK"))
    return found


def used(before: dict[int, tuple[str, float]], after: dict[int, tuple[str, float]]) -> dict[str, float]:
    """What was computed between, by role; of processes that have ended meanwhile it is not known."""
    roles: dict[str, float] = {}
    for pid, (role, seconds) in after.items():
        roles[role] = roles.get(role, 0.0) + seconds - before.get(pid, ("", 0.0))[1]
    return dict(sorted(roles.items(), key=lambda item: -item[1]))


def _marked(process: Path, mark: bytes) -> bool:
    if mark in (process / "cmdline").read_bytes() or mark in (process / "environ").read_bytes():
        return True
    return mark in os.fsencode((process / "cwd").readlink())


def say(line: str) -> None:
    """Tell whoever watches how far it is."""
    print(line, file=sys.stderr, flush=True)


VERBS: dict[str, Callable[[Contender], Awaitable[dict[str, Any]]]] = {
    "throughput": throughput,
    "suspend": suspend,
    "resume": resume,
    "race": race,
}


def main(make: Callable[[argparse.Namespace], Contender]) -> None:
    """Run one verb and print one line of JSON; after `suspend`, stay until killed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("verb", choices=sorted(VERBS))
    parser.add_argument("--model-url", required=True)
    parser.add_argument("--store", required=True)
    parser.add_argument("--prefix", required=True)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--levels", type=int, nargs="+", default=[1, 4, 16, 64])
    parser.add_argument("--warm-s", type=float, default=1.0)
    options = parser.parse_args()
    os.environ.update(OPENAI_API_BASE=options.model_url, OPENAI_API_KEY="x")
    contender = make(options)

    async def run() -> None:
        began = time.perf_counter()
        await contender.open()
        result = {"open_ms": (time.perf_counter() - began) * 1000, **await VERBS[options.verb](contender)}
        result["versions"] = {name: version(name) for name in contender.packages}
        result["settings"] = contender.settings
        print(json.dumps(result), flush=True)
        if options.verb == "suspend":
            await asyncio.Event().wait()
        await contender.close()

    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(run())
