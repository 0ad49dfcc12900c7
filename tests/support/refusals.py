"""What tests of refusals ask: that the error is typed and names field and fix, and that nothing changed."""

import contextlib

import pytest

from holdfast.client import InvalidInput

WRITERS_OWN = {b"append_id", b"lease", b"token", b"epoch", b"holder"}  # what a refusal, or a revival, may write of the head


def contents(raw, conversation_id):
    """Every key of a conversation, as far as it says anything about it."""
    found = {}
    for key in raw.scan_iter(f"*}}:c:{conversation_id}:*", count=1000):
        match raw.type(key):
            case b"stream":
                found[key] = raw.xrange(key)
            case b"hash":
                found[key] = {name: value for name, value in raw.hgetall(key).items() if name not in WRITERS_OWN}
    return {key: value for key, value in found.items() if value}


@contextlib.contextmanager
def unchanged(raw, conversation):
    """What happens inside changes nothing of a conversation: neither its keys nor what its readers see."""
    before = contents(raw, conversation.id)
    pending = [item.to_dict() for item in conversation.pending()]
    state = conversation.state()
    assert before
    yield
    assert contents(raw, conversation.id) == before
    assert [item.to_dict() for item in conversation.pending()] == pending
    assert conversation.state() == state


@contextlib.contextmanager
def refused(field, problem, error=InvalidInput):
    """What happens inside raises a typed error that names the field, the problem and the fix."""
    with pytest.raises(error, match=problem) as caught:
        yield
    assert caught.value.field == field
    assert caught.value.fix
    assert str(caught.value) == f"{field}: {caught.value.problem}; {caught.value.fix}"
    assert len(str(caught.value)) < 700
