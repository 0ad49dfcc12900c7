"""The input of a request: its body and query, read within bounds and checked against their models."""

import asyncio
import contextlib
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeAlias, get_origin

from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect, Request

from holdfast.client.access import Access
from holdfast.conversation import Limits
from holdfast.conversation.text import jsontext
from holdfast.errors import HoldfastError

from .bounds import Bounds
from .refusal import Refusal, invalid

JSON = "application/json"
KEY = "Idempotency-Key"
MOST_ERRORS = 20
ESCAPED = 3
"""A body may be this many times as long as the agents' limits say: JSON escapes make text longer."""
BESIDE_BYTES = 16 * 1024
"""Bytes of a body allowed beyond the values that the agents' limits bound: ids, names, punctuation."""
AT_ONCE_BYTES = 16 * 1024
"""JSON up to this many bytes is parsed in the loop, in some milliseconds at most; more is parsed in a thread."""
FRESH_S = 60
"""The limits by which a body is refused as too large are at most this old (seconds)."""

Room: TypeAlias = Callable[[Limits], int]
"""How many bytes the values in a body may have together, by the agents' limits."""


class Intake:
    """Reads the bodies of one server's requests, within bounds; `access` gives the agents' limits. `clock` gives seconds."""

    def __init__(self, access: Access, bounds: Bounds, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._access = access
        self._bounds = bounds
        self._clock = clock
        self._limits, self._looked_at, self._looking = Limits(), float("-inf"), asyncio.Lock()
        self._parsers = ThreadPoolExecutor(2, "holdfast-parser")

    async def read(self, request: Request, room: Room) -> bytes:
        """The bytes of a body. The agents' limits are looked up if the default ones would refuse it."""
        length, most = _length(request), self._most_bytes(room, Limits())
        if length is None or length > most:
            most = self._most_bytes(room, await self._largest())
        return await read_body(request, self._bounds, most)

    async def parsed(self, request: Request, raw: bytes, model: type[BaseModel]) -> Any:
        """The body of a request as its model; an empty body counts as `{}`. One that is no JSON or does not fit is refused."""
        work = partial(_parsed, request, raw, model)
        if len(raw) <= AT_ONCE_BYTES:
            return work()
        return await asyncio.get_running_loop().run_in_executor(self._parsers, work)

    def _most_bytes(self, room: Room, limits: Limits) -> int:
        return min(BESIDE_BYTES + ESCAPED * room(limits), self._bounds.body_bytes)

    async def _largest(self) -> Limits:
        async with self._looking:
            if self._clock() - self._looked_at >= FRESH_S:
                with contextlib.suppress(HoldfastError):  # the next step reports the error; until then the last limits count
                    self._limits, self._looked_at = await self._access.largest_limits(), self._clock()
            return self._limits


def _parsed(request: Request, raw: bytes, model: type[BaseModel]) -> Any:
    if not raw:
        return _fitting(model, {}, "body")
    if request.headers.get("content-encoding", "identity").strip().lower() != "identity":
        raise Refusal(415, "unsupported_media_type", "send the body as it is, without a Content-Encoding")
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != JSON:
        raise Refusal(415, "unsupported_media_type", f"send the body as {JSON}")
    try:
        value = jsontext.loads(raw.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise Refusal(400, "not_json", f"the body is not UTF-8 ({error.reason} at byte {error.start})") from None
    except jsontext.NotJson as error:
        raise Refusal(400, "not_json", f"the body is not strict JSON within bounds: {jsontext.clean(str(error))}") from None
    return _fitting(model, value, "body")


def query_of(request: Request, model: type[BaseModel] | None, bounds: Bounds) -> Any:
    """The query of a request as its model; None if there is no model, and then there may be no query."""
    if len(request.scope.get("query_string", b"")) > bounds.query_bytes:
        raise Refusal(414, "query_too_long", f"the query has more than {bounds.query_bytes} bytes")
    pairs = request.query_params.multi_items()
    lists = {name: [one for key, one in pairs if key == name] for name in _lists_in(model)}
    given: dict[str, Any] = {**dict(pairs), **{name: found for name, found in lists.items() if found}}
    if len(given) != len(pairs) - sum(max(len(found) - 1, 0) for found in lists.values()):
        raise invalid("the query names a field twice")
    if model is not None:
        return _fitting(model, given, "query")
    if given:
        raise invalid(f"this request takes no query; it names {next(iter(given))!a:.60}")
    return None


def _lists_in(model: type[BaseModel] | None) -> list[str]:
    """The fields of a query that may be repeated."""
    fields = {} if model is None else model.model_fields
    return [name for name, field in fields.items() if get_origin(field.annotation) is list]


def key_of(request: Request, field: str | None, body: Any) -> str | None:
    """The idempotency key of a request, from its header or its body; None if neither has one."""
    if field is None:
        return None
    given, inside = request.headers.getlist("idempotency-key"), getattr(body, field, None)
    empty = KEY if "" in given else field if inside == "" else None
    if empty is not None or len(given) > 1:  # an ignored key would let a repetition run again
        problem = "send it once and not empty, or leave it out"
        raise invalid(f"{empty or KEY}: {problem}", [{"field": empty or KEY, "problem": problem}])
    header = given[0] if given else None
    if header is not None and inside is not None and header != inside:
        raise invalid(f"Idempotency-Key and the body's {field} differ: send one of them, or the same twice")
    return inside if header is None else header


async def read_body(request: Request, bounds: Bounds, most: int) -> bytes:
    """The bytes of a body of at most `most` bytes."""
    if (_length(request) or 0) > most:
        raise _too_large(most)
    found = bytearray()
    try:
        async with asyncio.timeout(bounds.body_s):
            async for chunk in request.stream():
                found += chunk
                if len(found) > most:
                    raise _too_large(most)
    except TimeoutError:
        detail = f"the body did not come within {bounds.body_s:g} s"
        raise Refusal(408, "body_too_slow", detail, headers={"Connection": "close"}) from None
    except ClientDisconnect:
        raise Refusal(400, "body_incomplete", "the body ended early") from None
    return bytes(found)


def _length(request: Request) -> int | None:
    declared = request.headers.get("content-length", "")
    return int(declared[:20]) if declared.isascii() and declared.isdecimal() else None


def _too_large(most: int) -> Refusal:
    detail = f"the body has more than {most} bytes, the most that is allowed here: send less, or a reference to it"
    return Refusal(413, "body_too_large", detail, headers={"Connection": "close"})


def _fitting(model: type[BaseModel], value: Any, where: str) -> Any:
    try:
        return model.model_validate(value)
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=False, include_input=False)[:MOST_ERRORS]
        errors = [{"field": _short(".".join(map(str, one["loc"]))), "problem": _short(one["msg"])} for one in found]
        first = errors[0]
        raise invalid(f"{where}{'.' if first['field'] else ''}{first['field']}: {first['problem']}", errors) from None


def _short(text: str, limit: int = 200) -> str:
    shown = jsontext.clean(text)
    return shown if len(shown) <= limit else f"{shown[: limit - 1]}…"
