"""The options that every command takes: the addresses of Redis and Ray, the namespace, the app and the home."""

import inspect
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields
from functools import wraps
from typing import Annotated, Any

import typer

from holdfast.settings import Settings

from .redis_url import to_copy

_PANEL = "Where everything is"


@dataclass(frozen=True, slots=True)
class Where:
    """The options of the command line that lead to the conversations; `HOLDFAST_*` variables give those left out."""

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
        """The settings in force.

        Raises:
            ConfigurationError: A setting has the wrong type, or does not go with another.
        """
        return Settings.of(**{name: value for name, value in asdict(self).items() if name != "principal"})

    def words(self) -> list[str]:
        """The options as they were given but for the app, for another command that leads to the same conversations."""
        url = None if self.redis_url is None else to_copy(self.redis_url)
        if url != self.redis_url and os.environ.get("HOLDFAST_REDIS_URL") == self.redis_url:
            url = None  # the variable leads there, and the password is not shown
        given = {"--redis-url": url, "--ray-address": self.ray_address}
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
