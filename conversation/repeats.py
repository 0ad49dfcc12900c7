"""Requests that come twice: whoever repeats one gets the first receipt again."""

from holdfast.errors import InvalidInput

from .commands import Assign, Comment, Revoke, RevokeGiven
from .idempotency import IdempotencyRecord, request_key
from .judgement import Judgement, Receipt
from .state import State


def receipt_again(state: State, known: IdempotencyRecord) -> Receipt:
    """The receipt of what was accepted before under the same id."""
    return Receipt(
        conversation_id=state.conversation_id,
        seq=known.seq,
        accepted_at=known.at,
        duplicate=True,
        settled=known.settled,
        votes=known.votes,
        needed=known.needed,
        audit_head=known.head,
    )


def request_again(state: State, command: Revoke | RevokeGiven | Assign | Comment, digest: str) -> Judgement | None:
    """The first receipt, if a request with this digest was accepted before under the same id.

    Raises:
        InvalidInput: The request id was used for something else.
    """
    known = command.known.get(request_key(command.request_id))
    if known is None:
        return None
    if known.digest != digest:
        problem = f"{command.request_id!r:.80} was already used for something else"
        raise InvalidInput("request_id", problem, "use a new request_id for a new request")
    return Judgement(reply=receipt_again(state, known))
