"""What both stores write and read of payloads: encoded, and encrypted where there is a cipher.

Payloads are what holds words of people, models or tools: log entries, snapshots (which name tools as the model did), records
beside the log (whose digests would let a short answer be guessed), outcomes, agent specs; as bytes, progress and live events;
as texts, why something cannot go on. Each is encrypted as a whole. Its context says where it belongs, so it reads in no other
place: not in another conversation, nor elsewhere in its log.
"""

from holdfast.conversation import AgentSpec, Event, State
from holdfast.conversation.idempotency import IdempotencyRecord

from . import codec
from .sealing import Sealing


class Payloads(Sealing):
    """The payloads of one namespace; every method raises as `Sealing.seal` and `Sealing.open` do."""

    def seal_event(self, conversation_id: str, seq: int, event: Event) -> bytes:
        """A log entry."""
        data = codec.encode_event(event)
        return data if self.cipher is None else self.seal(data, "log", conversation_id, str(seq))

    def open_event(self, conversation_id: str, seq: int, data: bytes) -> Event:
        """The event of a log entry."""
        return codec.decode_event(self.open(data, "log", conversation_id, str(seq)) if codec.is_sealed(data) else data)

    def seal_state(self, conversation_id: str, state: State) -> bytes:
        """A snapshot; its place in the log stays readable, since scripts look at it."""
        return self.seal(codec.encode_state(state), "snapshot", conversation_id, seq=state.seq)

    def open_state(self, conversation_id: str, data: bytes) -> State:
        """The state of a snapshot; of none, that of a conversation that was never started."""
        if not data:
            return State(conversation_id=conversation_id)
        return codec.decode_state(self.open(data, "snapshot", conversation_id))

    def seal_known(self, conversation_id: str, key: str, known: IdempotencyRecord) -> bytes:
        """A record beside the log."""
        return self.seal(codec.encode_known(known), "known", conversation_id, key)

    def open_known(self, conversation_id: str, key: str, data: bytes) -> IdempotencyRecord:
        """A record beside the log."""
        return codec.decode_known(self.open(data, "known", conversation_id, key))

    def seal_outcome(self, conversation_id: str, effect_id: str, outcome: bytes) -> bytes:
        """A run's outcome, in time or late."""
        return self.seal(outcome, "outcome", conversation_id, effect_id)

    def open_outcome(self, conversation_id: str, effect_id: str, data: bytes) -> bytes:
        """A run's outcome."""
        return self.open(data, "outcome", conversation_id, effect_id)

    def open_late_outcome(self, conversation_id: str, effect_id: str, data: bytes) -> bytes:
        """An outcome that came late; one that cannot be decrypted stays encrypted."""
        return self.open_or_leave(data, "outcome", conversation_id, effect_id)

    def seal_spec(self, spec: AgentSpec) -> bytes:
        """An agent spec."""
        return self.seal(codec.encode_spec(spec), "spec", spec.digest)

    def open_spec(self, digest: str, data: bytes) -> AgentSpec:
        """The agent spec that is stored as `digest`."""
        return codec.decode_spec(self.open(data, "spec", digest), digest)
