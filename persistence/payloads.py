"""The payloads of both stores: encoded, and encrypted if there is a cipher.

Payloads hold words of people, models or tools: log entries, snapshots (with tool names as the model gave them), idempotency
records (a short answer could be guessed from a digest), outcomes, agent specs, permission rules; as bytes, progress and live
events; as texts, the reasons why work cannot go on. Each is encrypted as a whole. Its context names its place, so it cannot
be decrypted in another conversation or elsewhere in its log. Without a cipher the bytes are stored as they are.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable

from holdfast.cipher import Cipher, CipherAt, called
from holdfast.conversation import Event, State
from holdfast.conversation.records.idempotency import IdempotencyRecord
from holdfast.daemon import in_daemon
from holdfast.errors import CipherFailed, CipherMissing, StoreError

from . import codec

PROBE = b"holdfast: a payload that no Redis ever sees"
UNENCRYPTED = "(the reason could not be encrypted: see the logs)"
UNREADABLE = "(the reason is encrypted and cannot be decrypted here: HOLDFAST_CIPHER must name the cipher)"

IMPORT_S = 30.0
"""Seconds for which the opening of a store waits for the import of its cipher."""
AGAIN_S = 5.0
"""Seconds after which a failed import of a cipher is tried again."""

logger = logging.getLogger("holdfast.persistence")


class Payloads:
    """The payloads of one namespace. Their first bytes, not the configuration, decide whether they are decrypted.

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
        return codec.encode_sealed(called(self._found().encrypt, data, self._context(place), " ".join(place)), seq)

    def open(self, data: bytes, *place: str) -> bytes:
        """The bytes that were given to `seal`, from their stored form in a place.

        Raises:
            CipherMissing: They are encrypted, and there is no cipher.
            CipherFailed: They cannot be decrypted.
            CorruptStore: The record of the encrypted payload cannot be read.
            NewerRecord: A newer Holdfast encrypted them.
        """
        if not codec.is_sealed(data):
            return data
        what = " ".join(place)
        if self.cipher is None:
            raise CipherMissing(what)
        return called(self._found().decrypt, codec.decode_sealed(data), self._context(place), what)

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
        return UNREADABLE if codec.is_sealed(found) else found.decode(errors="replace")

    def seal_event(self, conversation_id: str, seq: int, event: Event) -> bytes:
        """An event as a log entry."""
        data = codec.encode(event)
        return data if self.cipher is None else self.seal(data, "log", conversation_id, str(seq))

    def open_event(self, conversation_id: str, seq: int, data: bytes) -> Event:
        """The event of a log entry."""
        return codec.decode_event(self.open(data, "log", conversation_id, str(seq)) if codec.is_sealed(data) else data)

    def seal_state(self, conversation_id: str, state: State) -> bytes:
        """A state as a snapshot; its place in the log stays readable, since scripts read it."""
        return self.seal(codec.encode(state), "snapshot", conversation_id, seq=state.seq)

    def open_state(self, conversation_id: str, data: bytes) -> State:
        """The state in a snapshot; without a snapshot, the state of a conversation that was never started."""
        if not data:
            return State(conversation_id=conversation_id)
        return codec.decode(State, self.open(data, "snapshot", conversation_id))

    def seal_known(self, conversation_id: str, key: str, known: IdempotencyRecord) -> bytes:
        """An idempotency record as stored bytes."""
        return self.seal(codec.encode(known), "known", conversation_id, key)

    def open_known(self, conversation_id: str, key: str, data: bytes) -> IdempotencyRecord:
        """The idempotency record in stored bytes."""
        return codec.decode(IdempotencyRecord, self.open(data, "known", conversation_id, key))

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
        return codec.pack(["holdfast", store_id, self._namespace, *place])
