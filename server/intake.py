"""What a request brings: its body and query, read within bounds and checked against their models."""

import asyncio
from typing import Any

from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect, Request

from holdfast.conversation import jsontext

from .bounds import Bounds
from .refusal import Refusal

JSON = "application/json"
KEY = "Idempotency-Key"
MOST_ERRORS = 20
"""How many mistakes of one request are named."""


async def body_of(request: Request, model: type[BaseModel], bounds: Bounds) -> Any:
    """The body of a request as its model; an empty one counts as `{}`.

    Raises:
        Refusal: The body is too large, comes too slowly, is no JSON, or does not fit the model.
    """
    raw = await read_body(request, bounds)
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
    """The query of a request as its model; None where there is no model, and then there may be no query.

    Raises:
        Refusal: The query is too long, names a field twice, or does not fit the model.
    """
    if len(request.scope.get("query_string", b"")) > bounds.query_bytes:
        raise Refusal(414, "query_too_long", f"the query has more than {bounds.query_bytes} bytes")
    pairs = request.query_params.multi_items()
    given = dict(pairs)
    if len(given) != len(pairs):
        raise Refusal(422, "invalid_request", "the query names a field twice", {"errors": []})
    if model is not None:
        return _fitting(model, given, "query")
    if given:
        raise Refusal(422, "invalid_request", f"the query takes no fields, and names {next(iter(given))!a:.60}", {"errors": []})
    return None


def key_of(request: Request, field: str | None, body: Any) -> str | None:
    """The idempotency key of a request, from its header or its body; None if neither has one.

    Raises:
        Refusal: A key is empty, the header stands there twice, or header and body differ.
    """
    if field is None:
        return None
    given, inside = request.headers.getlist("idempotency-key"), getattr(body, field, None)
    empty = KEY if "" in given else field if inside == "" else None
    if empty is not None or len(given) > 1:  # taken for none, a repetition would be done again
        problem = "send it once, and not empty, or leave it out"
        raise Refusal(
            422, "invalid_request", f"{empty or KEY}: {problem}", {"errors": [{"field": empty or KEY, "problem": problem}]}
        )
    header = given[0] if given else None
    if header is not None and inside is not None and header != inside:
        detail = f"Idempotency-Key and the body's {field} differ: send one of them, or the same twice"
        raise Refusal(422, "invalid_request", detail, {"errors": []})
    return inside if header is None else header


async def read_body(request: Request, bounds: Bounds) -> bytes:
    """The bytes of a body.

    Raises:
        Refusal: It is larger than may be, comes too slowly, or breaks off.
    """
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and (len(declared) > len(str(bounds.body_bytes)) or int(declared) > bounds.body_bytes):
        raise _too_large(bounds)
    found = bytearray()
    try:
        async with asyncio.timeout(bounds.body_s):
            async for chunk in request.stream():
                found += chunk
                if len(found) > bounds.body_bytes:
                    raise _too_large(bounds)
    except TimeoutError:
        detail = f"the body did not come within {bounds.body_s:g} s"
        raise Refusal(408, "body_too_slow", detail, headers={"Connection": "close"}) from None
    except ClientDisconnect:
        raise Refusal(400, "body_incomplete", "the body broke off") from None
    return bytes(found)


def _too_large(bounds: Bounds) -> Refusal:
    detail = f"the body has more than {bounds.body_bytes} bytes: send less, or a reference to it"
    return Refusal(413, "body_too_large", detail, headers={"Connection": "close"})


def _fitting(model: type[BaseModel], value: Any, where: str) -> Any:
    try:
        return model.model_validate(value)
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=False, include_input=False)[:MOST_ERRORS]
        errors = [{"field": _place(one["loc"]), "problem": _short(one["msg"])} for one in found]
        first = errors[0]
        said = f"{where}{'.' if first['field'] else ''}{first['field']}: {first['problem']}"
        raise Refusal(422, "invalid_request", said, {"errors": errors}) from None


def _place(loc: tuple[int | str, ...]) -> str:
    return _short(".".join(map(str, loc)))


def _short(text: str, limit: int = 200) -> str:
    shown = jsontext.clean(text)
    return shown if len(shown) <= limit else f"{shown[: limit - 1]}…"
