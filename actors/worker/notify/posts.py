"""What is posted over HTTP: a signed JSON object to a webhook, a text to Slack."""

import time
from collections.abc import Sequence
from typing import Any

from holdfast.actors.workers import DeliverAnswer
from holdfast.agent.notice import Notice
from holdfast.agent.notify import Slack, Webhook
from holdfast.conversation.text import jsontext

from .outgoing import Outgoing
from .signing import signed
from .wording import headline, lines, moment

_JSON = {"Content-Type": "application/json"}
_OF_CALL = {"suspension_id", "tool_call_id", "tool", "kind", "created_at", "expires_at", "decisions"}
"""What is told of a call without its content."""


async def to_webhook(outgoing: Outgoing, target: Webhook, secrets: Sequence[bytes], notice: Notice) -> DeliverAnswer:
    """Post a notice to a webhook, signed by each of these secrets."""
    body = jsontext.dumps(payload(notice, content=target.content)).encode()
    headers = _JSON | signed(notice.id, int(time.time()), body, secrets)
    return await outgoing.posted(target.url, body, headers, allow_private=target.allow_private)


def payload(notice: Notice, *, content: bool) -> dict[str, Any]:
    """A notice as an object of JSON, in the form that standard-webhooks proposes."""
    data: dict[str, Any] = {"conversation_id": notice.conversation_id, "agent": notice.agent, "seq": notice.seq}
    if notice.call is not None:
        data["call"] = notice.call.model_dump(mode="json", include=None if content else _OF_CALL, exclude_none=True)
    if notice.by is not None:
        data |= {"by": notice.by, "decision": notice.decision}
    if notice.principal is not None:
        data["principal"] = notice.principal.id
    if content:
        written = {"reason": notice.reason or None, "reply": notice.reply, "error": notice.error}
        data |= {name: text for name, text in written.items() if text is not None}
    return {"id": notice.id, "type": notice.kind, "timestamp": moment(notice.at), "data": data}


async def to_slack(outgoing: Outgoing, target: Slack, url: str, notice: Notice) -> DeliverAnswer:
    """Post a notice to an incoming webhook of Slack."""
    details = [f"{label}: {escaped(text)}" for label, text in lines(notice, content=target.content)]
    links = [f"<{escaped(url)}|{escaped(decision.capitalize())}>" for decision, url in notice.links.items()]
    text = "\n".join((f"*{escaped(headline(notice))}*", *details, *([" · ".join(links)] if links else [])))
    body = jsontext.dumps({"text": text, "unfurl_links": False, "unfurl_media": False}).encode()
    return await outgoing.posted(url, body, _JSON, allow_private=target.allow_private, tells=True)


def escaped(text: str) -> str:
    """A text in which Slack finds no mention, link or command."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
