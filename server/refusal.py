"""Refusals by the server itself, before a request reaches the client."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.errors import HoldfastError


class Refusal(HoldfastError):
    """A request that the server does not pass on; nothing was changed.

    `status` is the HTTP status, `code` names the problem, `detail` says what to do; `fields` are further fields of the problem
    document, `headers` those of the response.
    """

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        fields: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(status, code, detail, fields, headers)
        self.status = status
        self.code = code
        self.detail = detail
        self.fields = dict(fields or {})
        self.headers = dict(headers or {})

    def __str__(self) -> str:
        return self.detail


def too_often(code: str, detail: str, wait_s: float) -> Refusal:
    """The refusal of a request that came too often; it says when to retry."""
    return Refusal(429, code, detail, headers={"Retry-After": str(max(math.ceil(wait_s), 1))})


def invalid(detail: str, errors: Sequence[Mapping[str, str]] = ()) -> Refusal:
    """The refusal of a request that is not as it should be: `errors` names fields and their problems."""
    return Refusal(422, "invalid_request", detail, {"errors": list(errors)})
