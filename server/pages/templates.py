"""The templates of the pages. All values are escaped; only `markdown.py` makes HTML, and cleans it."""

import uuid
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.responses import HTMLResponse

from holdfast.client.inbox.choices import MOST_AT_ONCE, VERDICTS
from holdfast.client.inbox.difference import difference
from holdfast.client.inbox.kinds import asked_in, effect_of, kind_of
from holdfast.client.inbox.scopes import LASTS
from holdfast.client.inbox.text import (
    as_json,
    clock,
    iso,
    named,
    one_line,
    parts,
    reads_as_another,
    shown,
    size,
    span,
    summary,
    visible,
)
from holdfast.conversation.terms.parts import in_words
from holdfast.server.static_files import static_url

from .destinations import path_of
from .markdown import markdown

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
"""The Content-Security-Policy of all pages: nothing inline, nothing evaluated, nothing from elsewhere, in no frame."""
HEADERS = {
    "Content-Security-Policy": POLICY,
    "Referrer-Policy": "same-origin",  # with none at all, browsers would not state a form's origin
}


RENDERED = 65_536
"""The most characters of messages that a page renders as markdown; older messages are shown as plain text."""


PICTURED = 1024 * 1024
"""The most characters of images' data that a page shows; older images are named in words."""


def rendered(name: str, **values: Any) -> str:
    """A template's text with these values."""
    return _environment().get_template(name).render(values)


def page(name: str, *, status: int = 200, headers: dict[str, str] | None = None, **values: Any) -> HTMLResponse:
    """A page of a template, under the policy of all pages. `root`, the path of the application, is one of the values."""
    return html(rendered(name, **values), status=status, headers=headers)


def html(text: str, *, status: int = 200, headers: dict[str, str] | None = None) -> HTMLResponse:
    """A page of this text, under the policy of all pages."""
    return HTMLResponse(text, status_code=status, headers=HEADERS | (headers or {}))


def affordable(messages: Sequence[Mapping[str, Any]]) -> list[tuple[Mapping[str, Any], bool, bool]]:
    """Messages, each with whether its texts are rendered as markdown, and whether its images are shown: the latest ones.

    All rendered texts have up to `RENDERED` characters, all shown images up to `PICTURED` as data. The URL of an image is only
    written out: a page fetches nothing from elsewhere.
    """
    left, pictured, found = RENDERED, PICTURED, []
    for message in reversed(messages):
        content = message.get("content") or ""
        left -= len(in_words(content))
        pictured -= 0 if isinstance(content, str) else sum(len(part.get("image_url", {}).get("url", "")) for part in content)
        found.append((message, left > 0, pictured > 0))
    return found[::-1]


@cache
def _environment() -> Environment:
    folder = str(files("holdfast.server.pages") / "templates")
    found = Environment(loader=FileSystemLoader(folder), autoescape=True, undefined=StrictUndefined, auto_reload=False)
    found.trim_blocks = found.lstrip_blocks = True
    found.globals |= {
        "element": False,
        "link": "",
        "static_url": static_url,
        "verdicts": VERDICTS,
        "kind_of": kind_of,
        "path_of": path_of,
        "most_at_once": MOST_AT_ONCE,
        "lasts": LASTS,
        "new_key": lambda: uuid.uuid4().hex,
    }
    filters = (affordable, asked_in, clock, difference, effect_of, iso, markdown, named, one_line, parts, shown, size, span)
    found.filters |= {one.__name__: one for one in (*filters, summary, visible)} | {"pretty": as_json}
    found.tests["another"] = reads_as_another
    return found
