"""How a client reaches its conversations: by the stack of this machine, or by a server."""

from typing import TYPE_CHECKING

from holdfast.errors import ConfigurationError, InvalidInput
from holdfast.settings import Settings

from .gateway import Gateway
from .operation import is_app, is_time
from .stack import Stack
from .stack_gateway import StackGateway

if TYPE_CHECKING:
    from holdfast.agent import App


def gateway_of(settings: Settings, app: "App | str | None", *, timeout_s: float) -> Gateway:
    """The gateway that the settings name, for a client of this app; the errors are those of `AsyncClient.connect`."""
    if app is not None and not isinstance(app, str) and not is_app(app):
        raise InvalidInput("app", f"{type(app).__name__} is no app", "give an App or its import path")
    if not is_time(timeout_s) or timeout_s <= 0:
        raise InvalidInput("timeout_s", f"{timeout_s!r:.40} is no time", "give seconds, more than 0")
    if settings.url is None:
        return StackGateway(Stack(settings, app), timeout_s=timeout_s)
    if app is not None:
        raise ConfigurationError("app", "it cannot be combined with the url of a server, which has its own", "leave it out")
    return over_http(settings, timeout_s=timeout_s)


def over_http(settings: Settings, *, timeout_s: float) -> Gateway:
    """The gateway to the server that the settings name; `ConfigurationError` as in `AsyncClient.connect`."""
    from .http_address import Address  # noqa: PLC0415 - only clients over HTTP need it
    from .http_gateway import HttpGateway  # noqa: PLC0415 - as above

    address = Address.of(settings.url or "", settings.token, plain_http=settings.plain_http)
    return HttpGateway(address, timeout_s=timeout_s)
