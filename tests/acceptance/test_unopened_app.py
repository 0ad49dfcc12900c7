"""What somebody reads who publishes an app that its workers cannot open."""

import asyncio
import os
import subprocess
import sys

import pytest
from stack_fixture import end_actors

from holdfast.client import AsyncClient

NAMESPACE = "unopened"
SOURCE = """
from holdfast import Agent, App, Slack

app = App(agents=[Agent(name="desk")], notify=[Slack(url_env="UNSET")])
"""


@pytest.mark.gate
async def test_a_secret_that_is_not_set_is_said_in_a_line(stack, tmp_path):
    (tmp_path / "unopened.py").write_text(SOURCE)
    done = await asyncio.to_thread(
        subprocess.run,
        [
            *(sys.executable, "-m", "holdfast.cli", "up", "--app", "unopened:app"),
            "--redis-url",
            stack.redis_url,
            "--namespace",
            NAMESPACE,
        ],
        cwd=tmp_path,
        env=os.environ,
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    assert done.returncode == 2, done
    assert "notify 'slack': UNSET: it is not set" in done.stderr
    assert "Unhandled" not in done.stderr  # Ray would print a traceback
    async with AsyncClient.connect(redis_url=stack.redis_url, namespace=NAMESPACE, timeout_s=60) as client:
        await end_actors(client)
