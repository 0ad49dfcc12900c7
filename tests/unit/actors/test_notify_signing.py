"""Signatures of webhooks, verified by the library that receivers use."""

import base64
import datetime as dt
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks import Webhook, WebhookVerificationError

from holdfast.actors.worker.notify.signing import secrets_in, signed

SECRET = "whsec_" + base64.b64encode(bytes(range(32))).decode()
OTHER = "whsec_" + base64.b64encode(bytes(range(1, 33))).decode()


def now_s():
    return int(dt.datetime.now(tz=dt.UTC).timestamp())


@given(st.dictionaries(st.text(), st.text() | st.integers() | st.none()))
def test_a_receiver_verifies_what_was_signed(said):
    body = json.dumps(said).encode()
    headers = signed("msg_1", now_s(), body, secrets_in(SECRET))
    assert Webhook(SECRET).verify(body, headers) == said


def test_each_of_several_secrets_verifies_so_that_one_can_follow_another():
    headers = signed("msg_1", now_s(), b"{}", secrets_in(f"{OTHER} {SECRET}"))
    assert Webhook(SECRET).verify(b"{}", headers) == Webhook(OTHER).verify(b"{}", headers) == {}


@pytest.mark.parametrize(
    ("changed", "body"),
    [
        ({"webhook-id": "msg_2"}, b"{}"),
        ({"webhook-timestamp": None}, b"{}"),
        ({}, b"{} "),
        ({"webhook-signature": "v1,"}, b"{}"),
    ],
)
def test_a_receiver_refuses_what_was_changed(changed, body):
    headers = signed("msg_1", now_s(), b"{}", secrets_in(SECRET))
    headers |= {name: str(now_s() + 1) if value is None else value for name, value in changed.items()}
    with pytest.raises(WebhookVerificationError):
        Webhook(SECRET).verify(body, headers)


def test_a_receiver_refuses_an_old_message():
    with pytest.raises(WebhookVerificationError):
        Webhook(SECRET).verify(b"{}", signed("msg_1", now_s() - 600, b"{}", secrets_in(SECRET)))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "empty"),
        ("   ", "empty"),
        (SECRET.removeprefix("whsec_"), "begins with whsec_"),
        (f"{SECRET} plain", "begins with whsec_"),
        ("whsec_%%%%", "no base64"),
        (f"{SECRET}\u00e4", "no base64"),
        ("whsec_" + base64.b64encode(bytes(23)).decode(), "24 to 64 bytes, and this one has 23"),
        ("whsec_" + base64.b64encode(bytes(65)).decode(), "24 to 64 bytes, and this one has 65"),
    ],
)
def test_what_is_no_secret_is_refused_without_showing_it(text, problem):
    with pytest.raises(ValueError, match=problem) as refused:
        secrets_in(text)
    assert SECRET not in str(refused.value)
