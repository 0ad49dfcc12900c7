"""Messages of parts over the real stack: by the client, over the command line, and from a start to the model's request."""

import base64
import json

import pytest

from holdfast import FilePart, ImagePart, InvalidMessage, TextPart
from holdfast.client import FailureReason
from holdfast.testing import call

PNG = b"\x89PNG\r\n\x1a\n" + b"x" * 100_000
DATA = f"data:image/png;base64,{base64.b64encode(PNG).decode()}"


async def test_parts_reach_the_model_and_come_back_as_messages(stack, client, tmp_path):
    name = stack.scenarios.add("Pictured", call("lookup", {"order": "A1"}), "A dot.", "Two dots.", "Sorry.")
    said = [TextPart.of(f"{name} here"), ImagePart.of(PNG), FilePart.of(b"%PDF-1.7", filename="a.pdf")]

    conversation = await client.start("support", said, conversation_id="pictured", message_id="m-1")
    assert (await conversation.wait(timeout_s=60)).reply == "A dot."
    again = await client.start("support", said, conversation_id="pictured", message_id="m-1")
    assert again.receipt.duplicate
    first = (await conversation.messages())[0]["content"]
    assert [part["type"] for part in first] == ["text", "image_url", "file"]
    sent = [one.body["messages"] for one in stack.model.requests if f"{name} here" in str(one.body["messages"])]
    assert all(next(one for one in messages if one["role"] == "user")["content"] == first for messages in sent)

    (tmp_path / "b.png").write_bytes(PNG)
    ran = stack.python("-m", "holdfast.cli", "send", "pictured", "And this?", "--image", str(tmp_path / "b.png"), "--json")
    out, error = ran.communicate(timeout=60)
    assert ran.returncode == 0, error
    state = await conversation.wait(after=json.loads(out)["seq"], timeout_s=60)
    assert state.reply == "Two dots."
    last = (await conversation.messages())[-2]["content"]
    assert last == [{"type": "text", "text": "And this?"}, {"type": "image_url", "image_url": {"url": DATA}}]

    receipt = await conversation.send([FilePart.of("https://files.example/a.pdf")])
    state = await conversation.wait(after=receipt.seq, timeout_s=60)
    (turn,) = [one for one in await conversation.turns() if one.turn_id == "t3"]
    assert (turn.failed, "takes no file by its URL" in state.error) == (FailureReason.UNSUPPORTED_PART, True)
    receipt = await conversation.send("Never mind.")
    assert (await conversation.wait(after=receipt.seq, timeout_s=60)).reply == "Sorry."


async def test_a_refused_part_changes_nothing(client):
    conversation = await client.start("support", [TextPart.of("Pictured no more")], conversation_id="unpictured")
    seq = (await conversation.wait(timeout_s=60)).seq
    with pytest.raises(InvalidMessage, match="1048576 are allowed") as refused:
        await conversation.send([TextPart.of("x"), ImagePart.of(b"\x89PNG\r\n\x1a\n" + b"x" * 2_000_000)])
    assert refused.value.field == "text"
    assert (await conversation.state()).seq == seq
