"""The options that every command takes: the server, or the addresses of Redis and Ray, the namespace, the app and the home."""

import inspect
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import partial, wraps
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from holdfast.errors import ConfigurationError, InvalidInput
from holdfast.settings import Settings

from .display import Said
from .redis_url import to_copy

if TYPE_CHECKING:
    from holdfast.client.filters import Filter

_SPAN = re.compile(r"([0-9]{1,6})([smhdw])")
_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


def _option(metavar: str, says: str, *, name: str | None = None, is_secret: bool = False) -> Any:
    """A field of `Where`, with its option; `says` is the option's help."""
    names = () if name is None else (name,)
    option = typer.Option(*names, help=says, metavar=metavar, rich_help_panel="Where everything is")
    return field(default=None, repr=not is_secret, metadata={"type": Annotated[str | None, option]})


@dataclass(frozen=True, slots=True)
class Where:
    """The options of the command line that lead to the conversations; `HOLDFAST_*` variables give those left out."""

    url: str | None = _option("URL", "The server, in place of Redis and Ray.", is_secret=True)
    token: str | None = _option("TOKEN", "Your token for the server; better set HOLDFAST_TOKEN.", is_secret=True)
    redis_url: str | None = _option("URL", "The Redis that keeps the conversations.", is_secret=True)
    ray_address: str | None = _option("ADDRESS", "The Ray cluster (host:port or auto).")
    namespace: str | None = _option("NAME", "The namespace of the conversations.")
    app: str | None = _option("PATH", "The app's import path, package.module:app.")
    home: str | None = _option("DIRECTORY", "The home of the embedded stack.")
    principal: str | None = _option(
        "NAME", "Who decides, sends or cancels; the log keeps it. By default this user.", name="--as"
    )

    def settings(self) -> Settings:
        """The settings in force, for a command that needs Redis or Ray itself."""
        settings = self.reaching()
        if settings.url is not None:
            problem = "this command needs Redis or Ray itself, and cannot go over a server"
            raise ConfigurationError("url", problem, "run it where they are, without --url and HOLDFAST_URL")
        return settings

    def reaching(self) -> Settings:
        """The settings in force, for a command that also works over a server."""
        return Settings.of(**{name: value for name, value in asdict(self).items() if name != "principal"})

    def words(self) -> list[str]:
        """The given options but for app and token, for another command that leads to the same conversations."""
        url = None if self.redis_url is None else to_copy(self.redis_url)
        if url != self.redis_url and os.environ.get("HOLDFAST_REDIS_URL") == self.redis_url:
            url = None  # the variable leads there, and the password stays hidden
        given = {"--url": self.url, "--redis-url": url, "--ray-address": self.ray_address}
        return words_of(given | {"--namespace": self.namespace, "--home": self.home})


def words_of(options: Mapping[str, Any]) -> list[str]:
    """The words of a command line for options and their values; None leaves an option out, a list repeats it."""
    pairs = [(name, one) for name, value in options.items() for one in (value if isinstance(value, list) else [value])]
    return [word for name, value in pairs if value is not None for word in (name, str(value))]


def seconds_of(text: str, option: str) -> int:
    """The seconds of an option's time such as `30d`."""
    found = _SPAN.fullmatch(text)
    if found is None:
        raise InvalidInput(option, f"{text!r:.40} is no time", "write a number and s, m, h, d or w: 30d")
    return int(found[1]) * _UNITS[found[2]]


def chosen(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that were given."""
    return {name: value for name, value in options.items() if value is not None and value != []}


AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
ConversationId = Annotated[str, typer.Argument(help="The conversation's id.")]
Suspension = Annotated[
    str, typer.Argument(help="The call's suspension, as `holdfast pending` shows it, or its first characters, at least 6.")
]
OfConversation = Annotated[
    str | None,
    typer.Option("--conversation", metavar="ID", help="The call's conversation, to repeat a decision; the id is whole then."),
]
Key = Annotated[str | None, typer.Option(metavar="ID", help="Makes the command safe to repeat.")]

Limit = Annotated[int | None, typer.Option(help="How many are listed at most; 50 if left out.")]
After = Annotated[str | None, typer.Option(metavar="CURSOR", help="Continue after an earlier page.")]
PAGE: Mapping[str, Any] = {"limit": Limit, "after": After}


def options_of(filters: "Sequence[Filter]") -> Mapping[str, Any]:
    """The options for the filters of a list, by name; a number of seconds (`older_than_s`) is a time (`--older-than 1h`)."""
    found = {}
    for one in filters:
        if one.check is not None:
            says = f"{one.says[:-1]}: {', '.join(one.values)}." if one.values else one.says
            kind, metavar = one.type if one.type in (int, bool) else str, "TIME" if one.type is float else None
            named = [f"--{one.name}"] if one.type is bool else []  # a flag without its opposite
            found[_option_of(one)] = Annotated[kind | None, typer.Option(*named, help=says, metavar=metavar)]
    return found


def wanted(filters: "Sequence[Filter]", given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of the client's method, for the options that were given."""
    times = {_option_of(one): one.name for one in filters if one.type is float}
    spans = {times[name]: seconds_of(text, f"--{name.replace('_', '-')}") for name, text in given.items() if name in times}
    return {name: value for name, value in given.items() if name not in times} | spans


def _option_of(one: "Filter") -> str:
    return one.name.removesuffix("_s") if one.type is float else one.name


def everywhere(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function as typer sees it: its first parameter becomes the options of every command.

    The type of that parameter decides what the command gets: a `Where`, or for a coroutine the `Reached` or `Session` that the
    options lead to. A parameter for all keywords is annotated with mappings of names to options, each of which becomes one. A
    command that gives a `Said` takes `--json`.
    """
    signature = inspect.signature(function)
    first, *own = (one for given in signature.parameters.values() for one in _unpacked(given))
    if says := signature.return_annotation is Said:
        own.append(inspect.Parameter("as_json", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=AsJson))
    common = [
        inspect.Parameter(place.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=place.metadata["type"])
        for place in fields(Where)
    ]

    @wraps(function)
    def run(**given: Any) -> Any:
        where = Where(**{parameter.name: given.pop(parameter.name) for parameter in common})
        as_json = says and given.pop("as_json")
        if inspect.iscoroutinefunction(function):
            within = import_module(".session", __package__).within  # an import that `--help` and a few commands do not need
            found = within(where, partial(function, **given), first.annotation)
        else:
            found = function(where, **given)
        return found.write(as_json=as_json) if says else found

    own.sort(key=lambda parameter: parameter.name == "as_json")  # it stands last in the help
    parameters = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own] + common
    run.__dict__["__signature__"] = inspect.Signature(parameters)
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def _unpacked(parameter: inspect.Parameter) -> list[inspect.Parameter]:
    """The parameter, or those of its annotation if it stands for all keywords."""
    if parameter.kind is not inspect.Parameter.VAR_KEYWORD:
        return [parameter]
    _, *options = get_args(parameter.annotation)
    kind = inspect.Parameter.KEYWORD_ONLY
    return [inspect.Parameter(name, kind, default=None, annotation=one) for some in options for name, one in some.items()]
