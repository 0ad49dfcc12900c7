"""Publishing an app: what all conversations run with from then on; and comparing what is published with what is here."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from holdfast.actors import ActorSettings
from holdfast.actors.actor_settings import StoreAddress
from holdfast.actors.signature import fingerprint, keyed, sealed
from holdfast.actors.vault import Vault
from holdfast.agent import AgentSpec, App, code_digest, main_file, python_path
from holdfast.daemon import in_daemon
from holdfast.errors import ClusterStopped
from holdfast.persistence import EVERYWHERE, AppRecord, Directory


@dataclass(frozen=True, slots=True)
class Here:
    """An app as this process has it: its source's digest, its agents, and the variables that it names."""

    path: str
    source: str
    specs: tuple[AgentSpec, ...]
    environment: dict[str, str]

    @classmethod
    async def of(cls, app: App, path: str) -> Self:
        """That of an app."""
        specs = tuple(agent.spec for agent in app.agents)
        return cls(path, await in_daemon(code_digest, path), specs, app.environment(os.environ))

    @property
    def agents(self) -> dict[str, str]:
        """The digests of the agents' specs, by name."""
        return {spec.name: spec.digest for spec in self.specs}

    def record(self, key: bytes, store: StoreAddress) -> AppRecord:
        """What is published of it. Of the variables' values, only digests with the key are ever stored."""
        paths = tuple(python_path())
        values = [part for item in sorted(self.environment.items()) for part in item]
        record = AppRecord(
            app=self.path,
            code=keyed(key, store.store_id, self.source, *paths, "", *values),  # workers are told apart by all of this
            python_path=paths,
            main_file=main_file(self.path),
            environment=tuple(sorted(self.environment)),
            agents=self.agents,
            source=self.source,
            prints={name: fingerprint(key, name, value) for name, value in self.environment.items()},
        )
        return sealed(key, store, record)

    def differs(self, key: bytes | None, record: AppRecord) -> list[str]:
        """What of it is published otherwise. A variable that is not set here is no difference: not everybody has the keys."""
        found = [] if self.source == record.source else ["its code"]
        agents = sorted(name for name in {*self.agents, *record.agents} if self.agents.get(name) != record.agents.get(name))
        if agents:
            found.append(f"its agents ({', '.join(agents)})")
        prints = {name: fingerprint(key, name, value) for name, value in self.environment.items()} if key is not None else {}
        variables = sorted(name for name, print_ in prints.items() if record.prints.get(name) != print_)
        if variables:
            found.append(f"the variables {', '.join(variables)}")
        return found


async def publish(store: Directory, settings: ActorSettings, key: bytes, here: Here) -> None:
    """Say what stands for the app from now on, and have its workers there before they are needed.

    Raises:
        ClusterStopped: Somebody stopped Holdfast on the cluster meanwhile; no worker is made.
    """
    from holdfast.actors import spawn, worker_name  # noqa: PLC0415 - resolved here, after Ray was joined

    await _unstopped(store, settings)
    record, vault = here.record(key, settings.store), Vault(settings.store)
    await in_daemon(vault.put_environment, record.app, record.code, here.environment)  # whoever reads the record has it
    await store.put_app(record, here.specs)
    await store.put_problem(record.app, None)  # its workers say anew what they find
    await in_daemon(vault.forget_others, record.app, record.code)
    for slot in map(str, range(settings.process_limits.workers)):
        avoid = await _unstopped(store, settings)
        generation = await store.generation(worker_name(settings, record.app, record.code, slot))
        worker = spawn(settings, record, slot, here.environment, generation=generation, avoid=avoid)
        worker.prepare.remote(here.environment)


async def _unstopped(store: Directory, settings: ActorSettings) -> Mapping[str, int]:
    """Where nothing is to be made."""
    withheld = await store.withheld()
    if EVERYWHERE in withheld:
        raise ClusterStopped(settings.store.namespace)
    return withheld
