"""`/metrics`: what Prometheus reads, and what that costs."""

import asyncio

import pytest
from prometheus_client.parser import text_string_to_metric_families
from writer import DESK

from holdfast import metrics
from holdfast.client import figures as figures_module
from holdfast.counting import SERIES
from holdfast.metrics import Distribution, Family
from holdfast.persistence import AppRecord
from holdfast.server.scraping import exposition
from holdfast.testing import FailBefore, Faults, FaultyStore


def read(text):
    """The samples of an exposition by name and labels, as Prometheus' own parser reads them."""
    families = list(text_string_to_metric_families(text))
    samples = [sample for family in families for sample in family.samples]
    return {(sample.name, *sorted(sample.labels.items())): sample.value for sample in samples}


async def scrape(api, **headers):
    found = await api.http.get("/metrics", headers=headers)
    assert found.status_code == 200, found.text
    assert found.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    return read(found.text)


async def test_what_waits_and_what_was_counted_is_told(api, waiting, store):
    await store.put_app(AppRecord(app="shop:app", code="1", agents={"desk": DESK.digest}), [DESK])
    await store.count({"holdfast_tool_runs_total|desk|refund|ok": 3, "holdfast_fenced_writes_total": 1})
    await store.heartbeat("actor-1", limit=9)

    found = await scrape(api)

    assert found["holdfast_pending_calls", ("agent", "desk"), ("kind", "approval")] == 1
    assert found["holdfast_pending_calls", ("agent", "desk"), ("kind", "elicitation")] == 1
    assert found["holdfast_pending_oldest_age_seconds", ("agent", "desk"), ("kind", "approval")] >= 0
    assert found["holdfast_pending_calls_older", ("kind", "approval"), ("seconds", "300")] == 0
    assert found["holdfast_conversations", ("status", "awaiting_input")] == 1
    assert found["holdfast_tool_runs_total", ("agent", "desk"), ("outcome", "ok"), ("tool", "refund")] == 3
    assert (found["holdfast_fenced_writes_total",], found["holdfast_actors",], found["holdfast_workers",]) == (1, 1, 1)
    assert (found["holdfast_store_up",], found["holdfast_http_listeners",]) == (1, 0)


async def test_the_breakers_that_are_not_closed_are_told_by_worker_and_so_many_at_most(api, store, monkeypatch):
    await store.note_breakers("worker:a:0", {("openai/a", "open"): 2})
    found = await scrape(api)
    place = (("model", "openai/a"), ("state", "open"), ("worker", "worker:a:0"))
    assert found["holdfast_model_breakers_open", *place] == 2

    monkeypatch.setattr(figures_module, "FRESH_S", 0.0)
    for number in range(SERIES):
        await store.note_breakers(f"worker:b:{number:03}", {("openai/a", "open"): 1, ("openai/b", "half_open"): 1})
    found = {place: value for place, value in (await scrape(api)).items() if place[0] == "holdfast_model_breakers_open"}
    assert len(found) == SERIES + 2
    assert sum(found.values()) == 2 * SERIES + 2


async def test_every_metric_is_exposed_by_name_also_before_it_has_a_value(api, store):
    await store.bind("cluster-1", "10.0.0.1:6379", 1000)
    text = (await api.http.get("/metrics")).text

    told = {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")}
    assert told == {metric.name for metric in (*metrics.COUNTED, *metrics.READ, *metrics.SERVED)}


async def test_requests_are_counted_by_the_template_of_their_path_and_never_by_what_they_name(api, waiting):
    await api("GET", "/v1/conversations/c-1")
    await api("GET", "/v1/conversations/c-none", 404)
    await api.http.get("/nowhere/secret?token=x")
    await api.http.request("BREW", "/v1/agents")

    text = (await api.http.get("/metrics")).text
    found = read(text)
    path = "/v1/conversations/{conversation_id}"

    assert found["holdfast_http_requests_total", ("method", "GET"), ("path", path), ("status", "200")] == 1
    assert found["holdfast_http_requests_total", ("method", "GET"), ("path", path), ("status", "404")] == 1
    assert found["holdfast_http_requests_total", ("method", "GET"), ("path", "-"), ("status", "404")] == 1
    assert found["holdfast_http_requests_total", ("method", "-"), ("path", "-"), ("status", "405")] == 1
    assert found["holdfast_http_request_seconds_count", ("path", path)] == 2
    assert all(word not in text for word in ("secret", "token=", "c-1", "c-none", "BREW"))


async def test_a_server_tells_how_long_redis_takes_to_answer_it(api, stack):
    stack.counts.observe(metrics.REDIS_S, 0.002)
    stack.counts.observe(metrics.SCRIPT_S, 0.02, "load")
    for _ in range(2):
        found = await scrape(api)
        assert found["holdfast_server_redis_seconds_count", ("operation", "command")] == 1
        assert found["holdfast_server_redis_seconds_bucket", ("le", "0.01"), ("operation", "load")] == 0
        assert found["holdfast_server_redis_seconds_bucket", ("le", "0.025"), ("operation", "load")] == 1


async def test_a_listener_is_counted_while_it_listens(api, waiting):
    async with api.stream("GET", "/v1/conversations/c-1/events"):
        assert (await scrape(api))["holdfast_http_listeners",] == 1


async def test_a_storm_of_scrapes_costs_the_store_one_look(api, stack, monkeypatch):
    stack._store = store = FaultyStore(stack._store, Faults())
    await asyncio.gather(*(scrape(api) for _ in range(50)))
    assert store.calls["survey"] == 1

    monkeypatch.setattr(figures_module, "FRESH_S", 0.0)
    await scrape(api)
    assert store.calls["survey"] == 2


async def test_where_the_store_does_not_answer_the_server_says_so_and_tells_of_itself(api, stack):
    stack._store = FaultyStore(stack._store, Faults(survey=FailBefore()))
    found = await scrape(api)
    assert found["holdfast_store_up",] == 0
    assert not any(name[0].startswith(("holdfast_pending", "holdfast_actors")) for name in found)


@pytest.mark.parametrize("label", ['say "hi"', "back\\slash", "li\nne", "ünï"])
def test_a_label_of_any_text_is_read_as_it_was(label):
    text = exposition([Family(metrics.MESSAGES, {(label,): 2})])
    assert read(text) == {("holdfast_messages_total", ("agent", label)): 2}


def test_a_histogram_is_cumulative_and_ends_without_a_bound():
    buckets = [0] * (len(metrics.WORK_S) + 1)
    buckets[0], buckets[3], buckets[-1] = 2, 1, 4
    found = read(exposition([Family(metrics.MODEL_S, {("m",): Distribution(tuple(buckets), 12.5)})]))

    place = ("model", "m")
    assert found["holdfast_model_call_seconds_bucket", ("le", "0.05"), place] == 2
    assert found["holdfast_model_call_seconds_bucket", ("le", "600"), place] == 3
    assert found["holdfast_model_call_seconds_bucket", ("le", "+Inf"), place] == 7
    assert found["holdfast_model_call_seconds_count", place] == 7
    assert found["holdfast_model_call_seconds_sum", place] == 12.5
