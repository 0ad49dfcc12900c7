"""The cluster's directory in memory."""

from collections.abc import Mapping, Sequence

from holdfast.conversation import AgentSpec

from . import codec
from .directory import NO_RULES, AppRecord, Binding, BrokenApp, Silent
from .memory_database import MemoryDatabase


class MemoryDirectory(MemoryDatabase):
    """The verbs of `Directory`, in memory."""

    async def put_app(self, record: AppRecord, specs: Sequence[AgentSpec], rules: Mapping[str, str] = NO_RULES) -> None:
        """See `Store.put_app`."""
        sealed = {spec.digest: self.payloads.seal_spec(spec) for spec in specs}
        self._rules |= {digest: self.payloads.seal_rules(digest, text) for digest, text in rules.items()}
        self._specs |= sealed
        self._apps[record.app] = codec.encode_app(record)
        self._encrypted = self._encrypted or self.payloads.cipher is not None

    async def app(self, path: str) -> AppRecord | None:
        """See `Store.app`."""
        data = self._apps.get(path)
        return codec.decode_app(data) if data is not None else None

    async def apps(self) -> Sequence[AppRecord]:
        """See `Store.apps`."""
        return codec.readable_apps(self._apps.values())

    async def spec(self, digest: str) -> AgentSpec | None:
        """See `Store.spec`."""
        data = self._specs.get(digest)
        return self.payloads.open_spec(digest, data) if data is not None else None

    async def rules(self, digest: str) -> str | None:
        """See `Store.rules`."""
        data = self._rules.get(digest)
        return self.payloads.open_rules(digest, data) if data is not None else None

    async def put_problem(self, path: str, problem: str | None) -> None:
        """See `Store.put_problem`."""
        since = self._problems_since.pop(path, self._clock())
        self._problems.pop(path, None)
        if problem is not None:
            self._problems[path] = self.payloads.seal_text(problem, "problem", path)
            self._problems_since[path] = since

    async def problem(self, path: str) -> str | None:
        """See `Store.problem`."""
        text = self._problems.get(path)
        return self.payloads.open_text(text, "problem", path) if text is not None else None

    async def broken_apps(self) -> Sequence[BrokenApp]:
        """See `Store.broken_apps`."""
        found = [
            BrokenApp(path, self.payloads.open_text(text, "problem", path), self._problems_since.get(path))
            for path, text in self._problems.items()
        ]
        return sorted(found, key=lambda broken: (broken.since or 0, broken.app))

    async def offer(self, actor: str, since: int) -> None:
        """See `Store.offer`."""
        self._standby[actor] = since

    async def withdraw(self, actor: str) -> bool:
        """See `Store.withdraw`."""
        return self._standby.pop(actor, None) is not None

    async def take(self) -> str | None:
        """See `Store.take`."""
        actor = min(self._standby, key=lambda name: (self._standby[name], name), default=None)
        if actor is not None:
            del self._standby[actor]
        return actor

    async def take_many(self, most: int) -> Sequence[str]:
        """See `Store.take_many`."""
        taken = sorted(self._standby, key=lambda name: (self._standby[name], name))[:most]
        for actor in taken:
            del self._standby[actor]
        return taken

    async def offers(self) -> int:
        """See `Store.offers`."""
        return len(self._standby)

    async def heartbeat(self, actor: str, *, limit: int) -> bool:
        """See `Store.heartbeat`."""
        if actor not in self._living and len(self._living) >= limit:
            return False
        self._living[actor] = self._clock()
        return True

    async def deregister(self, actor: str) -> None:
        """See `Store.deregister`."""
        self._living.pop(actor, None)
        self._hosting.pop(actor, None)

    async def live(self, *, quiet_ms: int = 0) -> Sequence[str]:
        """See `Store.live`."""
        quiet = [(at, name) for name, at in self._living.items() if at <= self._clock() - quiet_ms]
        return [name for _, name in sorted(quiet)]

    async def silent(self, quiet_ms: int) -> Sequence[Silent]:
        """See `Store.silent`."""
        quiet = [(at, name) for name, at in self._living.items() if at <= self._clock() - quiet_ms]
        return [Silent(name, at, self._hosting.get(name)) for at, name in sorted(quiet)]

    async def hosts(self, actor: str, conversation_id: str | None) -> None:
        """See `Store.hosts`."""
        self._hosting.pop(actor, None)
        if conversation_id is not None:
            self._hosting[actor] = conversation_id

    async def hosted(self, actor: str) -> str | None:
        """See `Store.hosted`."""
        return self._hosting.get(actor)

    async def generation(self, worker: str) -> int:
        """See `Store.generation`."""
        return self._generations.get(worker, 0)

    async def succeed(self, worker: str, generation: int) -> None:
        """See `Store.succeed`."""
        self._generations[worker] = generation

    async def bind(self, cluster: str, address: str, stale_ms: int, *, gone: Sequence[str] = ()) -> Binding | None:
        """See `Store.bind`."""
        now = self._clock()
        if self._binding is not None and _id(self._binding[0]) not in map(_id, (cluster, *gone)):
            bound, at_address, at = self._binding
            at = min(at, now)  # the clock was set back: the silence begins now
            self._binding = bound, at_address, at
            if now - at < stale_ms:
                return Binding(bound, at_address, now - at)
        self._binding = (cluster, address, now)
        return None

    async def binding(self) -> Binding | None:
        """See `Store.binding`."""
        if self._binding is None:
            return None
        cluster, address, at = self._binding
        return Binding(cluster, address, max(self._clock() - at, 0))

    async def unbind(self, cluster: str) -> None:
        """See `Store.unbind`."""
        if self._binding is not None and self._binding[0] == cluster:
            self._binding = None

    async def serving(self) -> str | None:
        """See `Store.serving`."""
        return self._release

    async def serve(self, release: str, *, before: str | None) -> bool:
        """See `Store.serve`."""
        if self._release not in (before, release):
            return False
        self._release = release
        return True

    async def withhold(self, where: str) -> bool:
        """See `Store.withhold`."""
        stood = where in self._withheld
        self._withheld.setdefault(where, self._clock())
        return not stood

    async def allow(self, where: str) -> bool:
        """See `Store.allow`."""
        return self._withheld.pop(where, None) is not None

    async def withheld(self) -> Mapping[str, int]:
        """See `Store.withheld`."""
        return dict(self._withheld)


def _id(cluster: str) -> str:
    """A cluster's id, without the machine's id that an older release put behind it."""
    return cluster.partition("@")[0]
