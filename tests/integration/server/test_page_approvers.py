"""The page of a call that certain people decide, over real HTTP, without scripts: who may, votes, who is on it, comments."""

import html
import ipaddress
import uuid
from dataclasses import replace

import httpx
import pytest
from page_forms import HOSTILE, decide, fields, path_of
from served import served
from waiting_calls import waiting
from writer import Writer, begin, call, start

from holdfast.client import Principal, Proof
from holdfast.conversation import Approvers
from holdfast.conversation.records.commands import ProposedCall
from holdfast.persistence import AccessScope
from holdfast.server import Authentication, Proxy

PROXY = Proxy(
    peers=(ipaddress.ip_network("127.0.0.0/8"),),
    user_header="X-User",
    roles_header="X-Groups",
    scopes=(AccessScope.READ, AccessScope.DECIDE),
)
BOTH = Approvers("role:finance", minimum=2, not_requester=True)


@pytest.fixture(scope="module")
def server():
    with served(authentication=Authentication(proxy=PROXY)) as running:
        yield running


@pytest.fixture
def people(server):
    """What each person's browser sends requests by."""
    opened = {}
    for name, roles in {"ana": "finance", "bo": "finance", "eve": "finance", "cy": "support"}.items():
        headers = {"X-User": name, "X-Groups": roles, "Sec-Fetch-Site": "same-origin"}
        opened[name] = httpx.Client(base_url=server.url, timeout=30, headers=headers)
    yield opened
    for one in opened.values():
        one.close()


def waits(server, name):
    """The suspension of a call that two people of finance decide, in a conversation that Ana started."""

    async def written():
        writer = server.stack.writers[name] = await Writer.of(server.store, name)
        asked = ProposedCall(tool_call_id="call_1", name="refund", arguments='{"order":"A1"}', approvers=BOTH.terms)
        await writer.do(start(principal=Principal("ana", roles=["finance"], proof=Proof.PROXY)), begin(), call(asked))
        return writer.suspension_ids[0]

    return server.run(written())


def read(http, suspension_id, name):
    return html.unescape(http.get(path_of(suspension_id, name)).text)


def test_only_those_who_may_decide_have_buttons_and_the_others_read_why(server, people):
    suspension_id = waits(server, "page-who")
    for who, why in (("cy", "'cy' is not one of role:finance"), ("ana", "'ana' sent the message that led to this call")):
        page = read(people[who], suspension_id, "page-who")
        assert f"You may not decide this: {why}." in page
        assert 'name="decision" value="approve"' not in page
        assert "2 of role:finance, but not who asked" in page
    page = read(people["bo"], suspension_id, "page-who")
    assert 'name="decision" value="approve"' in page
    assert "0 of 2 have agreed." in page
    assert 'name="note"' not in read(people["cy"], suspension_id, "page-who")


def test_a_vote_leaves_the_call_waiting_and_says_how_many_have_agreed(server, people):
    suspension_id = waits(server, "page-vote")
    voted = decide(people["bo"], "page-vote", suspension_id, decision="approve")
    assert (voted.status_code, voted.headers["location"]) == (303, path_of(suspension_id, "page-vote"))
    page = read(people["bo"], suspension_id, "page-vote")
    assert "1 of 2 have agreed" in page
    assert "You have agreed; others must agree too. You can still deny it." in page
    again = decide(people["bo"], "page-vote", suspension_id, decision="approve")
    assert again.status_code == 422
    assert "'bo' has agreed to call 'call_1' already" in html.unescape(again.text)
    last = decide(people["eve"], "page-vote", suspension_id, decision="approve")
    assert last.status_code == 303
    assert "<h2>Approved</h2>" in people["eve"].get(last.headers["location"]).text


def test_a_decision_that_is_sent_all_the_same_is_refused_with_the_reason(server, people):
    suspension_id = waits(server, "page-forced")
    form = fields(people["bo"].get(path_of(suspension_id, "page-forced")).text)
    refused = people["cy"].post(f"/inbox/{suspension_id}", data={**form, "decision": "approve"})
    assert refused.status_code == 422
    assert "'cy' is not one of role:finance" in html.unescape(refused.text)
    noted = people["cy"].post(f"/inbox/{suspension_id}/note", data={**form, "note": "assign"})
    assert noted.status_code == 403


def test_somebody_takes_it_on_gives_it_back_and_comments(server, people):
    suspension_id = waits(server, "page-notes")

    def notes(who, **said):
        form = fields(people[who].get(path_of(suspension_id, "page-notes")).text)
        return people[who].post(f"/inbox/{suspension_id}/note", data={**form, **said})

    assert notes("bo", note="assign").status_code == 303
    assert "<bdi>bo</bdi> has taken it on." in read(people["cy"], suspension_id, "page-notes")
    assert "Give it back" in read(people["bo"], suspension_id, "page-notes")
    assert notes("bo", note="comment", text=f"Which order? {HOSTILE}").status_code == 303
    shown = people["cy"].get(path_of(suspension_id, "page-notes")).text
    assert "Which order?" in shown
    assert "<script>alert" not in shown
    assert notes("bo", note="give_back").status_code == 303
    assert "has taken it on" not in read(people["cy"], suspension_id, "page-notes")
    assert notes("bo", note="dance").status_code == 422
    assert notes("bo", note="comment", text="").status_code == 422


def note(http, suspension_id, name, **said):
    return http.post(f"/inbox/{suspension_id}/note", data={"conversation_id": name, "request_id": uuid.uuid4().hex, **said})


def test_somebody_hides_it_from_their_own_list_and_shows_it_again(server, people):
    suspension_id = waits(server, "page-later")
    bo, row = people["bo"], f'id="row-{suspension_id}"'
    assert "Show it again" not in read(bo, suspension_id, "page-later")
    for for_s in ("soon", "", "-1", "nan", "1e99"):
        assert note(bo, suspension_id, "page-later", note="snooze", for_s=for_s).status_code == 422
    assert row in bo.get("/inbox").text
    assert note(bo, suspension_id, "page-later", note="snooze", for_s="14400").status_code == 303
    page = read(bo, suspension_id, "page-later")
    assert "You have hidden it from your lists until" in page
    assert "Approve" in page
    assert row not in bo.get("/inbox").text
    assert row in people["eve"].get("/inbox").text
    assert "You have hidden it" not in read(people["eve"], suspension_id, "page-later")
    assert fields(page)["for_s"] == "0"
    assert note(bo, suspension_id, "page-later", note="snooze", for_s="0").status_code == 303
    assert row in bo.get("/inbox").text
    assert note(people["cy"], suspension_id, "page-later", note="snooze", for_s="3600").status_code == 403


def test_those_who_may_decide_let_others_decide(server, people):
    suspension_id = waits(server, "page-others")
    decide(people["bo"], "page-others", suspension_id, decision="approve")
    for outside in ("cy", "ana"):
        assert "Let others decide" not in read(people[outside], suspension_id, "page-others")
        assert note(people[outside], suspension_id, "page-others", note="escalate", to="id:cy").status_code == 403
    for to in ("", " , ", "support", "role:"):
        assert note(people["bo"], suspension_id, "page-others", note="escalate", to=to).status_code == 422
    assert note(people["bo"], suspension_id, "page-others", note="escalate", to="role:support,  id:zoe").status_code == 303
    page = read(people["bo"], suspension_id, "page-others")
    assert "It was escalated" in page
    assert "You may not decide this" in page
    assert "Let others decide" not in page
    assert 'name="decision" value="approve"' in read(people["cy"], suspension_id, "page-others")
    assert "escalated to 2 of role:support, id:zoe, but not who asked" in people["cy"].get("/inbox").text
    assert note(people["bo"], suspension_id, "page-others", note="escalate", to="id:bo").status_code == 403


def test_nobody_else_decides_what_a_client_is_to_execute(server, people):
    suspension_id = waiting(server, "page-device", "client_exec")
    page = read(people["bo"], suspension_id, "page-device")
    assert "Not now" in page
    assert "Let others decide" not in page
    assert note(people["bo"], suspension_id, "page-device", note="escalate", to="id:bo").status_code == 422


def test_an_administrator_lets_others_decide_what_is_not_theirs():
    proxy = replace(PROXY, scopes=(*PROXY.scopes, AccessScope.ADMIN))
    with served(authentication=Authentication(proxy=proxy)) as running:
        suspension_id = waits(running, "page-admin")
        headers = {"X-User": "root", "Sec-Fetch-Site": "same-origin"}
        with httpx.Client(base_url=running.url, timeout=30, headers=headers) as root:
            page = read(root, suspension_id, "page-admin")
            assert "Let others decide" in page
            assert "Not now" not in page
            assert note(root, suspension_id, "page-admin", note="escalate", to="id:root").status_code == 303
            assert 'name="decision" value="approve"' in read(root, suspension_id, "page-admin")
