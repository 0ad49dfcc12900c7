"""The programs of the guides, run as a reader runs them: on the embedded stack, each in a process of its own."""

import asyncio
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from page_blocks import blocks_of, files_of, printed_by, shell_of
from stack_fixture import client_of, kill_host

from holdfast.persistence import RedisStore

GUIDES = sorted((Path(__file__).parents[2] / "docs" / "guides").glob("*.md"))
PAYMENT = next(page for page in GUIDES if page.stem == "approve-a-payment")
WITHIN_S = 120

pytestmark = pytest.mark.gate


def start(words, folder, env):
    """A process whose output is read, and whose complaints go where those of the tests go."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.Popen(words, cwd=folder, env={**os.environ, **env, "PATH": path}, stdout=subprocess.PIPE, text=True)


def written(page, folder):
    """Write the files of a page into a folder; the name of the program."""
    for name, source in files_of(page).items():
        (folder / name).write_text(source)
    return next(iter(blocks_of(page)))


@pytest.mark.parametrize("page", GUIDES, ids=[page.stem for page in GUIDES])
def test_the_program_of_a_guide_prints_what_its_page_says(stack, page, tmp_path):
    program = written(page, tmp_path)
    with start([sys.executable, program], tmp_path, {**stack.env, "HOLDFAST_NAMESPACE": "guides"}) as process:
        try:
            printed, _ = process.communicate(timeout=WITHIN_S)
        finally:
            process.kill()
    assert process.returncode == 0
    assert printed_by(page)[f"python {program}"].fullmatch(printed), printed


async def test_payments_are_decided_from_elsewhere_after_what_held_the_conversation_is_killed(stack, tmp_path):
    program = written(PAYMENT, tmp_path)
    env = {**stack.env, "HOLDFAST_NAMESPACE": "guides-elsewhere", "PYTHONUNBUFFERED": "1"}
    in_terminal, over_http = shell_of(PAYMENT)
    store = RedisStore(stack.redis_url, namespace=env["HOLDFAST_NAMESPACE"])

    def shell(commands, call):
        names = {"CONVERSATION": call.conversation_id, "CALL": call.tool_call_id, "SUSPENSION": call.suspension_id}
        with start(["bash", "-euc", commands], tmp_path, env | names) as process:
            said, _ = process.communicate(timeout=WITHIN_S)
        assert process.returncode == 0, said
        return said

    def over_http_in_a_shell(call):
        with start(["holdfast", "serve", "--port", "0"], tmp_path, env) as serving:
            try:
                address = re.search(r"http://127\.0\.0\.1:\d+", serving.stdout.readline())[0]
                return shell(over_http.replace("http://localhost:8484", address), call)
            finally:
                serving.kill()

    async with client_of(env["HOLDFAST_NAMESPACE"], app=None) as client:
        with start([sys.executable, program, "--elsewhere"], tmp_path, env) as paying:
            try:
                waits = [await asyncio.to_thread(paying.stdout.readline) for _ in range(2)]
                ana, bob = sorted((await client.pending()).items, key=lambda one: one.arguments["to"])
                await client.gateway.stack.transport()  # in the cluster, where actors are found by their names
                await store.open()
                await kill_host(store, ana.conversation_id)
                assert "Approve for" in await asyncio.to_thread(shell, in_terminal, ana)
                assert '"seq"' in await asyncio.to_thread(over_http_in_a_shell, bob)
                rest, _ = await asyncio.to_thread(paying.communicate, timeout=WITHIN_S)
            finally:
                paying.kill()
                await store.close()
    assert printed_by(PAYMENT)[f"python {program}"].fullmatch("".join([*waits, rest])), rest
