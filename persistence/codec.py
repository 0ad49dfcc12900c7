"""Bytes: msgpack of pydantic records, each with its kind and version, encrypted if there is a cipher. Never pickle.

A record is the array `[version, kind, fields]` without fields that have their default. Pure functions upgrade records of an
older version; newer ones are refused. JSON from outside is kept as its text (UTF-8), never as msgpack values. An encrypted
payload is a record of its own kind, with the version of the record inside.

Each decoding function raises `CorruptStore` for bytes that are no record of its kind, `NewerRecord` for a newer version and,
except `decode_sealed`, `CipherMissing` for an encrypted record.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias, TypeVar, cast

import msgpack
from pydantic import ValidationError

from holdfast.cipher import Cipher, CipherAt, called
from holdfast.conversation import (
    AgentSpec,
    Event,
    ModelFailed,
    ModelReplied,
    RunFinished,
    RunRuled,
    RunSuspended,
    State,
    Summarized,
)
from holdfast.conversation.record import Record
from holdfast.conversation.records.events import EVENTS
from holdfast.conversation.records.idempotency import IdempotencyRecord
from holdfast.conversation.terms.presence import Present
from holdfast.daemon import in_daemon
from holdfast.errors import CipherFailed, CipherMissing, CorruptStore, InvalidInput, NewerRecord, StoreError

from .access import ApiKey, Ticket
from .app_record import AppRecord

VERSION = 10
"""The record version that this code writes; it reads this version and every older one.

10: agents say how much of a conversation is sent (`context`), when a turn stops (`stop`, `counted`, `stop_reached`, `stopping`,
   `ends_at`, `waiting_since`, `detail`), how often a model is asked and which others are (`retries`, `breaker`, `fallbacks`),
   and answers which one it was (`model`) and what they used (`cached_tokens`, `reasoning_tokens`, `cost_usd`, `duration_ms`,
   `first_token_ms`); turns that stop count what they cost, and since when they go on (`nano_usd`, `began_at`); agents have
   budgets (`budgets`, `spent`, `until`); a turn goes on after answers that are cut off inside their calls (`cut`); messages
   override what their agent allows (`overrides`, `overridable`); agents give their replies a shape (`reply`, `shaped`,
   `misfit`, `misfits`); summaries stand for the first messages of a conversation (`compact`, `compacted`, `summary_failed`,
   `reduced`, `boundary`), and a request that is too long is made smaller (`context_overflowed`, `reducible`);
   a summary can be asked for (`compaction_requested`, `compaction_started`, `compacting`, `compacts`).
   Records of version 9 mean the same: all was sent, no turn stopped, no other model was asked, what else answers used is
   unknown, no turn went on after such an answer, nothing was overridden, any text was a reply, and nothing was summarised;
   their states do not say whether the last reply was cut off (`stopped`).
9: messages and results of parts (`text` as a list, `attached`); the queue's entries are records; claims of clients
   (`call_claimed`, `call_given_back`, `claim`, `look_at`). Of a state of version 8, `queue` and `queued_traces` are read as
   these, and every client call waited unclaimed.
8: delegation (`parent`, `delegation`, `share`, `delegated`, `source_ended`, a call's `context`). Records of version 7 mean the
   same: no conversation was started by another one.
7: waits of machines (`source`), notification targets of agents (`notify`), deadlines that act (`on_timeout`, stages and
   reminders), snoozes. Records of version 6 mean the same: every suspension waited for people, and failed at its deadline.
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

Outcome: TypeAlias = RunFinished | RunSuspended | RunRuled | ModelReplied | ModelFailed | Summarized
Fields = dict[str, Any]


def _queue_of_8(fields: Fields) -> Fields:
    """A state of version 8, whose queue is of numbers, with the trace contexts beside it."""
    traces = {one["seq"]: one["traceparent"] for one in fields.pop("queued_traces", ())}
    queue = [{"seq": seq, "traceparent": traces.get(seq)} for seq in fields.get("queue", ())]
    return fields | ({"queue": queue} if queue else {})


UPGRADES: Mapping[tuple[str, int], Callable[[Fields], Fields]] = {("state", 8): _queue_of_8}
"""By kind and version: the function that turns a record's fields into those of the next version, if they differ."""

MOST_DIGITS = 19
SEALED = "sealed"
_SEALED = b"\xa6sealed"
_EVENTS: dict[str, type[Record]] = {str(cls.model_fields["kind"].default): cls for cls in EVENTS}
_OUTCOMES: dict[str, type[Record]] = {
    str(cls.model_fields["kind"].default): cls
    for cls in (RunFinished, RunSuspended, RunRuled, ModelReplied, ModelFailed, Summarized)
}
_R = TypeVar("_R", bound=Record)
KINDS: dict[type[Record], str] = {
    State: "state",
    IdempotencyRecord: "known",
    AgentSpec: "spec",
    AppRecord: "app",
    ApiKey: "api_key",
    Ticket: "ticket",
    Present: "present",
}
"""The kinds of records; events and outcomes, which name their own kind, are left out."""
_KIND_OF: Mapping[type[Record], str] = KINDS | {cls: kind for kind, cls in (_EVENTS | _OUTCOMES).items()}

logger = logging.getLogger("holdfast.persistence")


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
        try:
            fields = upgrade(fields) if upgrade is not None else fields
        except (AttributeError, KeyError, TypeError) as error:
            raise CorruptStore(f"a {kind!r:.40} record of version {version} cannot be read ({error})") from error
    return kind, fields


PROBE = b"holdfast: a payload that no Redis ever sees"
UNENCRYPTED = "(the reason could not be encrypted: see the logs)"
UNREADABLE = "(the reason is encrypted and cannot be decrypted here: HOLDFAST_CIPHER must name the cipher)"

IMPORT_S = 30.0
"""Seconds for which the opening of a store waits for the import of its cipher."""
AGAIN_S = 5.0
"""Seconds after which a failed import of a cipher is tried again."""


class Payloads:
    """The payloads of one namespace: encoded, and encrypted if there is a cipher.

    They hold words of people, models or tools: log entries, snapshots (with tool names as the model gave them), idempotency
    records (a short answer could be guessed from a digest), outcomes, agent specs, permission rules, attached clients; as
    bytes, progress and live events; as texts, the reasons why work cannot go on. Each is encrypted as a whole. Its context
    names its place, so it cannot be decrypted in another conversation or elsewhere in its log. Their first bytes, not the
    configuration, decide whether they are decrypted.

    Every method that encodes or decodes raises like `seal` or `open`.

    `store_id` returns the store's id, None before it is known. `cipher` is a cipher, the import path of one (imported on first
    use), or None for no encryption.
    """

    def __init__(self, namespace: str, store_id: Callable[[], str | None], cipher: Cipher | CipherAt | None = None) -> None:
        self._namespace = namespace
        self._store_id = store_id
        self._loaded: Cipher | None = None
        self._failed: CipherFailed | None = None
        self._failed_at = 0.0
        self._importing = False
        self.cipher = cipher

    def seal(self, data: bytes, *place: str, seq: int | None = None) -> bytes:
        """The stored form of bytes in a place, encrypted if there is a cipher (or `CipherFailed`); `seq` stays readable."""
        if self.cipher is None:
            return data
        return encode_sealed(called(self._found().encrypt, data, self._context(place), " ".join(place)), seq)

    def open(self, data: bytes, *place: str) -> bytes:
        """The bytes that were given to `seal`, from their stored form in a place.

        Raises:
            CipherMissing: They are encrypted, and there is no cipher.
            CipherFailed: They cannot be decrypted.
            CorruptStore: The record of the encrypted payload cannot be read.
            NewerRecord: A newer Holdfast encrypted them.
        """
        if not is_sealed(data):
            return data
        what = " ".join(place)
        if self.cipher is None:
            raise CipherMissing(what)
        return called(self._found().decrypt, decode_sealed(data), self._context(place), what)

    def open_or_leave(self, data: bytes, *place: str) -> bytes:
        """Like `open`, but undecryptable bytes are returned as stored, so that one failure does not stop other reads."""
        try:
            return self.open(data, *place)
        except StoreError as error:
            logger.debug("left as it is: %s", error)
            return data

    def seal_text(self, text: str, *place: str) -> bytes:
        """The stored form of a problem's text; `UNENCRYPTED` replaces a text that cannot be encrypted."""
        try:
            return self.seal(text.encode("utf-8", "replace"), *place)
        except StoreError as error:
            logger.warning("%s: %s; the text that could not be encrypted: %s", " ".join(place), error, text)
            return UNENCRYPTED.encode()

    def open_text(self, data: bytes, *place: str) -> str:
        """The text that was given to `seal_text`, or `UNREADABLE` if it cannot be decrypted."""
        found = self.open_or_leave(data, *place)
        return UNREADABLE if is_sealed(found) else found.decode(errors="replace")

    def seal_event(self, conversation_id: str, seq: int, event: Event) -> bytes:
        """An event as a log entry."""
        data = encode(event)
        return data if self.cipher is None else self.seal(data, "log", conversation_id, str(seq))

    def open_event(self, conversation_id: str, seq: int, data: bytes) -> Event:
        """The event of a log entry."""
        return decode_event(self.open(data, "log", conversation_id, str(seq)) if is_sealed(data) else data)

    def seal_state(self, conversation_id: str, state: State) -> bytes:
        """A state as a snapshot; its place in the log stays readable, since scripts read it."""
        return self.seal(encode(state), "snapshot", conversation_id, seq=state.seq)

    def open_state(self, conversation_id: str, data: bytes) -> State:
        """The state in a snapshot; without a snapshot, the state of a conversation that was never started."""
        if not data:
            return State(conversation_id=conversation_id)
        return decode(State, self.open(data, "snapshot", conversation_id))

    def seal_known(self, conversation_id: str, key: str, known: IdempotencyRecord) -> bytes:
        """An idempotency record as stored bytes."""
        return self.seal(encode(known), "known", conversation_id, key)

    def open_known(self, conversation_id: str, key: str, data: bytes) -> IdempotencyRecord:
        """The idempotency record in stored bytes."""
        return decode(IdempotencyRecord, self.open(data, "known", conversation_id, key))

    def seal_client(self, conversation_id: str, client: str, present: Present) -> bytes:
        """An attached client as stored bytes, without `until`, which is stored beside it."""
        return self.seal(encode(present.model_copy(update={"until": 0})), "client", conversation_id, client)

    def open_client(self, conversation_id: str, client: str, data: bytes, until: int) -> Present:
        """An attached client, from stored bytes."""
        found = decode(Present, self.open(data, "client", conversation_id, client))
        return found.model_copy(update={"until": until})

    def seal_outcome(self, conversation_id: str, effect_id: str, outcome: bytes) -> bytes:
        """A run's encoded outcome, in time or late, as stored bytes."""
        return self.seal(outcome, "outcome", conversation_id, effect_id)

    def open_outcome(self, conversation_id: str, effect_id: str, data: bytes) -> bytes:
        """A run's encoded outcome, from stored bytes."""
        return self.open(data, "outcome", conversation_id, effect_id)

    def check(self) -> None:
        """Check that the cipher, if any, encrypts, decrypts its own output and refuses another context, else `CipherFailed`."""
        if self.cipher is None:
            return
        sealed = self.seal(PROBE, "probe")
        if PROBE in sealed:
            raise CipherFailed("probe", "encrypt returned what it was given")
        if self.open(sealed, "probe") != PROBE:
            raise CipherFailed("probe", "decrypt does not give back what encrypt was given")
        try:
            moved = self.open(sealed, "probe", "elsewhere")
        except CipherFailed:
            return
        if moved == PROBE:
            raise CipherFailed(
                "probe", "decrypt accepts another context than encrypt was given: a payload could be moved elsewhere"
            )

    async def prepare(self) -> None:
        """Import the cipher in a thread, within `IMPORT_S`, so as not to block the event loop; a failure is raised on use."""
        if self.cipher is None or self._loaded is not None or self._importing:
            return
        self._importing = True
        with contextlib.suppress(CipherFailed, TimeoutError):
            async with asyncio.timeout(IMPORT_S):
                try:
                    await in_daemon(self._import_once)
                except RuntimeError:  # no thread can be started: the first use imports the cipher
                    self._importing = False

    def _import_once(self) -> None:
        try:
            self._import()
        finally:
            self._importing = False

    def _found(self) -> Cipher:
        if self._loaded is not None:
            return self._loaded
        if self._importing:
            raise CipherFailed(f"namespace {self._namespace!r}", "its module is still being imported")
        return self._import()

    def _import(self) -> Cipher:
        given = self.cipher
        if given is None:
            raise CipherMissing(f"namespace {self._namespace!r}")
        if self._failed is not None and time.monotonic() - self._failed_at < AGAIN_S:
            raise self._failed.with_traceback(None)
        try:
            self._loaded = given.load() if isinstance(given, CipherAt) else given
        except CipherFailed as error:
            self._failed, self._failed_at = error, time.monotonic()
            raise
        return self._loaded

    def _context(self, place: tuple[str, ...]) -> bytes:
        store_id = self._store_id()
        if not store_id:
            raise CipherFailed(
                " ".join(place), "the store's id, which is part of the context, is unknown: open the store first"
            )
        return pack(["holdfast", store_id, self._namespace, *place])
