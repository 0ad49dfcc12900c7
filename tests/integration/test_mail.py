"""Mail to a real SMTP server on loopback: encrypted, or not at all."""

import asyncio
import threading
from email.message import EmailMessage

import pytest
import trustme
from aiosmtpd.smtp import SMTP
from receivers import Mailbox, running, serving, signs_in, smtp, trusted

from holdfast.actors.worker.notify import mail
from holdfast.actors.worker.notify.mail import Server, sent
from holdfast.actors.workers import Delivered, Later, SetAside
from holdfast.daemon import in_daemon


@pytest.fixture
def authority(monkeypatch, tmp_path):
    with trusted(monkeypatch, tmp_path) as made:
        yield made


def a_mail():
    made = EmailMessage()
    made["From"], made["To"], made["Subject"] = "holdfast@example.com", "ops@example.com", "A call waits"
    made.set_content("Somebody decides it.\n")
    return made


async def test_a_mail_is_sent_once_the_server_has_begun_tls(authority):
    box = Mailbox()
    async with running(smtp(box, tls_context=serving(authority), require_starttls=True)) as port:
        assert await sent(a_mail(), Server("localhost", port)) == Delivered()
    ((encrypted, _, recipients, content),) = box.mails
    assert encrypted
    assert recipients == ["ops@example.com"]
    assert b"Subject: A call waits" in content


async def test_a_user_signs_in_over_tls_alone(authority):
    box = Mailbox()
    options = {"authenticator": signs_in, "auth_required": True, "auth_require_tls": True}
    async with running(smtp(box, tls_context=serving(authority), **options)) as port:
        assert await sent(a_mail(), Server("localhost", port, "ann", "s3cret")) == Delivered()
        refused = await sent(a_mail(), Server("localhost", port, "ann", "wrong"))
    assert [authenticated for _, authenticated, *_ in box.mails] == [True]
    assert isinstance(refused, Later)  # until somebody puts the password right
    assert refused.reason.startswith("localhost answered 535")
    assert "wrong" not in refused.reason


async def test_a_server_without_starttls_gets_nothing():
    box, said = Mailbox(), []

    class Listening(SMTP):
        async def _call_handler_hook(self, command, *args):
            said.append(command)
            return await super()._call_handler_hook(command, *args)

    async with running(lambda: Listening(box, hostname="mail.test", auth_require_tls=False)) as port:
        answer = await sent(a_mail(), Server("localhost", port, "ann", "s3cret"))
    assert answer == SetAside("localhost offers no STARTTLS, and mail is not sent in the clear")
    assert box.mails == []
    assert set(said) <= {"EHLO", "QUIT"}


@pytest.mark.parametrize("name", ["other.example", None])
async def test_a_certificate_for_another_name_or_by_nobody_known_gets_nothing(authority, name):
    box = Mailbox()
    tls = serving(authority, name) if name else serving(trustme.CA())
    async with running(smtp(box, tls_context=tls, require_starttls=True)) as port:
        answer = await sent(a_mail(), Server("localhost", port, "ann", "s3cret"))
    assert isinstance(answer, Later)
    assert "CERTIFICATE_VERIFY_FAILED" in answer.reason
    assert box.mails == []


async def test_a_port_may_begin_with_tls(authority, monkeypatch):
    box = Mailbox()
    async with running(smtp(box), tls=serving(authority)) as port:
        monkeypatch.setattr(mail, "IMPLICIT", port)
        assert await sent(a_mail(), Server("localhost", port)) == Delivered()
    assert len(box.mails) == 1


@pytest.mark.parametrize(
    ("said", "kind"),
    [("451 try again", Later), ("554 no\r\n", SetAside), ("452 full", Later), ("550 unknown", SetAside)],
)
@pytest.mark.parametrize("where", ["refuses", "refuses_recipients"])
async def test_a_refusal_for_now_is_tried_again_and_one_for_good_set_aside(authority, said, kind, where):
    box = Mailbox()
    setattr(box, where, said.strip())
    async with running(smtp(box, tls_context=serving(authority))) as port:
        answer = await sent(a_mail(), Server("localhost", port))
    assert isinstance(answer, kind)
    assert said[:3] in answer.reason


async def test_one_that_nobody_runs_is_tried_again():
    async with running(asyncio.Protocol) as port:
        pass
    answer = await sent(a_mail(), Server("localhost", port))
    assert isinstance(answer, Later)
    assert "cannot be reached" in answer.reason


class Saying(asyncio.Protocol):
    """Says something over and over."""

    def __init__(self, first, then, every_s):
        self.first, self.then, self.every_s = first, then, every_s

    def connection_made(self, transport):
        self.transport = transport
        transport.write(self.first)
        self._go_on()

    def _go_on(self):
        if not self.transport.is_closing():
            if self.transport.get_write_buffer_size() < 1_000_000:
                self.transport.write(self.then)
            asyncio.get_running_loop().call_later(self.every_s, self._go_on)


@pytest.mark.parametrize(("first", "then"), [(b"", b""), (b"2", b"2"), (b"220-", b"x"), (b"220-hello\r\n", b"220-again\r\n")])
async def test_one_that_never_ends_its_answer_has_its_time_and_its_thread_ends(first, then):
    before = threading.active_count()
    async with running(lambda: Saying(first, then, 0.02)) as port, asyncio.timeout(5):
        answer = await sent(a_mail(), Server("localhost", port), within_s=0.5)
        assert answer == Later("localhost has not taken the mail within 0.5 s")
        while threading.active_count() > before:
            await asyncio.sleep(0.01)


class DrippingTls(asyncio.Protocol):
    """Answers the beginning of a TLS handshake byte by byte, after STARTTLS unless it is `implicit`."""

    def __init__(self, dripping, implicit):
        self.dripping = dripping
        self.answers = [] if implicit else [b"220 hello\r\n", b"250-mail.test\r\n250 STARTTLS\r\n", b"220 go on\r\n"]

    def connection_made(self, transport):
        self.transport = transport
        if self.answers:
            transport.write(self.answers.pop(0))

    def data_received(self, _data):
        if self.answers:
            self.transport.write(self.answers.pop(0))
        else:
            self.dripping.set()
            self._drip(b"\x16\x03\x03\x40\x00\x02\x00\x3f\xfc")

    def _drip(self, data):
        if not self.transport.is_closing():
            self.transport.write(data)
            asyncio.get_running_loop().call_later(0.02, self._drip, b"\x00")


@pytest.mark.parametrize("implicit", [True, False])
async def test_one_that_never_ends_its_handshake_keeps_no_thread(authority, monkeypatch, implicit):
    dripping = asyncio.Event()
    async with running(lambda: DrippingTls(dripping, implicit)) as port, asyncio.timeout(5):
        monkeypatch.setattr(mail, "IMPLICIT", port if implicit else 465)
        client = (mail._Encrypted if implicit else mail._Starting)("localhost", 3600)
        thread = asyncio.create_task(in_daemon(mail._sent, client, a_mail(), Server("localhost", port)))
        await dripping.wait()
        client.hang_up()
        assert isinstance(await thread, Later)


async def test_endless_answers_fill_no_memory():
    async with running(lambda: Saying(b"", b"220-again and again\r\n" * 1000, 0)) as port, asyncio.timeout(10):
        answer = await sent(a_mail(), Server("localhost", port))
    assert isinstance(answer, Later)
    assert "too long" in answer.reason


async def test_what_follows_the_word_starttls_in_the_clear_is_not_read(authority):
    """An answer that somebody has put behind that of STARTTLS does not count within TLS."""

    class Injecting(SMTP):
        async def push(self, status):
            if isinstance(status, str) and status.startswith("220 Ready to start TLS"):
                self._writer.write(b"220 Ready to start TLS\r\n250 injected\r\n")
                await self._writer.drain()
            else:
                await super().push(status)

    box = Mailbox()
    async with running(lambda: Injecting(box, hostname="mail.test", tls_context=serving(authority))) as port:
        answer = await sent(a_mail(), Server("localhost", port))
    assert answer == Delivered() or isinstance(answer, Later)
    assert all(encrypted for encrypted, *_ in box.mails)


async def test_a_password_that_smtp_cannot_carry_is_set_aside_and_not_shown(authority):
    options = {"authenticator": signs_in, "auth_require_tls": True}
    async with running(smtp(Mailbox(), tls_context=serving(authority), **options)) as port:
        answer = await sent(a_mail(), Server("localhost", port, "ann", "s3cr\u00e9t"))
    assert answer == SetAside("localhost: its user or password has characters that SMTP cannot carry")


def test_a_server_does_not_show_its_password():
    assert "s3cret" not in repr(Server("localhost", 587, "ann", "s3cret"))
