"""Taking a conversation over: what its activation holds from then on, and for how long."""

import uuid
from collections.abc import Callable

from holdfast.actors.spec_cache import SpecCache
from holdfast.conversation import AgentSpec, Command, State
from holdfast.conversation.machine import effect_of
from holdfast.persistence import Acquired, Append, Appended, Blame, Moved, Run, RunStatus, Store, TakeoverReason
from holdfast.settings import Timing

from .crashes import Crashes
from .lease import Lease, now_s
from .log_tail import LogTail
from .specs import spec_of
from .store_clock import StoreClock


class Tenure:
    """The tenure of one activation: the token, state, spec and lease with which it holds its conversation.

    Args:
        store: Where the conversation is kept.
        conversation_id: The conversation's id.
        holder: The name of the actor.
        timing: The settings that say how long a lease is.
        clock: A clock that nobody sets, in milliseconds since an arbitrary moment.
        strikes: The crash count at which the conversation is put in quarantine.
        specs: The specs that this process has read.

    Attributes:
        over: Whether the activation has ended; nothing is done for it any more.
        unsure: Whether the outcome of the last write is unknown, so that effects that seem outstanding may be settled.
        token: The token by which the store knows this activation as the owner.
        state: The last durable state.
        spec: The spec that commands are judged with; None while it is not known.
        tail_bytes: The size of the log after the last snapshot.
        runs: The records of runs and model calls as they were at the takeover, or as a write made them; each is used once.
        unrecorded: Model calls found without a record, to which the next write gives one.
        lease: The time for which the activation may work.
        time: The store's clock.
        log_tail: The end of the log, as far as this activation wrote it.
        crashes: The crash count of the conversation.
    """

    def __init__(
        self,
        store: Store,
        conversation_id: str,
        *,
        holder: str,
        timing: Timing,
        clock: Callable[[], int],
        strikes: int,
        specs: SpecCache,
    ) -> None:
        self.conversation_id = conversation_id
        self.over = False
        self.unsure = False
        self.token = ""
        self.state = State(conversation_id=conversation_id)
        self.spec: AgentSpec | None = None
        self.tail_bytes = 0
        self.runs: dict[str, Run] = {}
        self.unrecorded: set[str] = set()
        self.lease = Lease(timing.lease_ms)
        self.time = StoreClock(clock)
        self.log_tail = LogTail()
        self.crashes = Crashes(store, conversation_id, allowed=strikes)
        self._store = store
        self._specs = specs
        self._holder = holder
        self._lease_ms = timing.lease_ms

    async def take_over(self, seen_token: str, because: TakeoverReason, *, create: bool) -> Moved | None:
        """Become the owner and take the state from the store; `Moved` names another owner, None means success.

        Raises:
            LeaseHeld: The owner still works on the conversation.
            ConversationNotFound: The conversation was never started, and `create` is false.
            Quarantined: The conversation is in quarantine.
            StoreError: The store does not answer, or holds something that cannot be read.
        """
        token = uuid.uuid4().hex
        asked_at_s = now_s()
        acquired = await self._store.acquire(
            self.conversation_id,
            seen_token=seen_token,
            new_token=token,
            because=because,
            holder=self._holder,
            lease_ms=self._lease_ms,
            create=create,
        )
        match acquired:
            case Moved():
                return acquired
            case Acquired():
                self.token = token
                self.lease.granted(asked_at_s)
                self.crashes.blame = acquired.blame
                self.state = acquired.state
                self.tail_bytes = acquired.tail_bytes
                self.log_tail = LogTail()
                self.runs = dict(acquired.runs)
                self.unrecorded.clear()  # a write of unknown outcome may have given them records, which are claimed by now
                self.time.heard(acquired.now)
                self.spec = await spec_of(self._store, self.state, self._specs)
                return None

    async def renew(self) -> None:
        """Renew the lease.

        Raises:
            Fenced: Another activation owns the conversation.
            StoreError: Whether the lease was renewed is unknown.
        """
        asked_at_s = now_s()
        now = await self._store.renew(self.conversation_id, self.token, self._lease_ms)
        self.time.heard(now)
        self.lease.granted(asked_at_s)

    def adopt(self, write: Append, written: Appended) -> None:
        """Adopt the state that a write has made durable, and reset the crash count if the write advances the conversation."""
        self.state, self.tail_bytes = write.after, written.tail_bytes
        self.unrecorded.clear()
        self.log_tail.add(write.after.seq, write.events)
        self.runs.update(dict.fromkeys((*write.delta.scheduled, *write.unrecorded), Run(RunStatus.RUNNABLE)))
        if write.advances:
            self.crashes.blame = Blame()

    def unrecorded_in(self, state: State) -> list[str]:
        """The model calls without a record that are still outstanding in this state, as they are in the last durable one."""
        return [name for name in self.unrecorded if effect_of(state, name) is not None]

    async def spec_for(self, command: Command) -> AgentSpec | None:
        """The spec that a command is judged with: the one that it brings itself, else that of the turn.

        Raises:
            StoreError: The spec of the turn cannot be read from the store.
        """
        if command.kind == "turn_prepared" or (command.kind == "start" and command.spec is not None):
            return command.spec
        if self.spec is None and self.state.seq:
            self.spec = await spec_of(self._store, self.state, self._specs)
        return self.spec
