"""The givers of grants, as a worker knows them: whose API key does not let them decide a call any more lets nothing run."""

import pytest

from holdfast.actors import admission
from holdfast.actors.admission import FRESH_S
from holdfast.actors.worker.gate import GrantGivers
from holdfast.actors.workers import RunRequest
from holdfast.conversation.terms.approvers import Approvers
from holdfast.errors import StoreUnavailable
from holdfast.persistence import PAUSE_LAG_MS, AccessScope, ApiKey, MemoryStore
from holdfast.testing import FailBefore, Faults, FaultyStore

DECIDE = (AccessScope.DECIDE,)


@pytest.fixture(autouse=True)
def skip(monkeypatch):
    """Lets so many seconds of the clock pass at once. Else it stands still."""
    passed = [0.0]
    monkeypatch.setattr(admission, "now_s", lambda: sum(passed))
    return passed.append


def key(name="bo", key_id="k1", **more):
    return ApiKey(**{"key_id": key_id, "name": name, "digest": "00", "scopes": DECIDE, "created_at": 1} | more)


def run_by(*given, approvers=None):
    return RunRequest(
        code="k",
        conversation_id="c-1",
        agent="desk",
        spec_digest="s",
        effect_id="call_1#1",
        turn_id="t1",
        tool_call_id="call_1",
        tool="refund",
        attempt=1,
        arguments_at=3,
        grants=("g5", "g6"),
        approvers=approvers,
        givers=given,
    )


@pytest.mark.parametrize(
    ("keys", "terms", "stands"),
    [
        ([], None, False),
        ([key()], None, True),
        ([key("Bo")], None, False),
        ([key(scopes=(AccessScope.READ,))], None, False),
        ([key(agents=("bar",))], None, False),
        ([key(agents=("desk",))], None, True),
        ([key(expires_at=1)], None, False),
        ([key(expires_at=1), key(key_id="k2")], None, True),
        ([key()], Approvers("role:finance").terms, False),
        ([key(roles=("finance",))], Approvers("role:finance").terms, True),
    ],
)
async def test_a_grant_stands_while_a_key_of_its_giver_may_decide_the_call(keys, terms, stands):
    store = MemoryStore()
    for one in keys:
        await store.put_api_key(one)
    lapsed, until = await GrantGivers(store).lapsed(run_by(("g5", "bo"), approvers=terms))
    assert lapsed == (() if stands else ("g5",))
    assert until <= await store.now() + PAUSE_LAG_MS


async def test_a_run_by_no_such_grant_costs_no_look():
    store = FaultyStore(MemoryStore(), Faults(api_keys=FailBefore()))
    assert await GrantGivers(store).lapsed(run_by()) == ((), None)


async def test_a_reading_serves_for_a_while_and_nothing_begins_while_the_keys_cannot_be_read(skip):
    inner = MemoryStore()
    await inner.put_api_key(key())
    store = FaultyStore(inner, Faults())
    found = GrantGivers(store)
    assert (await found.lapsed(run_by(("g5", "bo"))))[0] == ()
    await inner.remove_api_key("k1")
    assert (await found.lapsed(run_by(("g5", "bo"))))[0] == ()
    skip(FRESH_S)
    assert (await found.lapsed(run_by(("g5", "bo"))))[0] == ("g5",)
    skip(FRESH_S)
    store.policy = Faults(api_keys=FailBefore())
    with pytest.raises(StoreUnavailable):
        await found.lapsed(run_by(("g5", "bo")))
