"""Hold a conversation that asks for a refund, and decide what waits, with the async client.

Run it from the folder `examples`, with a key for the model:

    OPENAI_API_KEY=... python -m refund.ask

While it waits you can decide from another terminal as well: `holdfast pending` lists what waits, with the command for each.
"""

import asyncio

from holdfast import (
    Answer,
    Approve,
    AsyncClient,
    AsyncPendingCall,
    Conversation,
    Decision,
    Deny,
    StaleCall,
    SuspensionKind,
)

LARGEST_REFUND = 50


def decide(call: AsyncPendingCall) -> Decision:
    """What the person at the desk would say."""
    if call.kind is SuspensionKind.ELICITATION:
        return Answer("Please refund it to my card.")
    if call.arguments["amount"] <= LARGEST_REFUND:
        return Approve()
    return Deny(f"refunds over {LARGEST_REFUND} need a manager")


async def show(conversation: Conversation) -> None:
    """Print the model's words as they come, and what happens between them."""
    async for event in conversation.events():
        if event.kind == "text_delta":  # live and lossy: for the eye only
            print(event.data["text"], end="", flush=True)
        elif event.kind in ("call_suspended", "run_scheduled", "turn_completed", "turn_failed"):
            print(f"\n[{event.seq}] {event.kind} {event.data.get('tool', '')}")


async def main() -> None:
    async with AsyncClient.connect("refund.app:app") as client:
        conversation = await client.start("support", "Refund order 1042, please: the mug arrived broken.")
        showing = asyncio.create_task(show(conversation))
        state = await conversation.wait()
        while state.pending:
            seq = state.seq
            for call in state.pending:
                try:
                    receipt = await call.resolve(decide(call))
                except StaleCall as stale:  # somebody else was faster, or its time is over
                    print(f"\n{stale}")
                else:
                    seq = receipt.seq
            state = await conversation.wait(after=seq)
        showing.cancel()
        print(f"\n{conversation.id} is {state.status}: {state.reply or state.error}")


if __name__ == "__main__":
    asyncio.run(main())
