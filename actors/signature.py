"""Signing app records with a key that Redis does not hold, so that only the publisher says what workers import."""

import hashlib
import hmac

from holdfast.conversation.ids import packed
from holdfast.persistence import AppRecord

from .actor_settings import StoreAddress

SIGNED_AS = "holdfast-app-1"
"""The first part of every signed record: no signature of anything else can pass for that of an app record."""
PRINT_DIGITS = 16


def sealed(key: bytes, store: StoreAddress, record: AppRecord) -> AppRecord:
    """The record with its signature, valid for this store only."""
    return record.model_copy(update={"signature": _signature(key, store, record)})


def vouched(key: bytes | None, store: StoreAddress, app: str, record: AppRecord) -> bool:
    """Whether the record is the app's and was signed with the key; false without a key."""
    if key is None or record.app != app:
        return False
    return is_signature(record.signature, _signature(key, store, record))


def is_signature(said: str, right: str) -> bool:
    """Whether a signature is right, compared in constant time."""
    return hmac.compare_digest(right.encode(), said.encode("utf-8", "replace"))


def keyed(key: bytes, *parts: str) -> str:
    """A keyed digest of the parts, in hexadecimal: guessed values cannot be tested without the key."""
    return hmac.new(key, packed(*parts), hashlib.sha256).hexdigest()


def fingerprint(key: bytes, name: str, value: str) -> str:
    """A short digest that tells one value of a variable from another."""
    return keyed(key, "holdfast-variable-1", name, value)[:PRINT_DIGITS]


def _signature(key: bytes, store: StoreAddress, record: AppRecord) -> str:
    pairs = (sorted(found.items()) for found in (record.agents, record.prints))
    agents, prints = ([part for pair in found for part in pair] for found in pairs)
    main_file = [] if record.main_file is None else [record.main_file]
    rules = [part for pair in sorted(record.rules.items()) for part in pair]
    tools = [[part for pair in sorted(record.primaries.items()) for part in pair], record.approving]
    later = [rules, *tools] if any(tools) else [rules] if rules else []  # so that no list can pass for another
    lists = (record.python_path, main_file, record.environment, agents, prints, *later)
    fixed = (SIGNED_AS, store.store_id, store.namespace, record.app, record.code, record.source)
    return keyed(key, *fixed, *(part for found in lists for part in (str(len(found)), *found)))
