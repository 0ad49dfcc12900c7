"""An app: the agents that one import path leads to, with the resources and environment variables of their tools."""

import fnmatch
import inspect
from collections.abc import AsyncIterator, Callable, Container, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, contextmanager
from typing import Any

from holdfast.errors import AgentNotFound, ConfigurationError
from holdfast.settings import UNSHARED

from . import checks
from .agent import Agent
from .functions import takes
from .notify import Target, Told, notify_of, targets
from .rules import Rules

ENVIRONMENT = ("*_API_KEY", "*_API_BASE")


class App:
    """The object that a worker imports: agents, the resources of their tools, and the environment variables they need.

    An app is a global of a module, so that a worker finds it by its import path: `package.module:app`.

    Args:
        agents: The agents, of different names.
        lifespan: A context manager function (async or not; a plain generator function will do) that takes nothing or the app,
            and yields the resources, such as a database handle. It is entered once per worker; tools find the resources in
            `ToolContext.resources`.
        env: Names of environment variables, or patterns of them, that workers need; a client passes their values on.
        encrypt: The cipher of the conversations' payloads in Redis: an object with `encrypt(data, context)` and `decrypt(data,
            context)`, both from bytes to bytes, that is a global of a module; or its import path, `package.module:name`. None:
            payloads are not encrypted. Every process needs its keys in the environment.
        rules: The permission rules of all agents' tools.
        notify: Who is told of events of the conversations: `Webhook`, `Slack` and `Email`, and async functions of a `Notice`.
            Workers need the environment variables that they name, also if `env` does not.

    All but `lifespan` are attributes, as given; `module` is the name of the module that constructed the app.
    """

    def __init__(
        self,
        *,
        agents: Sequence[Agent],
        lifespan: Callable[..., Any] | None = None,
        env: Sequence[str] = ENVIRONMENT,
        encrypt: Any = None,
        rules: Rules | None = None,
        notify: Sequence[Target | Told] = (),
    ) -> None:
        frame = inspect.currentframe()
        caller = None if frame is None else frame.f_back
        self.module: str = "__main__" if caller is None else caller.f_globals.get("__name__", "__main__")
        self.agents = _agents(agents)
        self.notify = targets(notify, (agent.name for agent in self.agents))
        self.agents = tuple(agent.notifying(notify_of(self.notify, agent.name)) for agent in self.agents)
        self._by_name = {agent.name: agent for agent in self.agents}
        _check_delegates(self.agents, self._by_name)
        self._lifespan = _lifespan(lifespan)
        self.env = _patterns(env)
        self.encrypt = _cipher(encrypt)
        self.rules = checks.rules(rules, "app.rules")
        if self.rules is not None:
            self.rules.check_reminders([agent.spec for agent in self.agents])

    def __repr__(self) -> str:
        return f"<App of {self.module!r} agents={list(self._by_name)}>"

    def agent(self, name: str) -> Agent:
        """The agent of that name.

        Raises:
            AgentNotFound: The app has no such agent; the error lists its agents.
        """
        found = self._by_name.get(name) if isinstance(name, str) else None
        if found is None:
            known = ", ".join(repr(known) for known in self._by_name) or "none"
            raise AgentNotFound("agent", f"the app declares no agent {name!r}", f"use one of its agents: {known}")
        return found

    def environment(self, environ: Mapping[str, str]) -> dict[str, str]:
        """The variables of an environment that the app's patterns or targets name; never keys of Holdfast's own."""
        needed = {name for target in self.notify for name in target.variables}
        return {
            name: value
            for name, value in sorted(environ.items())
            if name not in UNSHARED and (name in needed or any(fnmatch.fnmatchcase(name, pattern) for pattern in self.env))
        }

    @asynccontextmanager
    async def resources(self) -> AsyncIterator[Any]:
        """Enter the lifespan and yield its resources; None without a lifespan. A worker does this once."""
        if self._lifespan is None:
            yield None
            return
        opened = self._lifespan() if takes(self._lifespan) else self._lifespan(self)
        if isinstance(opened, AbstractAsyncContextManager):
            async with opened as resources:
                yield resources
        elif isinstance(opened, AbstractContextManager):
            with opened as resources:
                yield resources
        else:
            problem = f"it returned {type(opened).__name__}, which is no context manager"
            raise ConfigurationError("app.lifespan", problem, "decorate it with @contextlib.asynccontextmanager")


def _agents(declared: Any) -> tuple[Agent, ...]:
    agents: dict[str, Agent] = {}
    for agent in checks.items(declared, Agent, "agents", "app.agents"):
        if not isinstance(agent, Agent):
            raise ConfigurationError("app.agents", f"{agent!r} is no Agent", "give Agent(...) objects")
        if agent.name in agents:
            problem = f"two agents are named {agent.name!r}, and a conversation could not tell them apart"
            raise ConfigurationError("app.agents", problem, "rename one of them")
        agents[agent.name] = agent
    return tuple(agents.values())


def _check_delegates(agents: Sequence[Agent], known: Container[str]) -> None:
    for agent in agents:
        for tool in agent.tools:
            field = f"agent {agent.name!r}: tool {tool.name!r}.agent"
            if tool.spec.agent and tool.spec.agent not in known:
                raise ConfigurationError(
                    field, f"the app has no agent {tool.spec.agent!r}", "add the agent to the app's agents="
                )
            if tool.spec.agent == agent.name:
                raise ConfigurationError(field, "an agent cannot ask itself", "name another agent of the app")


def _lifespan(lifespan: Any) -> Callable[..., Any] | None:
    if lifespan is None:
        return None
    if not callable(lifespan) or inspect.iscoroutinefunction(lifespan):
        problem = "it is no function that makes a context manager"
        raise ConfigurationError("app.lifespan", problem, "write `async def lifespan(app): ...; yield resources; ...`")
    if not takes(lifespan) and not takes(lifespan, None):
        raise ConfigurationError("app.lifespan", "it takes more than the app", "let it take nothing, or the app")
    if inspect.isasyncgenfunction(lifespan):
        return asynccontextmanager(lifespan)
    if inspect.isgeneratorfunction(lifespan):
        return contextmanager(lifespan)
    factory: Callable[..., Any] = lifespan
    return factory


def _cipher(encrypt: Any) -> Any:
    if encrypt is None or isinstance(encrypt, str):
        return encrypt
    functions = [getattr(encrypt, name, None) for name in ("encrypt", "decrypt")]
    if isinstance(encrypt, type) or not all(map(callable, functions)):
        problem = f"{encrypt!r:.60} is no object with the functions encrypt and decrypt"
        raise ConfigurationError("app.encrypt", problem, 'give one that is a global, or its path "package.module:name"')
    if any(map(inspect.iscoroutinefunction, functions)):
        problem = "encrypt and decrypt are called as plain functions, and one of them is async"
        raise ConfigurationError("app.encrypt", problem, "write both as plain functions that compute and return")
    return encrypt


def _patterns(env: Any) -> tuple[str, ...]:
    if isinstance(env, str) or not hasattr(env, "__iter__"):
        raise ConfigurationError("app.env", f"{type(env).__name__} is no list of names", 'give a list: env=["MY_API_KEY"]')
    patterns = tuple(env)
    for pattern in patterns:
        if not isinstance(pattern, str) or not pattern or "=" in pattern:
            shown = f"{pattern.partition('=')[0]}=..." if isinstance(pattern, str) and "=" in pattern else repr(pattern)
            problem = f"{shown} is no name of an environment variable, nor a pattern of names"  # a value may be secret
            raise ConfigurationError("app.env", problem, 'name variables, never values: env=["MY_API_KEY", "*_API_BASE"]')
    return patterns
