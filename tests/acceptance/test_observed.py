"""What an operator sees of the real stack: metrics of all processes, which a death does not set back, and one request's id."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from stack_fixture import client_of, eventually, kill_host

from holdfast.testing import call, calls

SUPPORT = Path(__file__).parents[1] / "support"
WITHIN_S = 60
NAMESPACE = "observed"


class Server:
    """A server process: its API, its metrics, and the lines that it wrote to a file."""

    def __init__(self, process, url, written):
        self.process = process
        self.http = httpx.AsyncClient(base_url=url, timeout=WITHIN_S)
        self._written = written

    async def __call__(self, method, path, **options):
        found = await self.http.request(method, path, **options)
        assert found.status_code < 300, found.text
        return found.json()

    async def metrics(self):
        text = (await self.http.get("/metrics")).text
        samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
        return {(sample.name, *sorted(sample.labels.values())): sample.value for sample in samples}

    async def metrics_once(self, condition):
        """The metrics, once they fulfil a condition."""
        async with asyncio.timeout(WITHIN_S):
            while True:
                found = await self.metrics()
                if condition(found):
                    return found
                await asyncio.sleep(0.5)

    def lines(self):
        return [json.loads(line) for line in self._written.read_text().splitlines()]


def started(stack, written):
    """A server process that writes its lines to a file."""
    with written.open("w") as errors:
        return subprocess.Popen(
            [
                sys.executable,
                "-m",
                "holdfast.cli",
                "serve",
                "--port",
                "0",
                "--app",
                "shop_app:app",
                "--namespace",
                NAMESPACE,
                "--no-auth",
            ],
            env={**os.environ, **stack.env, "PYTHONPATH": str(SUPPORT)},
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )


@pytest.fixture
async def server(stack, tmp_path):
    written = tmp_path / "stderr"
    process = started(stack, written)
    with process:
        try:
            line = await asyncio.wait_for(asyncio.to_thread(process.stdout.readline), WITHIN_S)
            url = re.search(r"http://127\.0\.0\.1:\d+", line)
            assert url, written.read_text()
            opened = Server(process, url[0], written)
            async with opened.http:
                yield opened
            process.send_signal(signal.SIGTERM)
            process.wait(WITHIN_S)
        finally:
            process.kill()


async def test_metrics_of_all_processes_are_read_in_one_place_and_one_request_is_found_in_their_lines(stack, server):
    turns = ("holdfast_turns_total", "completed", "support")
    greeting = {"agent": "support", "text": stack.scenarios.add("warm", "Hello."), "conversation_id": "observed-0"}
    await server("POST", "/v1/conversations", json=greeting)  # work that waits for a worker's start loses its request
    await server.metrics_once(lambda found: found.get(turns) == 1)

    asks = stack.scenarios.add("observed", calls(call("refund", {"order": "A1", "amount": 42})), "It is done.")
    body = {"agent": "support", "text": asks, "conversation_id": "observed-1"}
    stack.model.fail(429, times=1, retry_after=0)

    await server("POST", "/v1/conversations", json=body, headers={"X-Request-Id": "req-of-ana-1"})
    state = await server("GET", "/v1/conversations/observed-1?wait_s=30&after=2")
    (shown,) = state["pending"]
    waiting = await server.metrics_once(lambda found: found.get(("holdfast_pending_calls", "approval", "support")) == 1)
    assert waiting["holdfast_conversations", "awaiting_input"] == 1
    assert 1 <= waiting["holdfast_actors",] <= waiting["holdfast_actors_cap",]
    assert waiting["holdfast_workers",] >= 1

    decision = {"decision": "approve", "conversation_id": "observed-1"}
    await server("POST", f"/v1/pending/{shown['suspension_id']}/resolve", json=decision)
    counted = await server.metrics_once(
        lambda found: found.get(turns) == 2 and found.get(("holdfast_tool_runs_total", "ok", "refund", "support"))
    )
    assert counted["holdfast_suspensions_settled_total", "approval", "approve", "support"] == 1
    assert counted["holdfast_decision_wait_seconds_count", "approval", "support"] == 1
    answered = sum(value for labels, value in counted.items() if labels[:2] == ("holdfast_model_calls_total", "answered"))
    retried = sum(value for labels, value in counted.items() if labels[0] == "holdfast_model_retries_total")
    assert (answered, retried) == (3, 1)
    of = {name: sum(value for labels, value in counted.items() if labels[0] == name) for name, *_ in counted}
    assert of["holdfast_resolve_seconds_count"] == 1
    assert of["holdfast_redis_seconds_count"] > 0
    assert of["holdfast_server_redis_seconds_count"] > 0
    assert of["holdfast_model_cost_usd_total"] > 0
    assert of["holdfast_conversations_unhosted"] <= of["holdfast_conversations"]

    command = [sys.executable, "-m", "holdfast.cli", "top", "--json", "--namespace", NAMESPACE]
    printed = await asyncio.to_thread(subprocess.check_output, command, env={**os.environ, **stack.env}, text=True)
    shown = {one["name"]: one["values"] for one in json.loads(printed)["metrics"]}
    assert {"labels": {"agent": "support", "outcome": "completed"}, "value": 2} in shown["holdfast_turns_total"]

    def told():
        logs = (stack.home.runtime / "ray" / "session_latest" / "logs").glob("worker-*.err")
        lines = [line for log in logs for line in log.read_text(errors="replace").splitlines() if "req-of-ana-1" in line]
        return [json.loads(line) for line in lines if line.startswith("{")]

    (line,) = eventually(told, what="a line of the worker about the request")[:1]
    assert (line["conversation"], line["logger"], line["level"]) == ("observed-1", "holdfast.worker", "INFO")
    assert line["process"].startswith("worker:")
    assert line["effect"]
    access = [line for line in server.lines() if line.get("request") == "req-of-ana-1"]
    assert [one["message"].split()[:3] for one in access] == [["POST", "/v1/conversations", "201"]]


async def test_what_was_counted_outlives_the_actor_that_counted_it(stack, server):
    asks = stack.scenarios.add("outlives", "Hello.")
    await server("POST", "/v1/conversations", json={"agent": "support", "text": asks, "conversation_id": "observed-2"})
    name = ("holdfast_turns_total", "completed", "support")
    before = (await server.metrics_once(lambda found: name in found))[name]

    async with client_of(NAMESPACE, timeout_s=60) as client:  # its actors end with it
        await client.gateway.stack.transport()
        await kill_host(await client.gateway.stack.store(), "observed-2")
        body = {"text": "again", "message_id": "m-2"}
        stack.scenarios.add("outlives", "Hello.", "And again.")
        await server("POST", "/v1/conversations/observed-2/messages", json=body)
        after = await server.metrics_once(lambda found: found[name] > before)
        assert after["holdfast_activations_total", "died"] >= 1
