"""What the routes take and reply, over a store in memory."""

import pytest
from writer import begin, finish, reply, resolve

from holdfast.client import verbs
from holdfast.conversation import Approve
from holdfast.errors import InvalidInput, StoreUnavailable
from holdfast.server.operation import of


async def test_a_conversation_is_started_and_its_repetition_has_the_same_receipt(api, stack):
    body = {"agent": "desk", "text": "Hello", "context": {"user": 7}}

    first = await api("POST", "/v1/conversations", 201, json=body, headers={"Idempotency-Key": "m-1"})
    again = await api("POST", "/v1/conversations", 201, json=body | {"message_id": "m-1"})

    assert (first["message_id"], first["duplicate"], again["duplicate"]) == ("m-1", False, True)
    assert again["seq"] == first["seq"]
    assert {command.context for command in stack.delivered} == {'{"user":7}'}
    state = await api("GET", f"/v1/conversations/{first['conversation_id']}")
    assert (state["status"], state["seq"], state["pending"]) == ("generating", 2, [])


async def test_a_start_without_a_key_names_the_key_that_makes_it_safe_to_repeat(api):
    body = {"agent": "desk", "text": "Hello", "conversation_id": "c-7"}
    first = await api("POST", "/v1/conversations", 201, json=body)
    again = await api("POST", "/v1/conversations", 201, json=body)
    other = await api("POST", "/v1/conversations", 201, json={"agent": "desk", "text": "Hello"})

    assert (again["duplicate"], again["message_id"]) == (True, first["message_id"])
    assert other["message_id"] not in ("", first["message_id"])


async def test_lists_come_in_pages(api, waiting):
    for number in range(3):
        await api("POST", "/v1/conversations", 201, json={"agent": "desk", "text": "x", "conversation_id": f"d-{number}"})

    page = await api("GET", "/v1/conversations?limit=3")
    rest = await api("GET", f"/v1/conversations?limit=3&after={page['next']}")

    assert len(page["items"]) == 3
    assert rest["next"] is None
    assert {row["conversation_id"] for row in [*page["items"], *rest["items"]]} == {"c-1", "d-0", "d-1", "d-2"}
    awaiting = await api("GET", "/v1/conversations?status=awaiting_input&agent=desk")
    assert [(row["conversation_id"], row["pending"]) for row in awaiting["items"]] == [("c-1", 2)]


async def test_what_waits_is_listed_shown_and_decided(api, waiting, store):
    listed = await api("GET", "/v1/pending?kind=approval&agent=desk")
    (shown,) = listed["items"]
    assert (shown["tool"], shown["arguments"], shown["prompt"]) == ("refund", {"order": 7}, "Refund 7?")
    place = f"/v1/pending/{shown['suspension_id']}"
    assert await api("GET", place) == shown
    assert await api("GET", f"{place}?conversation_id=c-1") == shown

    body = {"decision": "approve", "arguments": {"order": 8}, "conversation_id": "c-1"}
    receipt = await api("POST", f"{place}/resolve", json=body, headers={"Idempotency-Key": "d-1"})
    again = await api("POST", f"{place}/resolve", json=body, headers={"Idempotency-Key": "d-1"})
    assert (receipt["decision_id"], receipt["duplicate"], again["duplicate"]) == ("d-1", False, True)

    for stale in (
        await api("POST", f"{place}/resolve", 409, json={"decision": "deny", "conversation_id": "c-1"}),
        await api("GET", f"{place}?conversation_id=c-1", 409),
    ):
        assert (stale["code"], stale["reason"], stale["settled_by"]) == ("stale_call", "already_resolved", "approve")
        assert stale["settled_at"] == receipt["accepted_at"]
    assert (await api("GET", place, 409))["reason"] == "unknown"


async def test_a_decision_that_names_its_call_is_bound_to_the_suspension_all_the_same(api, waiting):
    by_tool = {one["tool"]: one for one in (await api("GET", "/v1/pending"))["items"]}
    refund, asking = by_tool["refund"], by_tool["ask"]
    place, ids = f"/v1/pending/{refund['suspension_id']}/resolve", {"conversation_id": "c-1"}
    body = {"decision": "approve", **ids, "tool_call_id": refund["tool_call_id"]}

    other = await api("POST", place, 409, json=body | {"tool_call_id": asking["tool_call_id"]})
    assert (other["code"], other["reason"]) == ("stale_call", "unknown")
    receipt = await api("POST", place, json=body, headers={"Idempotency-Key": "d-1"})
    again = await api("POST", place, json=body, headers={"Idempotency-Key": "d-1"})

    assert (again["seq"], again["duplicate"]) == (receipt["seq"], True)
    assert (await api("POST", place, 409, json=body))["settled_by"] == "approve"


@pytest.mark.parametrize("value", [False, 0, "", None, "blue", {"a": [1, 2**70]}])
async def test_any_json_value_is_an_answer(api, waiting, value):
    (asking,) = (await api("GET", "/v1/pending?kind=elicitation"))["items"]
    body = {"decision": "answer", "value": value}
    fits = value is None or isinstance(value, str | bool)

    found = await api("POST", f"/v1/pending/{asking['suspension_id']}/resolve", 200 if fits else 422, json=body)

    assert found.get("code") == (None if fits else "invalid_decision")
    assert len((await api("GET", "/v1/pending"))["items"]) == (1 if fits else 2)


async def test_messages_turns_and_what_became_of_a_message_are_read(api, waiting):
    await waiting.do(resolve(Approve()), finish())
    receipt = await api("POST", "/v1/conversations/c-1/messages", json={"text": "And then?", "message_id": "m-2"})
    assert (receipt["message_id"], receipt["duplicate"]) == ("m-2", False)

    assert (await api("GET", "/v1/conversations/c-1/messages/m-2"))["status"] == "queued"
    (turn,) = (await api("GET", "/v1/conversations/c-1/turns"))["items"]
    assert (turn["turn_id"], turn["status"], turn["usage"]["model_calls"]) == ("t1", "running", 1)
    assert await api("GET", "/v1/conversations/c-1/turns/t1") == turn

    cancelled = await api("POST", "/v1/conversations/c-1/cancel", json={}, headers={"Idempotency-Key": "x-1"})
    assert (cancelled["turn_id"], cancelled["request_id"], cancelled["duplicate"]) == ("t1", "x-1", False)
    assert (await api("POST", "/v1/conversations/c-1/cancel", headers={"Idempotency-Key": "x-1"}))["duplicate"]
    await waiting.do(begin(), reply("That is all."))

    became = await api("GET", "/v1/conversations/c-1/messages/m-2")
    assert (became["status"], became["reply"], became["turn_id"], became["attempts"]) == ("completed", "That is all.", "t2", 1)
    first = await api("GET", "/v1/conversations/c-1/turns?limit=1")
    rest = await api("GET", f"/v1/conversations/c-1/turns?limit=1&after={first['next']}")
    assert [turn["status"] for turn in (*first["items"], *rest["items"])] == ["cancelled", "completed"]
    assert rest["next"] is None
    texts, after = [], ""
    while after is not None:
        page = await api("GET", f"/v1/conversations/c-1/messages?limit=2{after and f'&after={after}'}")
        texts += [message["content"] for message in page["items"]]
        after = page["next"]
    assert (texts[0], texts[-2:]) == ("hello", ["And then?", "That is all."])


async def test_a_conversation_is_ended_for_good(api, waiting):
    ended = await api("POST", "/v1/conversations/c-1/end", headers={"Idempotency-Key": "e-1"})
    assert (ended["request_id"], ended["duplicate"]) == ("e-1", False)
    assert (await api("POST", "/v1/conversations/c-1/end", json={"request_id": "e-1"}))["duplicate"]
    refused = await api("POST", "/v1/conversations/c-1/messages", 409, json={"text": "x"})
    assert (refused["code"], refused["conversation_id"]) == ("conversation_ended", "c-1")


async def test_a_long_poll_returns_when_the_conversation_rests_and_at_its_bound(api, waiting):
    resting = await api("GET", "/v1/conversations/c-1?wait_s=30")
    assert (resting["status"], len(resting["pending"]), resting["conversation_id"]) == ("awaiting_input", 2, "c-1")
    later = await api("GET", f"/v1/conversations/c-1?wait_s=0.01&after={resting['seq']}")
    assert later == resting


async def test_agents_pauses_and_quarantine_are_seen_to(api, waiting):
    assert [agent["name"] for agent in (await api("GET", "/v1/agents"))["items"]] == ["desk"]
    made = await api("POST", "/v1/pause", json={"agent": "desk", "reason": "the bill"})
    assert (made["agent"], made["reason"], made["duplicate"]) == ("desk", "the bill", False)
    assert (await api("GET", "/v1/agents"))["paused"] == [made]
    assert (await api("POST", "/v1/unpause", json={"agent": "desk"}))["lifted"] == made
    assert (await api("POST", "/v1/unpause"))["lifted"] is None
    assert await api("POST", "/v1/conversations/c-1/retry") == {"lifted": False}


async def test_the_server_says_whether_it_is_alive_and_of_use(api, store):
    assert await api("GET", "/health") == {"status": "ok"}
    assert (await api("GET", "/ready", 503))["code"] == "cluster_unavailable"
    await store.bind("cluster-1", "127.0.0.1:6379", 15_000)
    assert await api("GET", "/ready") == {"status": "ready"}
    await store.withhold("*")
    assert (await api("GET", "/ready", 503))["code"] == "cluster_stopped"
    assert (await api.http.head("/health")).status_code == 200


async def test_a_certain_turn_and_what_waits_are_cancelled(api, waiting):
    (asking,) = (await api("GET", "/v1/pending?kind=elicitation"))["items"]
    path = "/v1/conversations/c-1/cancel-pending"
    body = {"kind": "elicitation", "reason": "the shop is closed"}
    found = await api("POST", path, json=body, headers={"Idempotency-Key": "x-1"})
    assert (found["turn_id"], found["calls"], found["running"]) == ("t1", [asking["tool_call_id"]], [])
    assert (await api("POST", path, json=body, headers={"Idempotency-Key": "x-1"}))["duplicate"]
    assert (await api("GET", "/v1/pending?kind=elicitation"))["items"] == []
    assert (await api("POST", path, 422, json={"kind": "payment"}))["code"] == "invalid_request"

    path = "/v1/conversations/c-1/cancel"
    assert (await api("POST", path, 404, json={"turn_id": "t9"}))["code"] == "turn_not_found"
    assert (await api("POST", path, 422, json={"wait_s": 61}))["code"] == "invalid_request"
    assert (await api("POST", path, json={"turn_id": "t1", "wait_s": 0.1}))["turn_id"] == "t1"
    assert (await api("POST", path, json={"turn_id": "t1"}))["turn_id"] is None


async def test_a_cancellation_that_is_recorded_is_told_although_the_wait_for_its_bodies_fails(api, waiting, stack, monkeypatch):
    deliver = stack.deliver

    async def once(delivery):
        return delivery.given_up(StoreUnavailable("it went away")) if stack.delivered else await deliver(delivery)

    monkeypatch.setattr(stack, "deliver", once)
    found = await api("POST", "/v1/conversations/c-1/cancel", json={"wait_s": 1})
    assert found["turn_id"] == "t1"
    assert found["running"] == found["calls"] != []


@pytest.mark.parametrize("does", ["Pause.", lambda _: pytest.fail("it was carried out")])
async def test_what_an_operation_checks_is_checked_before_it_whatever_carries_it_out(does):
    def check(asked):
        raise InvalidInput("agent", f"{asked} may not", "ask somebody else")

    with pytest.raises(InvalidInput, match="ana may not"):
        await of(verbs.PAUSE, does, check=check, summary="Pause.").run("ana")
