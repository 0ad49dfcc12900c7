"""Real receivers on loopback: a TCP server that answers a request as it is told, and a mail server, with certificates."""

import asyncio
import contextlib
import ssl

import trustme
from aiosmtpd.smtp import SMTP, AuthResult

from holdfast.actors.worker.notify import outgoing

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Receiver:
    """A TCP server on loopback that reads requests, and after each does what it is told."""

    def __init__(self, answers, tls=None):
        self.answers, self.tls = answers, tls
        self.requests = []
        self.connections = self.closed = 0

    async def __aenter__(self):
        self.server = await asyncio.start_server(self._connected, "127.0.0.1", 0, ssl=self.tls)
        self.port = self.server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_):
        self.server.close()

    @property
    def url(self):
        return f"{'https' if self.tls else 'http'}://localhost:{self.port}/hooks?key=s3cret"

    async def _connected(self, reader, writer):
        self.connections += 1
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = next(int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:"))
                self.requests.append(head + await reader.readexactly(length))
                await self.answers(writer)
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            self.closed += 1
        finally:
            with contextlib.suppress(OSError):
                writer.close()


def says(answer):
    async def answers(writer):
        writer.write(answer)

    return answers


@contextlib.contextmanager
def trusted(monkeypatch, folder):
    """An authority whose certificates count on this machine."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(folder / "ca.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(folder / "ca.pem"))
    outgoing.tls.cache_clear()
    yield authority
    outgoing.tls.cache_clear()


def serving(authority, name="localhost"):
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert(name).configure_cert(context)
    return context


@contextlib.asynccontextmanager
async def running(protocol, tls=None):
    server = await asyncio.get_running_loop().create_server(protocol, "127.0.0.1", 0, ssl=tls)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


def smtp(box, **options):
    return lambda: SMTP(box, hostname="mail.test", **options)


class Mailbox:
    """What the server has taken, and what it answers."""

    def __init__(self):
        self.mails = []
        self.refuses = self.refuses_recipients = ""

    async def handle_RCPT(self, _server, _session, envelope, address, _options):  # noqa: N802 - aiosmtpd's name
        if self.refuses_recipients:
            return self.refuses_recipients
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, _server, session, envelope):  # noqa: N802
        if self.refuses:
            return self.refuses
        self.mails.append((session.ssl is not None, session.authenticated, envelope.rcpt_tos, envelope.content))
        return "250 OK"


def signs_in(_server, _session, _envelope, _mechanism, said):
    return AuthResult(success=(said.login, said.password) == (b"ann", b"s3cret"), handled=False)
