"""What the documentation shows, runs: every Python block of README and docs/, every file in examples/, on the real stack."""

import asyncio
import contextlib
import importlib.util
import os
import re
import runpy
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from page_blocks import blocks_of
from stack_fixture import eventually

from holdfast.testing import call, calls

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
LINK = re.compile(r"\]\((?!https?://|#)([^)#]+)(?:#[^)]*)?\)")
RUN_BY_OTHERS = {"web.py"}  # by the tutorial's browser.py
WITHIN_S = 120
README_LINES = 120
HAS_JOBS = importlib.util.find_spec("opencensus") is not None  # a part of ray[default] that nothing else brings


WITHOUT_A_STACK = {
    "testing.md",
    "deciding.md",
    "questions.md",
    "delegation.md",
    "long-conversations.md",
    "stops.md",
    "usage.md",
    "overrides.md",
    "replies.md",
}
"""Pages whose blocks are tests, which tests/unit/testing/test_testing_page.py runs."""
GUIDES = ROOT / "docs" / "guides"  # test_guides.py runs their programs, and compares what they print
RUNNING = [page for page in PAGES if page.name not in WITHOUT_A_STACK and page.parent != GUIDES and blocks_of(page)]


@pytest.fixture(scope="module")
def env(stack):
    """The environment of a user who has a model: the stack's, in a namespace of the documentation's own."""
    refund = calls(
        call("refund", {"order": "1042", "amount": 42.0}),
        call("ask_customer", {"question": "To your card?"}),
        content="One moment.",
    )
    done = "Your 42.00 are on their way to your card."
    stack.scenarios.add("Refund", call("look_up_order", {"order": "1042"}), refund, done)
    stack.scenarios.add("Where", call("look_up_order", {"order": "1042"}), "It is on its way.", "You are welcome.")
    asked = call("refund", {"order": "1042", "amount": 42.0})
    stack.scenarios.add("Broken", call("look_up_order", {"order": "1042"}), asked, done)
    stack.scenarios.add("Return", call("refund", {"order": "1044", "amount": 42.0}), "Done.")
    return {**os.environ, **stack.env, "HOLDFAST_NAMESPACE": "docs"}


async def run(*arguments: str, cwd: Path, env: dict[str, str], code: int = 0) -> str:
    """What a command prints; it must end with the code."""
    process = await asyncio.create_subprocess_exec(
        *arguments, cwd=cwd, env=env, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    try:
        out, _ = await asyncio.wait_for(process.communicate(), WITHIN_S)
    except BaseException:
        process.kill()
        await process.wait()
        raise
    printed = out.decode()
    assert process.returncode == code, printed
    return printed


@pytest.mark.parametrize("page", RUNNING, ids=[page.name for page in RUNNING])
async def test_every_python_block_of_a_page_runs(page, env, tmp_path):
    blocks = blocks_of(page)
    for name, source in blocks.items():
        (tmp_path / name).write_text(source)
    printed = {name: await run(sys.executable, name, cwd=tmp_path, env=env) for name in blocks if name not in RUN_BY_OTHERS}
    if page.name == "README.md":
        assert printed["first.py"] in page.read_text()
        assert "approval Refund 42.0 for order 1042?" in printed["shop.py"]
        assert "idle Your 42.00 are on their way to your card." in printed["shop.py"]
    if page.name == "tutorial.md":
        assert "awaiting_input\nRefund 42.0 for order 1042?" in printed["start.py"]
        assert "settled: approve click-1" in printed["follow.py"]
        assert "idle Your 42.00 are on their way to your card." in printed["follow.py"]


async def test_the_async_example_streams_decides_and_finishes(env):
    printed = await run(sys.executable, "-m", "refund.ask", cwd=EXAMPLES, env=env)
    assert "call_suspended refund" in printed
    assert "is idle: Your 42.00 are on their way to your card." in printed


async def test_the_blocking_example_serves_its_threads(env):
    printed = await run(sys.executable, "flask_style.py", cwd=EXAMPLES, env=env)
    replies = [line for line in printed.splitlines() if re.match(r"\d: Your 42\.00 are on their way", line)]
    assert len(replies) == 3, printed


@pytest.mark.gate
@pytest.mark.skipif(not HAS_JOBS and not os.environ.get("CI"), reason="ray[default] (the extra `jobs`) is not installed")
async def test_the_job_example_submits_its_file_to_a_cluster_and_reports_what_awaits(stack, env):
    mine = {name: value for name, value in env.items() if not name.startswith(("HOLDFAST_", "RAY_"))}
    mine |= {
        "HOLDFAST_REDIS_URL": stack.redis_url,
        "HOLDFAST_NAMESPACE": "docs-job",
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{env['PATH']}",
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(32),
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
        "RAY_USAGE_STATS_ENABLED": "0",
    }
    async with cluster(mine) as dashboard:
        printed = await run(sys.executable, "submit_job.py", dashboard, cwd=EXAMPLES / "ray_job", env=mine, code=5)
        assert (len(re.findall(r"-[12]  idle", printed)), "-3  awaiting_input" in printed) == (2, True), printed
        pending = await run("holdfast", "pending", "--json", cwd=ROOT, env=mine)
        assert '"order": "1044"' in pending


@contextlib.asynccontextmanager
async def cluster(env: dict[str, str]) -> AsyncIterator[str]:
    """A Ray cluster of one's own on loopback, with ports of its own; its dashboard's address."""
    folder = Path(tempfile.mkdtemp(prefix="hfj-", dir="/tmp"))  # short, for unix sockets
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
        dashboard, ray_client = one.getsockname()[1], other.getsockname()[1]
    ports = ["--port=0", f"--dashboard-port={dashboard}", f"--ray-client-server-port={ray_client}"]
    ports += ["--dashboard-agent-listen-port=0", "--dashboard-host=127.0.0.1", "--node-ip-address=127.0.0.1"]
    process = await asyncio.create_subprocess_exec(
        *("ray", "start", "--head", "--block", *ports, f"--temp-dir={folder / 'ray'}"),
        *("--num-cpus=4", "--object-store-memory=100000000", "--disable-usage-stats"),
        env=env,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        await asyncio.to_thread(eventually, lambda: answers(dashboard), WITHIN_S, "the dashboard")
        yield f"http://127.0.0.1:{dashboard}"
    finally:
        for pid in members(process.pid):  # all that it started belongs to its session
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        await process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def members(session: int) -> list[int]:
    """The processes of a session."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if int((entry / "stat").read_text().rpartition(")")[2].split()[3]) == session:
                    found.append(int(entry.name))
    return found


def answers(port: int) -> bool:
    """Whether somebody listens."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


def test_every_file_in_examples_is_run_here():
    run_here = {"refund/app.py", "refund/ask.py", "flask_style.py", "ray_job/app.py", "ray_job/submit_job.py"}
    beside = {"chat/app.py", "chat/server.py"}  # by test_chat_example.py, in a browser
    assert {str(file.relative_to(EXAMPLES)) for file in EXAMPLES.rglob("*.py")} == run_here | beside


@pytest.mark.parametrize("page", ["lifecycle", "events"])
def test_a_page_that_is_written_from_the_source_is_as_the_source_is(page):
    script = runpy.run_path(str(ROOT / "docs" / f"{page}.py"))
    assert (ROOT / "docs" / f"{page}.md").read_text() == script["render"](), f"run: python docs/{page}.py"


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_every_link_of_a_page_to_a_file_leads_to_one(page):
    for link in LINK.findall(page.read_text()):
        assert (page.parent / link).exists(), link


def test_the_record_on_dependencies_names_each_of_them():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    declared = [*project["dependencies"], *extras["test"], *extras["dev"]]
    names = {re.match(r"[\w-]+", requirement)[0] for requirement in declared} - {"holdfast"}
    (record,) = (ROOT / "docs" / "decisions").glob("0001-*.md")
    missing = {name for name in names if f"`{name}`" not in record.read_text()}
    assert not missing


def test_the_readme_is_short_and_two_pages_name_every_setting_and_every_command_once():
    from holdfast.cli.app import COMMANDS  # noqa: PLC0415 - the command line counts milliseconds, other tests too
    from holdfast.server.authentication import VARIABLES  # noqa: PLC0415 - as above
    from holdfast.settings import Settings  # noqa: PLC0415 - as above

    assert len((ROOT / "README.md").read_text().splitlines()) <= README_LINES
    rows = [page for page in PAGES for _ in re.findall(r"^\| `HOLDFAST_\w+`", page.read_text(), re.MULTILINE)]
    assert {page.name for page in rows} == {"settings.md"}, "there is one table of settings"
    settings = (ROOT / "docs" / "settings.md").read_text()
    assert not {name for name in Settings.model_fields if f"| `HOLDFAST_{name.upper()}` |" not in settings}
    assert not {name for name in VARIABLES if f"| `{name}` |" not in settings}
    commands = (ROOT / "docs" / "command-line.md").read_text()
    assert not {name for name in COMMANDS if f"holdfast {name}" not in commands}
