"""The notification targets of an app: where its conversations' events are told."""

import inspect
import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from ipaddress import IPv6Address
from typing import Any, TypeAlias

from holdfast.conversation.terms.principal import Principal, Proof, unproven
from holdfast.conversation.terms.spec import NoticeKind, NotifySpec
from holdfast.conversation.text.matching import has_clear_hosts
from holdfast.errors import ConfigurationError, InvalidInput

from . import checks
from .notice import Notice

TO_ACT_ON = (
    NoticeKind.SUSPENDED,
    NoticeKind.REMINDED,
    NoticeKind.ESCALATED,
    NoticeKind.LOST_RUN,
    NoticeKind.QUARANTINED,
)
"""The events after which a person has to do something."""
MOST = 16
"""The most notification targets of an app."""
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,254}")
_URL = re.compile(
    r"(?P<scheme>https?)://(?P<host>[A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::(?P<port>[0-9]{1,5}))?(?:[/?][!-~]*)?"
)
_HOST = re.compile(r"[A-Za-z0-9._-]{1,253}|[0-9A-Fa-f:.]{2,45}")
_ADDRESS = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9.-]{1,253}")
_MOST_RECIPIENTS = 50
Told: TypeAlias = Callable[[Notice], Awaitable[Any]]


class _Target:
    """A notification target: its name, and the events that it is told of.

    Attributes:
        name: The name, unique in the app.
        events: The events.
        agents: The names of the agents whose conversations it is told of; None: of all.
        decider: Whom the links in its messages decide as; None: its messages have no links.
        variables: The environment variables that a worker needs to reach it.
    """

    variables: tuple[str, ...] = ()

    def __init__(self, name: Any, events: Any, agents: Any, decider: Any = None) -> None:
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            problem = "a target's name is 1 to 64 letters, digits, underscores and hyphens"
            raise ConfigurationError(f"notify {name!r:.80}.name", problem, "give another name=")
        self.name = name
        self._field = f"notify {name!r}"
        self.events = TO_ACT_ON if events is None else _members(events, f"{self._field}.events")
        self.agents = None if agents is None else tuple(_names(agents, f"{self._field}.agents"))
        self.decider = _decider(decider, f"{self._field}.decider")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"

    @property
    def spec(self) -> NotifySpec:
        """The target as agents' specs have it: without its address and secrets."""
        return NotifySpec(name=self.name, events=self.events, decider=self.decider)


class Webhook(_Target):
    """A URL to which each event is posted as JSON, signed as [standard-webhooks](https://www.standardwebhooks.com) says.

    A receiver verifies the signature, drops what has an id that it has seen, and answers 2xx within 25 s. After 408, 409, 425,
    429, 5xx or no answer the message is sent again; `Retry-After` counts up to an hour. After any other answer it is set aside;
    no redirect is followed. Only public addresses are connected to, and no proxy is used.

    Args:
        url: The address: `https`, with `allow_private` also `http`; without a user and password.
        secret_env: The environment variable with the secret, `whsec_` and the base64 of 24 to 64 bytes; several secrets, with
            spaces between them, all sign, so that one can follow another.
        name: The target's name in lists of what is owed; unique in the app.
        events: The events that are told; None: those after which a person has to do something (`suspended`, `reminded`,
            `escalated`, `lost_run`, `quarantined`).
        agents: The names of the agents whose conversations are told of; None: all.
        allow_private: Whether the URL may lead to a private address.
        content: Whether a message has what the agent, its tools and people wrote: arguments, prompts, titles, replies, reasons,
            errors.
    """

    def __init__(
        self,
        url: str,
        *,
        secret_env: str,
        name: str = "webhook",
        events: Iterable[str] | None = None,
        agents: Sequence[str] | None = None,
        allow_private: bool = False,
        content: bool = False,
    ) -> None:
        super().__init__(name, events, agents)
        self.allow_private = checks.flag(allow_private, f"{self._field}.allow_private")
        self.content = checks.flag(content, f"{self._field}.content")
        self.url = checked_url(url, f"{self._field}.url", allow_private=self.allow_private)
        self.secret_env = _variable(secret_env, f"{self._field}.secret_env")
        self.variables = (self.secret_env,)


class Slack(_Target):
    """An incoming webhook of Slack, or of what takes the same messages.

    Args:
        url_env: The environment variable with the webhook's URL, which is a secret.
        decider: As whom everybody who reads the channel decides, by a link for each decision in a message about a call that
            waits; None: there are no links. Several readers are one approver: a quorum counts them once.
        name, events, agents, content, allow_private: As for `Webhook`.
    """

    def __init__(
        self,
        *,
        url_env: str = "SLACK_WEBHOOK_URL",
        decider: Principal | None = None,
        name: str = "slack",
        events: Iterable[str] | None = None,
        agents: Sequence[str] | None = None,
        allow_private: bool = False,
        content: bool = False,
    ) -> None:
        super().__init__(name, events, agents, decider)
        self.allow_private = checks.flag(allow_private, f"{self._field}.allow_private")
        self.content = checks.flag(content, f"{self._field}.content")
        self.url_env = _variable(url_env, f"{self._field}.url_env")
        self.variables = (self.url_env,)


class Email(_Target):
    """Mail to people, by an SMTP server that encrypts: on port 465 from the start, on others by STARTTLS, or not at all.

    Args:
        to: The address of the recipient, or several.
        sender: The address that the mail comes from.
        host: The SMTP server, which may be in a private network; its certificate must be for this name.
        port: Its port.
        user_env: The environment variable with the user to sign in as; None: nobody signs in.
        password_env: The environment variable with the password.
        decider: As whom the recipients decide, by links as for `Slack`: whoever reads one of these mailboxes can.
        name, events, agents, content: As for `Webhook`.
    """

    def __init__(
        self,
        to: str | Sequence[str],
        *,
        sender: str,
        host: str,
        port: int = 587,
        user_env: str | None = None,
        password_env: str | None = None,
        decider: Principal | None = None,
        name: str = "email",
        events: Iterable[str] | None = None,
        agents: Sequence[str] | None = None,
        content: bool = False,
    ) -> None:
        super().__init__(name, events, agents, decider)
        self.content = checks.flag(content, f"{self._field}.content")
        several = [to] if isinstance(to, str) else list(checks.items(to, str, "addresses", f"{self._field}.to"))
        if not 1 <= len(several) <= _MOST_RECIPIENTS:
            problem = f"a mail has 1 to {_MOST_RECIPIENTS} recipients, and this one {len(several)}"
            raise ConfigurationError(f"{self._field}.to", problem, "give the address of a list")
        self.to = tuple(_address(one, f"{self._field}.to") for one in several)
        self.sender = _address(sender, f"{self._field}.sender")
        if not isinstance(host, str) or not _HOST.fullmatch(host):
            raise ConfigurationError(
                f"{self._field}.host", f"{host!r:.80} is no name of a host", 'give one: "smtp.example.com"'
            )
        self.host = host
        self.port = _port(port, f"{self._field}.port")
        if (user_env is None) != (password_env is None):
            problem = "a user without a password, or a password without a user, signs nobody in"
            raise ConfigurationError(f"{self._field}.password_env", problem, "give user_env= and password_env=, or neither")
        self.user_env = None if user_env is None else _variable(user_env, f"{self._field}.user_env")
        self.password_env = None if password_env is None else _variable(password_env, f"{self._field}.password_env")
        self.variables = tuple(name for name in (self.user_env, self.password_env) if name is not None)


class Notify(_Target):
    """An async function of the app that is told of events; a function alone in `App(notify=[...])` has these defaults.

    It runs in a worker, beside the app's tools, and has 30 s. If it raises, it is called again later.

    Args:
        function: The function of a `Notice`.
        name: The target's name; None: the function's.
        decider: As whom those decide to whom the function passes `Notice.links` on; None: there are none.
        events, agents: As for `Webhook`.
    """

    def __init__(
        self,
        function: Told,
        *,
        name: str | None = None,
        decider: Principal | None = None,
        events: Iterable[str] | None = None,
        agents: Sequence[str] | None = None,
    ) -> None:
        if not inspect.iscoroutinefunction(function):
            problem = f"{function!r:.80} is no async function"
            raise ConfigurationError("app.notify", problem, "write `async def tell(notice: Notice) -> None: ...`")
        super().__init__(function.__name__ if name is None else name, events, agents, decider)
        self.function = function


Target: TypeAlias = Webhook | Slack | Email | Notify


def targets(declared: Any, agents: Iterable[str]) -> tuple[Target, ...]:
    """The notification targets of an app with these agents, checked."""
    found: dict[str, Target] = {}
    known = tuple(agents)
    for one in checks.items(declared, _Target, "targets", "app.notify"):
        target = one if isinstance(one, Target) else Notify(one)
        if target.name in found:
            problem = f"two targets are named {target.name!r}, and a message could not say for which it is"
            raise ConfigurationError("app.notify", problem, "rename one of them with name=")
        for agent in target.agents or ():
            if agent not in known:
                problem = f"the app has no agent {agent!r}"
                fix = f"use some of its agents: {', '.join(map(repr, known)) or 'none'}"
                raise ConfigurationError(f"notify {target.name!r}.agents", problem, fix)
        found[target.name] = target
    if len(found) > MOST:
        raise ConfigurationError("app.notify", f"{len(found)} targets are too many", f"give at most {MOST}")
    return tuple(found.values())


def notify_of(declared: Iterable[Target], agent: str) -> tuple[NotifySpec, ...]:
    """The targets that are told of an agent's conversations."""
    return tuple(target.spec for target in declared if target.agents is None or agent in target.agents)


def checked_url(url: Any, field: str, *, allow_private: bool) -> str:
    """The URL, if it may be posted to. The error does not show it: its path may be a secret.

    Raises:
        ConfigurationError: It is no plain http(s) URL, or names a user or a fragment.
    """
    found = _URL.fullmatch(url) if isinstance(url, str) else None
    fix = 'give one such as "https://example.com/hooks"'
    if found is None:
        if isinstance(url, str) and re.match(r"https?://[^/?#]*@", url, re.IGNORECASE):
            raise ConfigurationError(field, "it names a user or password", "let the receiver check the signature instead")
        problem = "it is no http(s) URL in printable ASCII (a host in other letters is written as xn--...), or has a fragment"
        raise ConfigurationError(field, problem, fix)
    if not has_clear_hosts(f"https://{found['host']}"):
        raise ConfigurationError(
            field, "its host is a number that is read differently by different programs", f"{fix} or 192.0.2.1"
        )
    if found["host"].startswith("[") and not _is_address(found["host"][1:-1]):
        raise ConfigurationError(field, "what stands in brackets is no IPv6 address", fix)
    if "#" in url or "\\" in url:
        raise ConfigurationError(field, "it has a fragment or a backslash", fix)
    if found["port"] is not None and not 1 <= int(found["port"]) <= 65535:  # noqa: PLR2004 - the ports
        raise ConfigurationError(field, f"{found['port']} is no port", fix)
    if found["scheme"] == "http" and not allow_private:
        problem = "http is neither encrypted nor proves who receives"
        raise ConfigurationError(field, problem, "use https, or allow_private=True for a receiver in your own network")
    return str(url)


def _is_address(text: str) -> bool:
    try:
        IPv6Address(text)
    except ValueError:
        return False
    return True


def _members(events: Any, field: str) -> tuple[NoticeKind, ...]:
    found = [checks.member(NoticeKind, one, field) for one in checks.items(events, str, "events", field)]
    if not found:
        raise ConfigurationError(field, "it is empty, and the target would be told of nothing", "name some events")
    return tuple(dict.fromkeys(found))


def _names(agents: Any, field: str) -> Iterable[str]:
    found = [checks.text(one, field) for one in checks.items(agents, str, "names of agents", field)]
    if not found:
        raise ConfigurationError(field, "it is empty, and the target would be told of nothing", "name some agents")
    return dict.fromkeys(found)


def _decider(value: Any, field: str) -> Principal | None:
    fix = 'give one with the roles that count: Principal("ana", roles=["finance"])'
    decider = checks.instance(Principal, value, field, fix)
    try:
        if decider is not None and decider.check_visible().proof is not Proof.STATED:
            raise unproven(decider)
    except InvalidInput as error:
        raise ConfigurationError(field, error.problem, error.fix) from None
    return decider


def _variable(name: Any, field: str) -> str:
    # What was given may be the secret itself, so the error does not show it.
    if not isinstance(name, str) or not _VARIABLE.fullmatch(name) or name.startswith("whsec_"):
        raise ConfigurationError(field, "it is no name of an environment variable", 'give the name, such as "WEBHOOK_SECRET"')
    return name


def _address(value: Any, field: str) -> str:
    if not isinstance(value, str) or not _ADDRESS.fullmatch(value):
        raise ConfigurationError(field, f"{value!r:.80} is no mail address", 'give one such as "ops@example.com"')
    return value


def _port(value: Any, field: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 65535:  # noqa: PLR2004 - the ports
        raise ConfigurationError(field, f"{value!r:.40} is no port", "give 587, or 465 for a server that begins with TLS")
    return value
