"""A request that a model server was sent."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Request:
    """A request that reached the server, whether it was answered, held, failed or broken off.

    Attributes:
        body: The parsed JSON body: `model`, `messages`, `tools` and so on.
        arrived_at_s: When the server had read the whole request, in seconds of Unix time.
        authorization: The `Authorization` header; None without one.
    """

    body: dict[str, Any]
    arrived_at_s: float
    authorization: str | None
