"""The options that every command takes: the server, or the addresses of Redis and Ray, the namespace, the app and the home."""

import inspect
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields
from functools import wraps
from typing import Annotated, Any

import typer

from holdfast.errors import ConfigurationError
from holdfast.settings import Settings

from .redis_url import to_copy

_PANEL = "Where everything is"


@dataclass(frozen=True, slots=True)
class Where:
    """The options of the command line that lead to the conversations; `HOLDFAST_*` variables give those left out."""

    url: Annotated[
        str | None,
        typer.Option("--url", help="The server, in place of Redis and Ray.", metavar="URL", rich_help_panel=_PANEL),
    ] = field(default=None, repr=False)
    token: Annotated[
        str | None,
        typer.Option(
            "--token", help="What the server knows you by; better as HOLDFAST_TOKEN.", metavar="TOKEN", rich_help_panel=_PANEL
        ),
    ] = field(default=None, repr=False)
    redis_url: Annotated[
        str | None,
        typer.Option("--redis-url", help="The Redis that keeps the conversations.", metavar="URL", rich_help_panel=_PANEL),
    ] = field(default=None, repr=False)
    ray_address: Annotated[
        str | None,
        typer.Option("--ray-address", help="The Ray cluster (host:port or auto).", metavar="ADDRESS", rich_help_panel=_PANEL),
    ] = None
    namespace: Annotated[
        str | None,
        typer.Option("--namespace", help="The namespace of the conversations.", metavar="NAME", rich_help_panel=_PANEL),
    ] = None
    app: Annotated[
        str | None,
        typer.Option("--app", help="The app's import path, package.module:app.", metavar="PATH", rich_help_panel=_PANEL),
    ] = None
    home: Annotated[
        str | None,
        typer.Option("--home", help="The home of the embedded stack.", metavar="DIRECTORY", rich_help_panel=_PANEL),
    ] = None

    principal: Annotated[
        str | None,
        typer.Option(
            "--as",
            help="Who decides, sends or cancels; the log keeps it. By default this user.",
            metavar="NAME",
            rich_help_panel=_PANEL,
        ),
    ] = None

    def settings(self) -> Settings:
        """The settings in force, for a command that stands on Redis or Ray itself.

        Raises:
            ConfigurationError: A setting has the wrong type, or does not go with another; or they lead to a server.
        """
        settings = self.reaching()
        if settings.url is not None:
            problem = "this command stands on Redis or Ray itself, and goes over no server"
            raise ConfigurationError("url", problem, "run it where they are, without --url and HOLDFAST_URL")
        return settings

    def reaching(self) -> Settings:
        """The settings in force, for a command that also goes over a server.

        Raises:
            ConfigurationError: A setting has the wrong type, or does not go with another.
        """
        return Settings.of(**{name: value for name, value in asdict(self).items() if name != "principal"})

    def words(self) -> list[str]:
        """The options that were given but for app and token, for another command that leads to the same conversations."""
        url = None if self.redis_url is None else to_copy(self.redis_url)
        if url != self.redis_url and os.environ.get("HOLDFAST_REDIS_URL") == self.redis_url:
            url = None  # the variable leads there, and the password is not shown
        given = {"--url": self.url, "--redis-url": url, "--ray-address": self.ray_address}
        given |= {"--namespace": self.namespace, "--home": self.home}
        return [word for option, value in given.items() if value is not None for word in (option, value)]


AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def everywhere(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function in the form that typer sees: its first parameter, a `Where`, becomes the options of every command."""
    own = list(inspect.signature(function).parameters.values())[1:]
    common = [
        inspect.Parameter(place.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=place.type)
        for place in fields(Where)
    ]

    @wraps(function)
    def run(**given: Any) -> Any:
        where = Where(**{parameter.name: given.pop(parameter.name) for parameter in common})
        return function(where, **given)

    parameters = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own] + common
    run.__dict__["__signature__"] = inspect.Signature(parameters)
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run
