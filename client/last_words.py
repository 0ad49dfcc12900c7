"""What was said last in a conversation, for those who look at it from below."""

from holdfast.conversation.log.transcript import reply_of
from holdfast.conversation.records.events import MessageAccepted, ModelAnswered
from holdfast.conversation.terms.parts import in_chat_format, in_words

from .conversation import AsyncConversation

FEW, MANY = 20, 400
"""How many events are looked through: most often the last ones say it."""


async def last_words(conversation: AsyncConversation) -> str:
    """What was said last in a conversation, by its model or its user; empty if that is not among its latest events."""
    for most in (FEW, MANY):
        for event in reversed(await conversation.latest(most)):
            match event.body:
                case ModelAnswered() as answer:
                    said = reply_of(answer) or ""
                case MessageAccepted(text=text):
                    said = in_words(in_chat_format(text))
                case _:
                    continue
            if said.strip():
                return said
    return ""
