"""The delivery of an app's notices: of each target, what it needs of the environment, and how it is told."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias, assert_never

from holdfast.actors.worker.bench import Room
from holdfast.actors.workers import DeliverAnswer, Delivered, DeliverRequest, Later, SetAside
from holdfast.agent import App
from holdfast.agent.notice import Notice
from holdfast.agent.notify import Email, Notify, Slack, Target, Webhook, checked_url
from holdfast.agent.suspend import Suspend
from holdfast.errors import ConfigurationError, NewerRecord, StoreError, StoreUnavailable
from holdfast.persistence import Conversations
from holdfast.redaction import Redaction

from . import mail, posts
from .addresses import Refused
from .notices import notice_of
from .outgoing import SAID, Outgoing
from .signing import secrets_in

FUNCTION_S = 30.0
"""Seconds that a function of the app may take."""
_Sender: TypeAlias = Callable[[Notice], Awaitable[DeliverAnswer]]


class Notifier:
    """The notification targets of an app in a worker, whose environment has their secrets.

    Raises:
        ConfigurationError: A variable of the environment that a target needs is missing, or cannot be used.
    """

    def __init__(self, app: App, environ: Mapping[str, str]) -> None:
        self._outgoing = Outgoing()
        self._senders = {target.name: _sender(target, environ, self._outgoing) for target in app.notify}

    async def deliver(
        self, store: Conversations, request: DeliverRequest, redaction: Redaction, room: Callable[[], Awaitable[Room]]
    ) -> DeliverAnswer:
        """Tell a target of one event; a function of the app runs in the room."""
        sender = self._senders.get(request.target)
        if sender is None:
            return SetAside(f"the app has no notification target {request.target!r} any more")
        try:
            notice = await notice_of(store, request)
        except (StoreUnavailable, NewerRecord) as error:
            return _redacted(Later(str(error)), redaction)
        except (Refused, StoreError) as error:
            return _redacted(SetAside(str(error)), redaction)
        if isinstance(sender, Notify):
            return await _called(sender, notice, redaction, await room())
        return _redacted(await sender(notice), redaction)

    async def close(self) -> None:
        """Close the connections to receivers."""
        await self._outgoing.close()


async def _called(target: Notify, notice: Notice, redaction: Redaction, room: Room) -> DeliverAnswer:
    try:
        async with asyncio.timeout(FUNCTION_S) as bound:
            await room.run(_awaited(target, notice))
    except TimeoutError as error:
        late = bound.expired()
        return Later(f"{target.name} has taken {FUNCTION_S:g} s and more" if late else redaction.said(error, SAID))
    except (Exception, Suspend) as error:  # noqa: BLE001 - the function is the app's
        return Later(redaction.said(error, SAID))
    return Delivered()


async def _awaited(target: Notify, notice: Notice) -> Any:
    return await target.function(notice)


def _redacted(answer: DeliverAnswer, redaction: Redaction) -> DeliverAnswer:
    return answer if isinstance(answer, Delivered) else replace(answer, reason=redaction.redacted(answer.reason, 2 * SAID))


def _sender(target: Target, environ: Mapping[str, str], outgoing: Outgoing) -> _Sender | Notify:
    values = {name: environ.get(name, "") for name in target.variables}
    for name, value in values.items():
        if not value:
            raise _wrong(target, name, "it is not set in this worker's environment", "set it where `holdfast up --app` runs")
    match target:
        case Webhook():
            try:
                secrets = secrets_in(values[target.secret_env])
            except ValueError as error:
                fix = "give whsec_ and the base64 of 24 to 64 bytes: the secret that the receiver verifies with"
                raise _wrong(target, target.secret_env, str(error), fix) from None
            return partial(posts.to_webhook, outgoing, target, secrets)
        case Slack():
            field = f"notify {target.name!r}: {target.url_env}"
            url = checked_url(values[target.url_env], field, allow_private=target.allow_private)
            return partial(posts.to_slack, outgoing, target, url)
        case Email():
            user, password = (values.get(name or "", "") for name in (target.user_env, target.password_env))
            server = mail.Server(target.host, target.port, user, password)
            return partial(_mailed, target, server)
        case Notify():
            return target
        case _:
            assert_never(target)


async def _mailed(target: Email, server: mail.Server, notice: Notice) -> DeliverAnswer:
    return await mail.sent(mail.mail_of(notice, target), server)


def _wrong(target: Target, variable: str, problem: str, fix: str) -> ConfigurationError:
    return ConfigurationError(f"notify {target.name!r}: {variable}", problem, fix)
