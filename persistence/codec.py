"""Bytes: msgpack of pydantic records, each with its kind and version. Never pickle.

A record is the array `[version, kind, fields]` without fields that have their default. Pure functions upgrade records of an
older version; newer ones are refused. JSON from outside is kept as its text (UTF-8), never as msgpack values. An encrypted
payload is a record of its own kind, with the version of the record inside.

Each decoding function raises `CorruptStore` for bytes that are no record of its kind, `NewerRecord` for a newer version and,
except `decode_sealed`, `CipherMissing` for an encrypted record.
"""

import contextlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias, TypeVar, cast

import msgpack
from pydantic import ValidationError

from holdfast.conversation import AgentSpec, Event, ModelFailed, ModelReplied, RunFinished, RunRuled, RunSuspended, State
from holdfast.conversation.record import Record
from holdfast.conversation.records.events import EVENTS
from holdfast.conversation.records.idempotency import IdempotencyRecord
from holdfast.errors import CipherMissing, CorruptStore, InvalidInput, NewerRecord, StoreError

from .access import ApiKey, Ticket
from .app_record import AppRecord

VERSION = 6
"""The record version that this code writes; it reads this version and every older one.

6: held calls (`call_held`), reviews that a tool's body asks for, reasons for decisions (`reason`), a call's batch, the effect
   of a decision on it (`resume`, `resumed`, `decided_at`), the audit chain (`salt`, `head`, `shown`, `audit_head`).
   Records of version 5 mean the same: no call was held, and nothing was chained.
5: who sent, decided, cancelled or ended (`principal`); cancellations of the calls that wait (`pending_cancelled`); trace
   contexts (`traceparent`). Records of version 4 mean the same: no principal was named, and nothing was traced.
4: the records of model calls, beside those of runs. Records of version 3 mean the same; a model call that was outstanding then
   has no record, and gets one when it is taken up.
3: the reasons why turns stopped or failed, reasoning, calls that the provider executed, limits of answers and of the queue.
   Records of version 2 mean the same; specs keep the digest under which they are stored.
2: suspensions of kind `lost`, decisions of kind `redispatch`, `on_lost` of `ask`. Records of version 1 mean the same.
"""

Outcome: TypeAlias = RunFinished | RunSuspended | RunRuled | ModelReplied | ModelFailed
Fields = dict[str, Any]
UPGRADES: Mapping[tuple[str, int], Callable[[Fields], Fields]] = {}
"""By kind and version: the function that turns a record's fields into those of the next version, if they differ."""

MOST_DIGITS = 19
SEALED = "sealed"
_SEALED = b"\xa6sealed"
_EVENTS: dict[str, type[Record]] = {str(cls.model_fields["kind"].default): cls for cls in EVENTS}
_OUTCOMES: dict[str, type[Record]] = {
    str(cls.model_fields["kind"].default): cls for cls in (RunFinished, RunSuspended, RunRuled, ModelReplied, ModelFailed)
}
_R = TypeVar("_R", bound=Record)
KINDS: dict[type[Record], str] = {
    State: "state",
    IdempotencyRecord: "known",
    AgentSpec: "spec",
    AppRecord: "app",
    ApiKey: "api_key",
    Ticket: "ticket",
}
"""The kinds of records; events and outcomes, which name their own kind, are left out."""
_KIND_OF: Mapping[type[Record], str] = KINDS | {cls: kind for kind, cls in (_EVENTS | _OUTCOMES).items()}


def encode(record: Record) -> bytes:
    """The bytes of a record; those of an API key leave out its last use."""
    if isinstance(record, ApiKey):
        record = record.model_copy(update={"used_at": None})
    return pack([VERSION, _KIND_OF[type(record)], record.model_dump(exclude_defaults=True)])


def decode(cls: type[_R], data: bytes) -> _R:
    """The record of a class in `KINDS`, from its bytes."""
    kind, fields = _unpack(data)
    if kind != KINDS[cls]:
        raise CorruptStore(f"a {KINDS[cls]} record has the kind {kind!r}")
    return _validated(cls, kind, fields)


def decode_event(data: bytes) -> Event:
    """The event of a log entry."""
    return cast("Event", _named(_EVENTS, data, "a log entry has the unknown kind"))


def decode_outcome(data: bytes) -> Outcome:
    """The outcome of a run or model call in these bytes."""
    return cast("Outcome", _named(_OUTCOMES, data, "an outcome has the kind"))


def _named(kinds: Mapping[str, type[Record]], data: bytes, what: str) -> Record:
    kind, fields = _unpack(data)
    if kind not in kinds:
        raise CorruptStore(f"{what} {kind!r}")
    return _validated(kinds[kind], kind, fields)


def readable_apps(records: Iterable[bytes]) -> list[AppRecord]:
    """The readable app records among these."""
    found = []
    for data in records:
        with contextlib.suppress(StoreError):
            found.append(decode(AppRecord, data))
    return found


def encode_sealed(ciphertext: bytes, seq: int | None = None) -> bytes:
    """The record of an encrypted payload. A snapshot's `seq` stays readable, since scripts read it."""
    fields = {"data": ciphertext} if seq is None else {"seq": seq, "data": ciphertext}
    return pack_raw([VERSION, SEALED, fields])


def is_sealed(data: bytes) -> bool:
    """Whether a record, live message or text is encrypted: its first bytes tell."""
    return data[2:9] == _SEALED and data[:1] == b"\x93"


def decode_sealed(data: bytes) -> bytes:
    """The ciphertext in a record of an encrypted payload."""
    try:
        version, _, fields = msgpack.unpackb(data, raw=True)
    except (ValueError, TypeError) as error:
        raise CorruptStore(f"an encrypted record cannot be read ({error})") from error
    if isinstance(version, int) and version > VERSION:
        raise NewerRecord(SEALED, version, VERSION)
    ciphertext = fields.get(b"data") if isinstance(fields, dict) else None
    if not isinstance(ciphertext, bytes):
        raise CorruptStore("an encrypted record holds no ciphertext")
    return ciphertext


def pack(value: Any) -> bytes:
    """The bytes of plain values (strings, numbers, lists): live messages and index entries."""
    return cast("bytes", msgpack.packb(value))


def pack_raw(value: Any) -> bytes:
    """The bytes of plain values for a script, in the older msgpack: Redis's own knows no binary type."""
    return cast("bytes", msgpack.packb(value, use_bin_type=False))


def unpack(data: bytes) -> Any:
    """The value given to `pack`."""
    return msgpack.unpackb(data)


def number_of(value: bytes, what: str) -> int:
    """The number in decimal digits, as Holdfast writes it."""
    if value.isdigit() and len(value) <= MOST_DIGITS:
        return int(value)
    raise CorruptStore(f"{what} reads {value[:20]!r}")


def _validated(cls: type[_R], kind: str, fields: Fields) -> _R:
    try:
        return cls.model_validate(fields)
    except (ValidationError, InvalidInput) as error:
        why = error.errors(include_url=False, include_input=False) if isinstance(error, ValidationError) else error.problem
        raise CorruptStore(f"the fields of a {kind} record are missing or wrong ({why!r:.200})") from error


def _unpack(data: bytes) -> tuple[str, Fields]:
    try:
        version, kind, fields = msgpack.unpackb(data)
    except (ValueError, TypeError) as error:
        if is_sealed(data):
            raise CipherMissing("a record") from error
        raise CorruptStore(f"a record cannot be read ({error})") from error
    if not (isinstance(version, int) and isinstance(kind, str)):
        raise CorruptStore(f"a record begins with {version!r:.20}, {kind!r:.20}, not with its version and kind")
    if version > VERSION:
        raise NewerRecord(kind, version, VERSION)
    if kind == SEALED:  # the reader lacks the cipher: the store is not corrupt
        raise CipherMissing("a record")
    if version < 1:
        raise CorruptStore(f"a {kind!r:.40} record has the unknown version {version}")
    for older in range(version, VERSION):
        upgrade = UPGRADES.get((kind, older))
        fields = upgrade(fields) if upgrade is not None else fields
    return kind, fields
