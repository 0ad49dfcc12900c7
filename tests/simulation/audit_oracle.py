"""What must be true of the audit chain: it holds and leads to the state, each link has a salt, and each receipt its head."""

from holdfast.conversation import Cancelled, Receipt, Receipts
from holdfast.conversation.log.auditing import is_audited
from holdfast.conversation.log.chain import ChainCheck


def the_chain_verifies(ledger, history):
    """Note what is broken of a conversation's chain, and each receipt that has not the head of what it acknowledges."""
    receipts = [
        receipt
        for asked in ledger.asked
        if asked.conversation_id == history.conversation_id and not asked.lost
        for receipt in _receipts(asked.answer)
    ]
    check = ChainCheck(
        history.conversation_id, {one.audit_head: getattr(one, "seq", None) for one in receipts if one.audit_head}
    )
    for seq, event in enumerate(history.events, 1):
        check.add(seq, event)
        check.standing(history.states[-1])
    check.done(len(history.events))
    salts = [
        event.salt for event in history.events if is_audited(event) or event.kind in ("message_accepted", "call_suspended")
    ]
    if "" in salts or len(set(salts)) < len(salts):
        ledger.wrong("%s: a digest of its audit chain has no salt of its own", history.conversation_id)
    for one in check.breaks:
        ledger.wrong("%s: its audit chain does not hold at %s: %s", history.conversation_id, one.seq, one.problem)
    for one in receipts:
        if isinstance(one, Receipt) and 0 < one.seq <= len(history.events):
            event = history.events[one.seq - 1]
            if one.audit_head != (event.head if is_audited(event) else ""):
                ledger.wrong("%s: a receipt of %d has another head than the log", history.conversation_id, one.seq)


def _receipts(answer):
    match answer:
        case Receipt() | Cancelled():
            return [answer]
        case Receipts():
            return list(answer.receipts)
        case _:
            return []
