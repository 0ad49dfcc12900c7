"""What the pages of a call say of permission rules, over real HTTP."""

import httpx
import pytest
from page_forms import path_of
from served import served
from waiting_calls import APP, suspended, waiting

from holdfast.conversation.terms.rule_verdict import RuleEffect, RuleVerdict


@pytest.fixture(scope="module")
def server():
    with served() as running:
        running.stack._app = APP
        yield running


@pytest.fixture
def http(server):
    with httpx.Client(base_url=server.url, timeout=30) as found:
        yield found


def test_a_call_says_which_rule_asks_and_why(server, http):
    asks = RuleVerdict(effect=RuleEffect.ASK, rule="large <b>refunds</b>", reason="Somebody <i>else</i> looks.")
    suspension_id = waiting(server, "ruled", ruled=asks)
    page = http.get(path_of(suspension_id, "ruled")).text
    assert "Asked by the rule</span> <code>large &lt;b&gt;refunds&lt;/b&gt;</code>: <bdi>Somebody &lt;i&gt;else" in page


def test_a_call_that_is_asked_about_by_no_single_rule_says_why(server, http):
    suspension_id = waiting(server, "unreadable", ruled=RuleVerdict(effect=RuleEffect.ASK, reason="they cannot be read here"))
    page = http.get(path_of(suspension_id, "unreadable")).text
    assert "Asked because</span> <bdi>they cannot be read here</bdi>" in page


def test_a_call_that_no_rule_asks_about_says_nothing_of_rules(server, http):
    assert 'class="ruled"' not in http.get(path_of(waiting(server, "plain"), "plain")).text


def test_a_denied_call_says_by_which_rule_in_the_transcript(server, http):
    server.run(
        suspended(server, "denied", ruled=RuleVerdict(effect=RuleEffect.DENY, rule="no refunds", reason="Ask the shop."))
    )
    page = http.get("/conversations/denied").text
    assert "denied by the rule &#39;no refunds&#39;: Ask the shop; it did not run" in page
