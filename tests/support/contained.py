"""A cluster as in a container: a process with a Ray, a model server and a client of its own. It obeys lines on its input.

Where namespaces can be made, it is in a network of its own, where 127.0.0.1 is its own too, and sees its own processes only.
Each answer is one line of JSON.
"""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

NAMESPACES = ("unshare", "--net", "--pid", "--fork", "--mount-proc", "--kill-child")
NAME = "contained"


def namespaces() -> tuple[str, ...]:
    """What a command begins with to be contained; nothing where this machine does not allow that."""
    try:
        allowed = (
            subprocess.run([*NAMESPACES, "ip", "link", "set", "lo", "up"], capture_output=True, check=False).returncode == 0
        )
    except OSError:
        return ()
    return NAMESPACES if allowed else ()


class Contained:
    """The process, from outside."""

    def __init__(self, folder: Path, redis_url: str, runs: Path, **settings: str) -> None:
        home = {"HOLDFAST_HOME": str(folder), "HOLDFAST_REDIS_URL": redis_url, "HOLDFAST_TEST_RUNS": str(runs)}
        home |= {"HOLDFAST_PUBLISH": "true"}
        self._process = subprocess.Popen(
            [*namespaces(), sys.executable, __file__],
            env={**os.environ, **settings, **home, "OPENAI_API_KEY": "sk-test"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    async def have(self, what: str) -> dict:
        """Have it do something; what it answered."""
        self._process.stdin.write(f"{what}\n")
        self._process.stdin.flush()
        line = await asyncio.to_thread(self._process.stdout.readline)
        assert line, f"it died while it was to {what}"
        return json.loads(line)

    def end(self) -> None:
        self._process.stdin.close()
        self._process.wait(120)
        self._process.stdout.close()


async def main() -> None:
    """Do what is asked until the input ends; end the own Ray then."""
    from stack_fixture import Scenarios  # noqa: PLC0415 - whoever starts this imports the module too

    from holdfast.client import AsyncClient, HoldfastError  # noqa: PLC0415 - as above
    from holdfast.embedded.home import Home  # noqa: PLC0415 - as above
    from holdfast.embedded.local_ray import stop_ray  # noqa: PLC0415 - as above
    from holdfast.testing import ModelServer, call, calls  # noqa: PLC0415 - as above

    scenarios = Scenarios()
    scenarios.add(NAME, calls(call("pay_by_key", {}), call("ask", {"question": "?"})), "Done.")
    try:
        with ModelServer(script=scenarios) as model:
            os.environ["OPENAI_API_BASE"] = model.url
            async with AsyncClient.connect("fault_app:app", timeout_s=90) as client:
                while line := (await asyncio.to_thread(sys.stdin.readline)).strip():
                    try:
                        answer = await globals()[line.replace(" ", "_")](client)
                    except HoldfastError as error:
                        answer = {"error": type(error).__name__, "said": str(error)}
                    print(json.dumps(answer), flush=True)  # noqa: T201 - it is read
    finally:
        stop_ray(Home.open(os.environ["HOLDFAST_HOME"]))


async def begin(client):
    """Have a run at work, which waits for its gate, and a question beside."""
    from holdfast.client import Approve  # noqa: PLC0415 - as above

    conversation = await client.start("till", NAME, conversation_id=NAME)
    pay, _ASKED[NAME] = (await conversation.wait(timeout_s=90)).pending
    await pay.resolve(Approve())
    return {"address": client.gateway.stack._transport.cluster.address}


async def answer(client):
    """Answer the question."""
    from holdfast.client import Answer  # noqa: PLC0415 - as above

    if NAME not in _ASKED:  # an answered call is not pending any more
        (_ASKED[NAME],) = [one for one in await client.conversation(NAME).pending() if one.tool == "ask"]
    return {"seq": (await client.resolve(_ASKED[NAME], Answer(False), decision_id="answer")).seq}


async def freeze_the_sweeper(client):
    """Have this cluster fall silent, while its workers and actors go on."""
    os.kill(await _pid(client.gateway.stack._transport.settings.sweeper_name), signal.SIGSTOP)
    return {}


async def kill_the_host(client):
    """Kill the actor that hosts the conversation; nobody here takes its place."""
    os.kill(await client.gateway.stack._transport.held(NAME), signal.SIGKILL)
    return {}


async def resume_the_sweeper(client):
    """Have this cluster speak again."""
    os.kill(await _pid(client.gateway.stack._transport.settings.sweeper_name), signal.SIGCONT)
    return {}


async def see_the_end(client):
    """Wait for the end of the turn."""
    from holdfast.client import Status  # noqa: PLC0415 - as above

    conversation = client.conversation(NAME)
    state = await conversation.wait(timeout_s=90)
    while state.status is not Status.IDLE:
        state = await conversation.wait(after=state.seq, timeout_s=90)
    found = [json.loads(message["content"]) for message in await conversation.messages() if message["role"] == "tool"]
    return {"reply": state.reply, "results": found}


_ASKED: dict[str, Any] = {}  # the question's call, by the conversation
_PIDS: dict[str, int] = {}


async def _pid(name):
    from holdfast.actors.ray_launcher import find  # noqa: PLC0415 - as above

    if name not in _PIDS:  # a process that is stopped does not say
        _PIDS[name] = await find(name).__ray_call__.remote(lambda _: os.getpid())
    return _PIDS[name]


if __name__ == "__main__":
    with contextlib.suppress(OSError):  # in a new network it is down
        subprocess.run(["ip", "link", "set", "lo", "up"], check=False, capture_output=True)
    asyncio.run(main())
