"""Mail over SMTP, encrypted or not at all. `smtplib` blocks, so each mail has a thread, whose connection ends with its time."""

import asyncio
import contextlib
import smtplib
import socket
from dataclasses import dataclass
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import formatdate
from typing import Any

from holdfast.actors.workers import DeliverAnswer, Delivered, Later, SetAside
from holdfast.agent.notice import Notice
from holdfast.agent.notify import Email
from holdfast.daemon import in_daemon

from .outgoing import SAID, tls
from .wording import headline, lines, one_line

WITHIN_S = 30.0
"""Seconds for a whole mail, and for each answer of the server."""
ANSWERS_BYTES = 64 * 1024
"""The most bytes of a server's answers to one mail, before TLS begins and after it."""
READY = 220
SIGNING_IN = frozenset({530, 534, 535})
"""The refusals to sign somebody in: of every mail, until the password is put right."""
OURSELVES = "[127.0.0.1]"
"""How the sender names itself: the name of a worker's machine means nothing to a mail server."""
IMPLICIT = 465
"""The port on which a connection begins with TLS."""


@dataclass(frozen=True, slots=True)
class Server:
    """A mail server, and the name and password to sign in with, if it wants them."""

    host: str
    port: int
    user: str = ""
    password: str = ""

    def __repr__(self) -> str:
        return f"Server({self.host!r}, {self.port})"


def mail_of(notice: Notice, target: Email) -> EmailMessage:
    """A notice as a mail, which has the same id if it is sent again."""
    mail = EmailMessage(policy=SMTP.clone(cte_type="7bit"))
    mail["From"], mail["To"] = target.sender, ", ".join(target.to)
    mail["Subject"] = headline(notice)
    mail["Date"] = formatdate(notice.at / 1000)
    mail["Message-ID"] = f"<{notice.id}@{target.sender.rpartition('@')[2]}>"
    mail["Auto-Submitted"] = "auto-generated"
    details = [f"{label}: {text}" for label, text in lines(notice, content=target.content)]
    links = [f"{decision.capitalize()}: {url}" for decision, url in notice.links.items()]
    mail.set_content("\n".join((headline(notice), "", *details, *([""] if links else []), *links, "")))
    return mail


async def sent(mail: EmailMessage, server: Server, *, within_s: float = WITHIN_S) -> DeliverAnswer:
    """Send a mail; what became of it. No error of the network is raised."""
    client = (_Encrypted if server.port == IMPLICIT else _Starting)(server.host, within_s)
    try:
        async with asyncio.timeout(within_s):
            return await in_daemon(_sent, client, mail, server)
    except TimeoutError:
        return Later(f"{server.host} has not taken the mail within {within_s:g} s")
    finally:
        client.hang_up()


class _Bounded:
    """The answers of a server, up to so many bytes: one that never ends its answer fills no memory."""

    def __init__(self, answers: Any) -> None:
        self._answers, self._left = answers, ANSWERS_BYTES

    def readline(self, size: int) -> bytes:
        line: bytes = self._answers.readline(size)
        self._left -= len(line)
        if self._left < 0:
            raise OSError("its answers are too long")
        return line

    def close(self) -> None:
        self._answers.close()


class _Starting(smtplib.SMTP):
    """Begins in the clear; nothing is sent before STARTTLS."""

    file: Any

    def __init__(self, host: str, timeout_s: float) -> None:
        super().__init__(timeout=timeout_s, local_hostname=OURSELVES)
        self._host = host  # the name that its certificate must have
        self._line: socket.socket | None = None
        self._over = False

    def _get_socket(self, host: str, port: int, timeout: float) -> socket.socket:
        plain = socket.create_connection((host, port), timeout)
        self._line = plain.dup()  # TLS takes the other over, and shows it only once its handshake is done
        if self._over:
            self.hang_up()
        return plain

    def close(self) -> None:
        super().close()
        if self._line is not None:
            self._line.close()

    def getreply(self) -> tuple[int, bytes]:
        if self._over:
            raise smtplib.SMTPServerDisconnected("the time is over")
        if self.file is None and self.sock is not None:
            self.file = _Bounded(self.sock.makefile("rb"))
        return super().getreply()

    def hang_up(self) -> None:
        """End the connection under the thread that uses it, so that the thread ends."""
        self._over = True
        if self._line is not None:
            with contextlib.suppress(OSError):
                self._line.shutdown(socket.SHUT_RDWR)


class _Encrypted(_Starting):
    """Begins with TLS."""

    def _get_socket(self, host: str, port: int, timeout: float) -> socket.socket:
        return tls().wrap_socket(super()._get_socket(host, port, timeout), server_hostname=host)


def _sent(client: smtplib.SMTP, mail: EmailMessage, server: Server) -> DeliverAnswer:
    try:
        code, greeting = client.connect(server.host, server.port)
        if code != READY:
            raise smtplib.SMTPConnectError(code, greeting)
        if server.port != IMPLICIT:
            client.starttls(context=tls())
        if server.user:
            client.login(server.user, server.password)
        refused = client.send_message(mail)
        with contextlib.suppress(smtplib.SMTPException, OSError):
            client.quit()
        return Delivered() if not refused else SetAside(f"{server.host} refused {', '.join(sorted(refused))[:SAID]}")
    except smtplib.SMTPNotSupportedError as error:
        what = (
            "no STARTTLS, and mail is not sent in the clear"
            if "STARTTLS" in str(error)
            else f"not what the mail needs: {error}"
        )
        return SetAside(f"{server.host} offers {what}")
    except smtplib.SMTPRecipientsRefused as error:
        codes = [code for code, _ in error.recipients.values()]
        return _refused(server, min(codes), f"all recipients refused ({', '.join(map(str, sorted(set(codes))))})")
    except smtplib.SMTPResponseException as error:
        said = error.smtp_error.decode("ascii", "replace") if isinstance(error.smtp_error, bytes) else str(error.smtp_error)
        return _refused(server, error.smtp_code, f"{error.smtp_code} {said}")
    except UnicodeError:
        return SetAside(f"{server.host}: its user or password has characters that SMTP cannot carry")
    except (smtplib.SMTPException, OSError) as error:
        return Later(f"{server.host} cannot be reached: {type(error).__name__}: {error}"[:SAID])
    finally:
        client.close()


def _refused(server: Server, code: int, said: str) -> DeliverAnswer:
    reason = f"{server.host} answered {one_line(said[:SAID])}"
    return SetAside(reason) if code >= 500 and code not in SIGNING_IN else Later(reason)  # noqa: PLR2004 - those for good
