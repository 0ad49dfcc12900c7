"""The cluster's directory in memory."""

from collections.abc import Mapping, Sequence

from holdfast.conversation import AgentSpec

from . import codec
from .app_record import AppRecord
from .directory import NO_RULES, Binding, BrokenApp, Living
from .memory_database import MemoryDatabase


class MemoryDirectory(MemoryDatabase):
    """The verbs of `Directory`, in memory."""

    async def put_app(self, record: AppRecord, specs: Sequence[AgentSpec], rules: Mapping[str, str] = NO_RULES) -> None:
        sealed = {spec.digest: self.payloads.seal_spec(spec) for spec in specs}
        self._rules |= {digest: self.payloads.seal_rules(digest, text) for digest, text in rules.items()}
        self._specs |= sealed
        self._apps[record.app] = codec.encode(record)
        self._encrypted = self._encrypted or self.payloads.cipher is not None

    async def app(self, path: str) -> AppRecord | None:
        data = self._apps.get(path)
        return codec.decode(AppRecord, data) if data is not None else None

    async def apps(self) -> Sequence[AppRecord]:
        return codec.readable_apps(self._apps.values())

    async def spec(self, digest: str) -> AgentSpec | None:
        data = self._specs.get(digest)
        return self.payloads.open_spec(digest, data) if data is not None else None

    async def rules(self, digest: str) -> str | None:
        data = self._rules.get(digest)
        return self.payloads.open_rules(digest, data) if data is not None else None

    async def put_problem(self, path: str, problem: str | None) -> None:
        since = self._problems_since.pop(path, self._clock())
        self._problems.pop(path, None)
        if problem is not None:
            self._problems[path] = self.payloads.seal_text(problem, "problem", path)
            self._problems_since[path] = since

    async def problem(self, path: str) -> str | None:
        text = self._problems.get(path)
        return self.payloads.open_text(text, "problem", path) if text is not None else None

    async def broken_apps(self) -> Sequence[BrokenApp]:
        found = [
            BrokenApp(path, self.payloads.open_text(text, "problem", path), self._problems_since.get(path))
            for path, text in self._problems.items()
        ]
        return sorted(found, key=lambda broken: (broken.since or 0, broken.app))

    async def offer(self, actor: str, since: int | None) -> bool:
        stood = self._standby.pop(actor, None) is not None
        if since is not None:
            self._standby[actor] = since
        return stood or since is not None

    async def take(self, most: int = 1) -> Sequence[str]:
        taken = sorted(self._standby, key=lambda name: (self._standby[name], name))[:most]
        for actor in taken:
            del self._standby[actor]
        return taken

    async def offers(self) -> int:
        return len(self._standby)

    async def heartbeat(self, actor: str, *, limit: int) -> bool:
        if actor not in self._living and len(self._living) >= limit:
            return False
        self._living[actor] = self._clock()
        return True

    async def deregister(self, actor: str) -> None:
        self._living.pop(actor, None)
        self._hosting.pop(actor, None)

    async def live(self, *, quiet_ms: int = 0) -> Mapping[str, Living]:
        quiet = [(at, name) for name, at in self._living.items() if at <= self._clock() - quiet_ms]
        return {name: Living(at, self._hosting.get(name)) for at, name in sorted(quiet)}

    async def hosts(self, actor: str, conversation_id: str | None) -> None:
        self._hosting.pop(actor, None)
        if conversation_id is not None:
            self._hosting[actor] = conversation_id

    async def hosted(self, actor: str) -> str | None:
        return self._hosting.get(actor)

    async def generation(self, worker: str) -> int:
        return self._generations.get(worker, 0)

    async def succeed(self, worker: str, generation: int) -> None:
        self._generations[worker] = generation

    async def bind(self, cluster: str, address: str, stale_ms: int, *, gone: Sequence[str] = ()) -> Binding | None:
        now = self._clock()
        if self._binding is not None and _id(self._binding[0]) not in map(_id, (cluster, *gone)):
            bound, at_address, at = self._binding
            at = min(at, now)  # the clock was set back: the binding's age counts from now
            self._binding = bound, at_address, at
            if now - at < stale_ms:
                return Binding(bound, at_address, now - at)
        self._binding = (cluster, address, now)
        return None

    async def binding(self) -> Binding | None:
        if self._binding is None:
            return None
        cluster, address, at = self._binding
        return Binding(cluster, address, max(self._clock() - at, 0))

    async def unbind(self, cluster: str) -> None:
        if self._binding is not None and self._binding[0] == cluster:
            self._binding = None

    async def serving(self) -> str | None:
        return self._release

    async def serve(self, release: str, *, before: str | None) -> bool:
        if self._release not in (before, release):
            return False
        self._release = release
        return True

    async def withhold(self, where: str, *, lift: bool = False) -> bool:
        if lift:
            return self._withheld.pop(where, None) is not None
        stood = where in self._withheld
        self._withheld.setdefault(where, self._clock())
        return not stood

    async def withheld(self) -> Mapping[str, int]:
        return dict(self._withheld)


def _id(cluster: str) -> str:
    """A cluster's id, without the machine id that an older release appended."""
    return cluster.partition("@")[0]
