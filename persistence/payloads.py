"""The payloads of both stores: encoded, and encrypted if there is a cipher.

Payloads hold words of people, models or tools: log entries, snapshots (with tool names as the model gave them), idempotency
records (a short answer could be guessed from a digest), outcomes, agent specs, permission rules; as bytes, progress and live
events; as texts, the reasons why work cannot go on. Each is encrypted as a whole. Its context names its place, so it cannot
be decrypted in another conversation or elsewhere in its log.
"""

from holdfast.conversation import AgentSpec, Event, State
from holdfast.conversation.records.idempotency import IdempotencyRecord
from holdfast.errors import CorruptStore

from . import codec
from .sealing import Sealing


class Payloads(Sealing):
    """The payloads of one namespace; every method raises like `Sealing.seal` or `Sealing.open`."""

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

    def open_late_outcome(self, conversation_id: str, effect_id: str, data: bytes) -> bytes:
        """A late run's encoded outcome; one that cannot be decrypted stays encrypted."""
        return self.open_or_leave(data, "outcome", conversation_id, effect_id)

    def seal_spec(self, spec: AgentSpec) -> bytes:
        """An agent spec as stored bytes."""
        return self.seal(codec.encode(spec), "spec", spec.digest)

    def open_spec(self, digest: str, data: bytes) -> AgentSpec:
        """The agent spec stored as `digest`, which stays its digest."""
        return codec.decode(AgentSpec, self.open(data, "spec", digest)).stored_as(digest)

    def seal_rules(self, digest: str, text: str) -> bytes:
        """Permission rules as stored bytes."""
        return self.seal(text.encode(), "rules", digest)

    def open_rules(self, digest: str, data: bytes) -> str:
        """The permission rules stored as `digest`, as JSON text."""
        try:
            return self.open(data, "rules", digest).decode()
        except UnicodeDecodeError as error:
            raise CorruptStore(f"the permission rules {digest:.16} are no text ({error!s:.100})") from None
