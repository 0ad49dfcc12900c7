"""A worker tells an app's notification targets: real receivers, a real mail server, and the app's own functions."""

import asyncio
import base64
import email
import email.policy
import json
from dataclasses import replace

import pytest
from given_worker import GivenWorker
from owed_requests import request, requests_of
from receivers import OK, Mailbox, Receiver, running, says, serving, signs_in, smtp, trusted
from standardwebhooks import Webhook as Verifying
from writer import Writer, begin, call, resolve, start

from holdfast.actors import wire
from holdfast.actors.worker.notify import notifier as module
from holdfast.actors.worker.notify.notifier import Notifier
from holdfast.actors.worker.refusals import Unforeseen
from holdfast.actors.workers import Delivered, Later, SetAside
from holdfast.agent import App
from holdfast.agent.notify import Email, Notify, Slack, Webhook
from holdfast.conversation import Deny, Principal
from holdfast.errors import ConfigurationError, CorruptStore, NewerRecord, StoreUnavailable
from holdfast.persistence import MemoryStore

SECRET = "whsec_" + base64.b64encode(bytes(range(32))).decode()
OLD = "whsec_" + base64.b64encode(bytes(range(1, 33))).decode()


@pytest.fixture
def authority(monkeypatch, tmp_path):
    with trusted(monkeypatch, tmp_path) as made:
        yield made


@pytest.fixture
async def store():
    """A call waits, and is denied."""
    made = MemoryStore()
    writer = await Writer.of(made, "c-1")
    await writer.do(start(), begin(), call(("refund", '{"cents": 500}'), prompt="Refund 5 <b>euro</b>?"))
    await writer.do(resolve(Deny("too much"), principal=Principal("kim")))
    return made


def worker_of(store, *targets, environ=None):
    worker = GivenWorker(store)
    app = App(agents=[], notify=targets)
    worker._runtime.notifier = Notifier(app, environ or {})
    worker.secrets.learn(())
    return worker


async def asked(worker, one):
    (answer,) = wire.unpack(await worker.deliver(wire.pack([one])))
    if isinstance(answer, Exception):
        raise answer
    return answer


async def delivered(worker, store, target, **links):
    """The answers to what the log owes to a target, in its order."""
    return [await asked(worker, replace(one, links=links)) for one in await requests_of(store, "c-1", target)]


async def test_a_webhook_is_signed_as_its_receiver_verifies(store):
    async with Receiver(says(OK)) as receiver:
        target = Webhook(receiver.url, secret_env="HOOK", allow_private=True)
        worker = worker_of(store, target, environ={"HOOK": f"{SECRET} {OLD}"})
        assert await delivered(worker, store, "webhook") == [Delivered(), Delivered()]
    ids = []
    for sent in receiver.requests:
        head, body = sent.split(b"\r\n\r\n")
        headers = dict(line.lower().split(": ", 1) for line in head.decode().split("\r\n")[1:])
        assert headers["content-type"] == "application/json"
        for secret in (SECRET, OLD):
            original = dict(line.split(": ", 1) for line in head.decode().split("\r\n")[1:])
            assert Verifying(secret).verify(body, original) == json.loads(body)
        ids.append((headers["webhook-id"], json.loads(body)["id"]))
    (waits, _), (settled, _) = ids
    assert waits != settled
    assert all(header == said for header, said in ids)
    assert [json.loads(sent.split(b"\r\n\r\n")[1])["type"] for sent in receiver.requests] == ["suspended", "settled"]
    assert b"500" not in receiver.requests[0].split(b"\r\n\r\n")[1]


async def test_a_webhook_with_content_has_the_arguments(store):
    async with Receiver(says(OK)) as receiver:
        target = Webhook(receiver.url, secret_env="HOOK", allow_private=True, content=True)
        await delivered(worker_of(store, target, environ={"HOOK": SECRET}), store, "webhook")
    waits, settled = (json.loads(sent.split(b"\r\n\r\n")[1])["data"] for sent in receiver.requests)
    assert waits["call"]["arguments"] == {"cents": 500}
    assert (settled["reason"], settled["principal"], settled["decision"]) == ("too much", "kim", "deny")


async def test_a_repetition_has_the_same_id_and_a_new_signature(store):
    async with Receiver(says(b"HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n")) as receiver:
        target = Webhook(receiver.url, secret_env="HOOK", allow_private=True)
        worker = worker_of(store, target, environ={"HOOK": SECRET})
        (one, _) = await requests_of(store, "c-1", "webhook")
        assert [await asked(worker, one) for _ in range(2)] == [Later("localhost answered 503")] * 2
    first, second = (sent.split(b"\r\n\r\n") for sent in receiver.requests)
    assert first[1] == second[1]


async def test_slack_gets_a_text_without_mentions_and_a_link_for_each_decision(store):
    async with Receiver(says(OK)) as receiver:
        target = Slack(url_env="SLACK", allow_private=True, content=True)
        worker = worker_of(store, target, environ={"SLACK": receiver.url})
        links = {"approve": "https://desk.example/r/1?a=1&b=2", "deny": "https://desk.example/r/2"}
        assert await delivered(worker, store, "slack", **links) == [Delivered(), Delivered()]
    body = json.loads(receiver.requests[0].split(b"\r\n\r\n")[1])
    assert body["text"].startswith("*desk: refund waits for an approval*\nConversation: c-1\n")
    assert "Prompt: Refund 5 &lt;b&gt;euro&lt;/b&gt;?" in body["text"]
    last = "<https://desk.example/r/1?a=1&amp;b=2|Approve> · <https://desk.example/r/2|Deny>"
    assert body["text"].splitlines()[-1] == last
    assert (body["unfurl_links"], body["unfurl_media"]) == (False, False)


async def test_slacks_word_for_what_is_wrong_is_kept_and_its_url_is_not(store):
    async with Receiver(says(b"HTTP/1.1 404 No\r\nContent-Length: 10\r\n\r\nno_service")) as receiver:
        worker = worker_of(store, Slack(url_env="SLACK", allow_private=True), environ={"SLACK": receiver.url})
        answers = await delivered(worker, store, "slack")
    assert answers == [SetAside("localhost answered 404: no_service")] * 2


async def test_mail_is_sent_with_links(store, authority):
    box = Mailbox()
    options = {"authenticator": signs_in, "auth_required": True, "auth_require_tls": True}
    async with running(smtp(box, tls_context=serving(authority), **options)) as port:
        to = ["ops@example.com", "kim@example.com"]
        target = Email(to, sender="desk@example.com", host="localhost", port=port, user_env="MAIL_U", password_env="MAIL_P")
        environ = {"MAIL_U": "ann", "MAIL_P": "s3cret"}
        link = {"approve": "https://desk.example/r/1"}
        assert await delivered(worker_of(store, target, environ=environ), store, "email", **link) == [Delivered()] * 2
    ((_, _, recipients, content), _) = box.mails
    mail = email.message_from_bytes(content, policy=email.policy.default)
    assert recipients == to
    assert mail["Subject"] == "desk: refund waits for an approval"
    assert "Approve: https://desk.example/r/1" in mail.get_content()
    assert "500" not in mail.get_content()


async def test_a_function_gets_the_notice(store):
    notices = []

    async def tell(notice):
        notices.append(notice)

    link = {"deny": "https://desk.example/r/2"}
    assert await delivered(worker_of(store, tell), store, "tell", **link) == [Delivered(), Delivered()]
    waits, settled = notices
    assert (waits.kind, waits.call.arguments, waits.links) == ("suspended", {"cents": 500}, link)
    assert (settled.kind, settled.decision, settled.reason) == ("settled", "deny", "too much")


async def test_a_function_that_fails_is_called_again_and_its_secrets_are_not_shown(store, monkeypatch):
    monkeypatch.setenv("HOOK_SECRET", SECRET)

    async def tell(notice):
        message = f"no login with {SECRET} for {notice.id}"
        raise ValueError(message)

    answers = await delivered(worker_of(store, Notify(tell, name="t")), store, "t")
    assert all(
        isinstance(answer, Later) and answer.reason.startswith("ValueError: no login with [HOOK_SECRET]") for answer in answers
    )


async def test_a_function_that_hangs_has_its_time_and_no_more(store, monkeypatch):
    monkeypatch.setattr(module, "FUNCTION_S", 0.05)

    async def tell(_notice):
        await asyncio.sleep(3600)

    worker = worker_of(store, tell)
    async with asyncio.timeout(5):
        assert await delivered(worker, store, "tell") == [Later("tell has taken 0.05 s and more")] * 2
    assert len(worker._deliveries) == 0


async def test_a_target_that_hangs_holds_up_no_other(store):
    begun, hanging, free = asyncio.Event(), asyncio.Event(), []

    async def hangs(_notice):
        begun.set()
        await hanging.wait()

    async def tell(notice):
        free.append(notice)

    worker = worker_of(store, hangs, tell)
    waits = asyncio.create_task(delivered(worker, store, "hangs"))
    async with asyncio.timeout(5):
        await begun.wait()
        assert await delivered(worker, store, "tell") == [Delivered(), Delivered()]
    assert len(free) == 2
    assert worker._working()  # it does not leave while a message is on its way
    hanging.set()
    assert await waits == [Delivered(), Delivered()]
    assert not worker._working()


async def test_a_target_that_the_app_has_no_more_is_set_aside(store):
    answers = await delivered(worker_of(store), store, "gone")
    assert answers == [SetAside("the app has no notification target 'gone' any more")] * 2


async def test_an_entry_that_the_log_has_no_more_is_set_aside(store):
    async def tell(_notice):
        raise AssertionError

    answer = await asked(worker_of(store, tell), request("c-1", "tell", "suspended", 99))
    assert answer == SetAside("the log's entry 99 is gone, and not what the message is about")


@pytest.mark.parametrize(
    ("error", "kind"),
    [(StoreUnavailable("no redis"), Later), (NewerRecord("entry 4", 9, 7), Later), (CorruptStore("entry 4"), SetAside)],
)
async def test_a_log_that_cannot_be_read_now_is_read_again_and_a_corrupt_entry_set_aside(store, monkeypatch, error, kind):
    async def at(_name, _seqs):
        raise error

    async def tell(_notice):
        raise AssertionError

    requests = await requests_of(store, "c-1", "tell")
    monkeypatch.setattr(store, "at", at)
    assert await asked(worker_of(store, tell), requests[0]) == kind(str(error))


@pytest.mark.parametrize(
    ("target", "environ", "variable", "problem"),
    [
        (Webhook("https://x.example", secret_env="HOOK"), {}, "HOOK", "not set"),
        (Webhook("https://x.example", secret_env="HOOK"), {"HOOK": ""}, "HOOK", "not set"),
        (Webhook("https://x.example", secret_env="HOOK"), {"HOOK": "s3cret"}, "HOOK", "begins with whsec_"),
        (Slack(url_env="SLACK"), {}, "SLACK", "not set"),
        (Slack(url_env="SLACK"), {"SLACK": "http://hooks.example/s3cret"}, "SLACK", "http is neither encrypted"),
        (Slack(url_env="SLACK"), {"SLACK": "https://a:s3cret@hooks.example/"}, "SLACK", "names a user or password"),
        (Email("a@b.c", sender="a@b.c", host="h", user_env="U", password_env="P"), {"U": "ann"}, "P", "not set"),
    ],
)
def test_a_worker_without_what_a_target_needs_says_so_and_shows_no_secret(target, environ, variable, problem):
    with pytest.raises(ConfigurationError, match=problem) as caught:
        Notifier(App(agents=[], notify=[target]), environ)
    assert variable in caught.value.field
    assert "s3cret" not in str(caught.value)


async def test_a_mistake_of_ours_crosses_no_border_with_a_secret(store, monkeypatch):
    monkeypatch.setenv("HOOK_SECRET", SECRET)

    async def broken(*_):
        message = f"{SECRET} is broken"
        raise RuntimeError(message)

    async def tell(_notice):
        raise AssertionError

    monkeypatch.setattr(module, "notice_of", broken)
    worker = worker_of(store, tell)
    with pytest.raises(Unforeseen) as caught:
        await delivered(worker, store, "tell")
    assert SECRET not in str(caught.value)
