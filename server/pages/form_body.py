"""The body of an HTML form, read within the bounds of all bodies."""

from collections.abc import Awaitable, Callable
from urllib.parse import parse_qs

from starlette.requests import Request

from holdfast.client.inbox.form import Form
from holdfast.server.refusal import Refusal

FORM = "application/x-www-form-urlencoded"
MOST_FIELDS = 5000
"""The most fields of a form: enough for a person who decides several calls at once."""


async def form_of(request: Request, read: Callable[[], Awaitable[bytes]]) -> Form:
    """The form in a request, whose body `read` gives. A body that is too large, too slow or no form is refused."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != FORM:
        raise Refusal(415, "unsupported_media_type", f"send the body as {FORM}")
    return form_in(await read())


def form_in(encoded: str | bytes) -> Form:
    """The form that a text encodes as browsers do. Other texts are refused."""
    try:
        text = encoded if isinstance(encoded, str) else encoded.decode("ascii")
        return Form(parse_qs(text, keep_blank_values=True, errors="strict", max_num_fields=MOST_FIELDS))
    except ValueError:
        raise Refusal(400, "no_form", "the body is no form, or has too many fields") from None
