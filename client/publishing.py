"""Publishing an app, with which all its conversations run from then on, and comparing the published app with the one here."""

import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

from holdfast.actors.actor_settings import ActorSettings, StoreAddress
from holdfast.actors.signature import fingerprint, keyed, sealed
from holdfast.actors.vault import Vault
from holdfast.agent import AgentSpec, App, Rules, code_digest, main_file, python_path
from holdfast.daemon import in_daemon
from holdfast.errors import ClusterStopped
from holdfast.persistence import EVERYWHERE, PAUSE_LAG_MS, AppRecord, Directory

RULES_LAG_MS = PAUSE_LAG_MS + 100
"""Milliseconds after a publication in which workers may still use the permission rules from before."""


@dataclass(frozen=True, slots=True)
class Here:
    """An app as this process has it: its source's digest, its agents, and the values of its environment variables.

    `rules`, `primaries` and `approving` are as in `AppRecord`.
    """

    path: str
    source: str
    specs: tuple[AgentSpec, ...]
    environment: dict[str, str]
    rules: dict[str, Rules] = field(default_factory=dict)
    primaries: dict[str, str] = field(default_factory=dict)
    approving: tuple[str, ...] = ()

    @classmethod
    async def of(cls, app: App, path: str) -> Self:
        """The app at an import path, as this process has it now."""
        specs = tuple(agent.spec for agent in app.agents)
        together = {agent.name: Rules.together(app.rules, agent.rules) for agent in app.agents}
        rules = {name: found for name, found in together.items() if found != Rules()}
        tools = {f"{agent.name}/{tool.name}": tool for agent in app.agents for tool in agent.tools}
        primaries = {place: tool.primary for place, tool in tools.items() if tool.primary is not None}
        approving = tuple(sorted(place for place, tool in tools.items() if tool.approves_by_function))
        source = await in_daemon(code_digest, path)
        return cls(path, source, specs, app.environment(os.environ), rules, primaries, approving)

    @property
    def agents(self) -> dict[str, str]:
        """The digests of the agents' specs, by name."""
        return {spec.name: spec.digest for spec in self.specs}

    def record(self, key: bytes, store: StoreAddress) -> AppRecord:
        """The signed record that publishes the app. Of the variables' values it holds only keyed digests."""
        paths = tuple(python_path())
        values = [part for item in sorted(self.environment.items()) for part in item]
        record = AppRecord(
            app=self.path,
            code=keyed(key, store.store_id, self.source, *paths, "", *values),  # all of these tell workers apart
            python_path=paths,
            main_file=main_file(self.path),
            environment=tuple(sorted(self.environment)),
            agents=self.agents,
            source=self.source,
            prints={name: fingerprint(key, name, value) for name, value in self.environment.items()},
            rules={name: rules.digest for name, rules in self.rules.items()},
            primaries=self.primaries,
            approving=self.approving,
        )
        return sealed(key, store, record)

    def differs(self, key: bytes | None, record: AppRecord) -> list[str]:
        """The parts in which the published record differs. A variable that is not set here does not count."""
        found = [] if self.source == record.source else ["its code"]
        agents = sorted(name for name in {*self.agents, *record.agents} if self.agents.get(name) != record.agents.get(name))
        if agents:
            found.append(f"its agents ({', '.join(agents)})")
        if {name: rules.digest for name, rules in self.rules.items()} != record.rules:
            found.append("its permission rules")
        prints = {name: fingerprint(key, name, value) for name, value in self.environment.items()} if key is not None else {}
        variables = sorted(name for name, print_ in prints.items() if record.prints.get(name) != print_)
        if variables:
            found.append(f"the variables {', '.join(variables)}")
        return found


async def publish(store: Directory, settings: ActorSettings, key: bytes, here: Here) -> None:
    """Publish an app, with which all its conversations run from now on, and make its workers in advance.

    `ClusterStopped` if Holdfast was stopped on the cluster meanwhile: then no further worker is made.
    """
    from holdfast.actors.ray_launcher import spawn  # noqa: PLC0415 - resolved here, after Ray was joined
    from holdfast.actors.ray_workers import worker_name, worker_settings  # noqa: PLC0415 - as above

    await _unstopped(store, settings)
    record, vault = here.record(key, settings.store), Vault(settings.store)
    await in_daemon(vault.put_environment, record.app, record.code, here.environment)  # first: the record's readers need it
    before = await store.app(record.app)
    await store.put_app(record, here.specs, {rules.digest: rules.to_json() for rules in here.rules.values()})
    if before is not None and before.rules != record.rules:  # until then a worker may act on those from before
        await asyncio.sleep(RULES_LAG_MS / 1000)
    await store.put_problem(record.app, None)  # its workers report their problems anew
    await in_daemon(vault.forget_others, record.app, record.code)
    for slot in map(str, range(settings.process_limits.workers)):
        avoid = await _unstopped(store, settings)
        generation = await store.generation(worker_name(settings, record.app, record.code, slot))
        worker = spawn(worker_settings(settings, record, slot, here.environment, generation=generation), avoid)
        worker.prepare.options(num_returns=0).remote(here.environment)  # its problem is told by the store


async def _unstopped(store: Directory, settings: ActorSettings) -> Mapping[str, int]:
    """The nodes that may get no worker; raises `ClusterStopped` if no node may."""
    withheld = await store.withheld()
    if EVERYWHERE in withheld:
        raise ClusterStopped(settings.store.namespace)
    return withheld
