"""The blocking client in a threaded web application, as in Flask or Django; plain functions stand for the views.

Run it from the folder `examples`, with a key for the model:

    OPENAI_API_KEY=... python flask_style.py

One client is made when the module is imported. It connects when a request first needs it, so it is safe before a server forks
its workers, and all threads of a process share it.
"""

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from holdfast import Answer, Approve, Client, StaleCall, SuspensionKind

client = Client.connect("refund.app:app")


def post_conversation(request_id: str, text: str) -> dict[str, Any]:
    """`POST /conversations`: the caller's request id makes a repeated request harmless."""
    conversation = client.start("support", text, message_id=request_id)
    return {"conversation_id": conversation.id, "duplicate": conversation.receipt.duplicate}


def get_conversation(conversation_id: str) -> dict[str, Any]:
    """`GET /conversations/<id>`: read from Redis, at once."""
    state = client.conversation(conversation_id).state()
    return {"status": state.status, "reply": state.reply, "pending": [call.to_dict() for call in state.pending]}


def post_decision(shown: dict[str, Any], click_id: str) -> tuple[int, dict[str, Any]]:
    """`POST /decisions`: what a click on a pending call sends back, with the suspension that the page had shown."""
    approval = shown["kind"] == SuspensionKind.APPROVAL
    try:
        receipt = client.resolve(
            shown["suspension_id"],
            Approve() if approval else Answer("Please refund it to my card."),
            conversation_id=shown["conversation_id"],
            decision_id=click_id,
        )
    except StaleCall as stale:
        return 409, {"reason": stale.reason}
    return 200, {"seq": receipt.seq, "duplicate": receipt.duplicate}


def customer(number: int) -> str:
    """A browser: starts a conversation, polls it and clicks on what waits."""
    page = post_conversation(f"flask-style-{number}", "Refund order 1042, please: the mug arrived broken.")
    while True:
        seen = get_conversation(page["conversation_id"])
        for shown in seen["pending"]:
            print(number, shown["tool"], post_decision(shown, f"click-{shown['suspension_id']}"))
        if seen["status"] in ("idle", "failed"):
            return f"{number}: {seen['reply']}"
        time.sleep(0.1)


if __name__ == "__main__":
    with client, ThreadPoolExecutor(3) as threads:
        for line in threads.map(customer, range(3)):
            print(line)
