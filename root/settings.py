"""Settings: from arguments, else from `HOLDFAST_*` variables, else the defaults."""

import base64
import binascii
import contextlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from .cipher import CipherAt
from .errors import ConfigurationError
from .redaction import PLAIN


class LogForm(StrEnum):
    """The form of log lines."""

    TEXT = "text"  # for a person
    JSON = "json"  # an object in each line


class TraceContinuation(StrEnum):
    """How the spans of a turn after a wait relate to those before it."""

    PARENT = "parent"  # in the same trace, with an additional link
    LINK = "link"  # in a new trace, connected by a link only


NAMESPACE = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")

SECRETS = frozenset({"redis_url", "url", "token"})
"""Settings whose values no error shows."""
UNSHARED = frozenset({"HOLDFAST_APP_KEY", "HOLDFAST_LINK_KEYS"})
"""The variables with keys of Holdfast's own. Processes that run tools never have them: a model decides which tools run."""
KEYS = ("app_key", "link_keys")
"""The settings that are keys: their own errors say what is wrong, and show nothing."""
OF_HTTP = ("url", "token", "plain_http")
OF_THE_CLIENT = (*OF_HTTP, "log_level", "log_format")
"""The settings of an HTTP client; all others are its server's."""
PLACES = ("redis_url", "ray_address", "home")
"""The settings that each select a stack."""

KEY_ID = re.compile(r"[A-Za-z0-9]{1,16}")
KEY_BYTES = 32
"""The least length of a key that signs app records or links, in bytes."""
CGROUP_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
"""The files with a container's memory limit, in versions 2 and 1 of control groups."""


def check_namespace(namespace: object) -> str:
    """The namespace itself, once it is checked against `[a-z0-9][a-z0-9_-]{0,62}`."""
    if isinstance(namespace, str) and NAMESPACE.fullmatch(namespace):
        return namespace
    raise ConfigurationError(
        "namespace",
        f"{namespace!r:.60} is not a namespace",
        "use 1 to 63 lower-case letters, digits, '_' or '-', beginning with a letter or digit",
    )


def _key(given: Any) -> Any:
    """The bytes of a key in hexadecimal or base64. The error does not show the key."""
    if not isinstance(given, str):
        return given
    try:
        key = bytes.fromhex(given)
    except ValueError:
        try:
            key = base64.b64decode(given, altchars=b"-_" if {"-", "_"} & set(given) else None, validate=True)
        except (binascii.Error, ValueError):
            key = b""
    if len(key) < KEY_BYTES:
        message = f"it is no key of at least {KEY_BYTES} bytes in hexadecimal or base64, such as `openssl rand -hex 32` prints"
        raise ValueError(message)
    return key


def _keys_by_id(given: Any) -> Any:
    """Keys by their ids, the signing one first, from `k2:<key>,k1:<key>`. The error shows no key."""
    if not isinstance(given, str):
        return given
    found: dict[str, bytes] = {}
    for one in given.split(","):
        name, colon, text = one.strip().partition(":")
        if not colon or not KEY_ID.fullmatch(name) or name in found:
            raise ValueError("write each key with an id of its own of 1 to 16 letters and digits: k2:<key>,k1:<key>")
        found[name] = _key(text)
    return found


def _http_url(given: Any) -> Any:
    """The URL of a server, without a slash at its end."""
    if not isinstance(given, str):
        return given
    try:
        url = urlsplit(given)
        fits = (
            url.scheme in ("http", "https") and url.hostname and not (url.username or url.password or url.query or url.fragment)
        )
        _ = url.port
    except ValueError:
        fits = False
    if not fits or not given.isprintable():
        raise ValueError("it is no URL of a server, such as https://holdfast.example")
    return given.rstrip("/")


def _actors_that_fit() -> int:
    """The default of `max_actors`: a quarter of the machine's or container's memory at 100 MB each; from 8 to 256."""
    return min(max(_memory_bytes() // 4 // 100_000_000, 8), 256)


def _workers_that_fit() -> int:
    """The default of `workers`: one per usable core, within half of the memory at 1 GB each; from 1 to 16."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(max(min(cores, _memory_bytes() // 2 // 1_000_000_000), 1), 16)


def _memory_bytes() -> int:
    pages = os.sysconf("SC_PHYS_PAGES") if "SC_PHYS_PAGES" in os.sysconf_names else 0
    sizes = [pages * os.sysconf("SC_PAGE_SIZE")]
    for path in CGROUP_LIMITS:
        with contextlib.suppress(OSError, ValueError):  # no such file; "max" is no limit
            sizes.append(int(path.read_text()))
    return min(sizes)


@dataclass(frozen=True, slots=True)
class Timing:
    """The times of actors and the sweeper, in milliseconds.

    `lease_ms`: how long an owner may be silent before others may take over its busy conversation. `linger_ms`: how long an
    actor keeps a resting conversation. `tick_ms`: the time between two rounds of an actor or the sweeper.
    """

    lease_ms: int = 10_000
    linger_ms: int = 30_000
    tick_ms: int = 500

    @property
    def stale_ms(self) -> int:
        """How long an actor may be silent, in milliseconds, before it no longer counts as live."""
        return max(3 * self.lease_ms, 30_000)


@dataclass(frozen=True, slots=True)
class ProcessLimits:
    """How many processes there are, and how long each is used.

    `standby`: blank actors kept warm. `max_actors`: the most live actors. `workers`: workers for each app. `alone`: workers for
    work that may have killed a process. `model_calls`: concurrent model calls in one worker; more wait. `strikes`: how many
    processes may die of a conversation's work before it is quarantined. An actor is replaced after `adoptions`, a worker after
    `effects`, and each once its memory exceeds its `_mb`. A worker ends after `worker_idle_s` without a request (0: never).
    `direct_streams`: workers read plain chunks of a model's stream themselves, and litellm the others; else litellm reads all.
    """

    standby: int = 2
    max_actors: int = 64
    workers: int = 1
    alone: int = 2
    strikes: int = 3
    adoptions: int = 100_000
    actor_mb: int = 512
    model_calls: int = 10_000
    effects: int = 100_000
    worker_mb: int = 2048
    worker_idle_s: int = 86_400
    direct_streams: bool = True


@dataclass(frozen=True, slots=True)
class LogSettings:
    """The lowest level of log lines that are written, and their form (None: text on a terminal, else JSON)."""

    level: str = "INFO"
    form: LogForm | None = None


@dataclass(frozen=True, slots=True)
class TraceSettings:
    """Whether processes export their spans, how traces continue after a wait, and whether spans hold content."""

    on: bool = False
    continuation: TraceContinuation = TraceContinuation.PARENT
    content: bool = False


class Settings(BaseModel):
    """The settings of a process: addresses, times (`_s`: seconds), process limits. Made with `of`."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    app: str | None = None
    publish: bool | None = None
    app_key: Annotated[bytes | None, BeforeValidator(_key)] = Field(default=None, repr=False)
    url: str | None = Field(default=None, repr=False)
    token: str | None = Field(default=None, repr=False)
    plain_http: bool = False
    link_keys: Annotated[dict[str, bytes], BeforeValidator(_keys_by_id)] = Field(default_factory=dict, repr=False)
    public_url: Annotated[str, BeforeValidator(_http_url)] = "http://127.0.0.1:8484"
    redis_url: str | None = Field(default=None, repr=False)
    ray_address: str | None = None
    namespace: str = "holdfast"
    home: Path | None = None
    embedded: bool = True
    cipher: str | None = None
    log_level: Annotated[
        Literal["DEBUG", "INFO", "WARNING", "ERROR"],
        BeforeValidator(lambda given: str(given).upper() if isinstance(given, str) else given),
    ] = "INFO"
    log_format: LogForm | None = None
    traces: bool = False
    trace_continuation: TraceContinuation = TraceContinuation.PARENT
    trace_content: bool = False
    lease_s: float = Field(default=10, ge=0.001, allow_inf_nan=False)
    linger_s: float = Field(default=30, ge=0.001, allow_inf_nan=False)
    tick_s: float = Field(default=0.5, ge=0.001, allow_inf_nan=False)
    standby: int = Field(default=2, ge=0, le=64)
    max_actors: int = Field(default_factory=_actors_that_fit, ge=1, le=10_000)
    workers: int = Field(default_factory=_workers_that_fit, ge=1, le=64)
    strikes: int = Field(default=3, ge=1, le=100)
    adoptions: int = Field(default=100_000, ge=1)
    actor_mb: int = Field(default=512, ge=64)
    model_calls: int = Field(default=10_000, ge=1, le=100_000)
    effects: int = Field(default=100_000, ge=1)
    worker_mb: int = Field(default=2048, ge=128)
    worker_idle_s: int = Field(default=86_400, ge=0, le=315_360_000)
    direct_streams: bool = True

    @classmethod
    def of(cls, **given: Any) -> "Settings":
        """The settings in force. An argument of None and an empty variable count as not given.

        With `url`, conversations are reached over HTTP and only the client's settings apply: variables that select another
        stack are ignored.

        Raises:
            ConfigurationError: A setting has the wrong type or range; a Ray address begins with `ray://`, or has no Redis URL
                beside it; there is no Redis URL, and the embedded server is forbidden; a server's URL is given together with
                one of the server's own settings; or a token is given without its URL.
        """
        named: dict[str, Any] = {name: os.environ.get(f"HOLDFAST_{name.upper()}", "") for name in cls.model_fields}
        named = {name: value for name, value in named.items() if value}
        given = {name: value for name, value in given.items() if value is not None}
        named = _reaching(named, given)
        try:
            settings = cls(**(named | given))
        except ValidationError as error:
            first = error.errors()[0]
            name = str(first["loc"][0])
            got = type(first["input"]).__name__ if name in SECRETS else PLAIN.redacted(repr(first["input"]), 60)
            problem = first["msg"] if name in KEYS else f"{first['msg']} (got {got})"
            raise ConfigurationError(name, problem, f"correct {name}=, or HOLDFAST_{name.upper()}") from None
        settings.check()
        return settings

    def check(self) -> None:
        """Refuse combinations that would put conversations in the wrong place, as `of` does."""
        if self.url is not None:
            return  # the server checks its own stack
        check_namespace(self.namespace)
        if self.cipher is not None:
            CipherAt.of(self.cipher)
        if self.ray_address is not None and self.ray_address.startswith("ray://"):
            raise ConfigurationError(
                "ray_address",
                "ray:// is the Ray Client protocol, over which actors cannot be supervised",
                "give the address of the cluster itself, such as 10.0.0.1:6379, or 'auto'",
            )
        if self.redis_url is not None:
            return
        if self.ray_address is not None:
            raise ConfigurationError(
                "redis_url",
                "a Ray address is given without a Redis URL",
                "name the Redis that keeps the conversations (HOLDFAST_REDIS_URL): approvals must not rest on a node's disk",
            )
        if not self.embedded:
            raise ConfigurationError(
                "redis_url", "there is none, and the embedded server is forbidden (embedded=False)", "set HOLDFAST_REDIS_URL"
            )

    @property
    def publishes(self) -> bool:
        """Whether a client publishes its app when it connects: as `publish` says, else only on the embedded Redis."""
        return self.redis_url is None if self.publish is None else self.publish

    @property
    def cipher_at(self) -> CipherAt | None:
        """The place of the cipher; None if no cipher is named."""
        return None if self.cipher is None else CipherAt.of(self.cipher)

    @property
    def log(self) -> LogSettings:
        """The settings of log lines."""
        return LogSettings(self.log_level, self.log_format)

    @property
    def tracing(self) -> TraceSettings:
        """The settings of traces."""
        return TraceSettings(self.traces, self.trace_continuation, self.trace_content)

    @property
    def timing(self) -> Timing:
        """The times that actors are given."""
        return Timing(**{one.name: round(getattr(self, f"{one.name.removesuffix('_ms')}_s") * 1000) for one in fields(Timing)})

    @property
    def process_limits(self) -> ProcessLimits:
        """The process limits that actors are given."""
        return ProcessLimits(**{one.name: getattr(self, one.name) for one in fields(ProcessLimits) if hasattr(self, one.name)})


def _reaching(named: dict[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The variables that apply beside these arguments: an HTTP client's or a stack's; raises if it is unclear which."""
    stack = {name: value for name, value in named.items() if name not in OF_HTTP}
    client = {name: value for name, value in named.items() if name in OF_THE_CLIENT}
    if "url" not in given:
        if "url" not in named or any(name in given for name in PLACES):
            if "token" in given:
                raise ConfigurationError("token", "it is given without a url", "give url=, or set HOLDFAST_URL")
            return stack
        if "redis_url" in named:
            problem = "HOLDFAST_URL and HOLDFAST_REDIS_URL are both set, and lead to different places"
            raise ConfigurationError("url", problem, "unset one of them, or give url= or redis_url=")
    for name, value in given.items():
        if name not in OF_THE_CLIENT and value is not False:
            problem = "it cannot be combined with the url of a server, which has its own"
            raise ConfigurationError(name, problem, f"leave out {name}=, or url= and HOLDFAST_URL")
    both = "url" in client and "url" in given
    if both and "token" in client and "token" not in given and _origin(client["url"]) != _origin(given["url"]):
        problem = "HOLDFAST_TOKEN is for HOLDFAST_URL, and url= leads to another server"
        raise ConfigurationError("token", problem, "give token= with url=, or unset the two variables")
    return client


def _origin(url: Any) -> tuple[str, str] | None:
    """The scheme, host and port of a URL; None if it is not a URL."""
    try:
        return urlsplit(str(url))[:2]
    except ValueError:
        return None
