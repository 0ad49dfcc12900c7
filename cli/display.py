"""Showing what models and people wrote: as data, never as anything that a terminal obeys."""

import json
import re
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

# Control characters (with ESC and the C1 set), what reorders or hides text (bidi marks, zero-width spaces, tags), line and
# paragraph separators, lone surrogates. The joiners U+200C and U+200D stay: scripts and emoji need them.
_HOSTILE = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f"
)
_IN_BLOCK = re.compile(f"[{_HOSTILE}]")
_IN_LINE = re.compile(f"[{_HOSTILE}\t\n]")
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_UNBOUNDED = 1_000_000
_UNITS = ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s"))


def clean(text: str) -> str:
    """The text on one line, each character that a terminal might obey written as its escape."""
    return _IN_LINE.sub(_escape, text)


def clean_block(text: str) -> str:
    """As `clean`, but lines stay lines."""
    return _IN_BLOCK.sub(_escape, text.replace("\r\n", "\n")).expandtabs(4)


def shorten(text: str, length: int) -> str:
    """The text, cut where it is longer."""
    return text if len(text) <= length else text[: length - 1] + "…"


def to_json(value: Any, *, indent: int | None = None) -> str:
    """JSON text of a value, readable and harmless in a terminal, and the same value for whoever parses it."""
    readable = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    text = json.dumps(value, ensure_ascii=not readable, indent=indent, default=str)
    return _IN_BLOCK.sub(lambda found: json.dumps(found[0])[1:-1], text)


def span(milliseconds: int) -> str:
    """A length of time in its two largest units, such as `6d 23h`."""
    seconds = max(milliseconds, 0) // 1000
    for index, (size, unit) in enumerate(_UNITS):
        if seconds >= size:
            text = f"{seconds // size}{unit}"
            if index + 1 < len(_UNITS):
                below, name = _UNITS[index + 1]
                rest = seconds % size // below
                text += f" {rest}{name}" if rest else ""
            return text
    return "0s"


def console() -> "Console":
    """Standard output; where it is no terminal, as wide as it takes, so that nothing is cut or wrapped."""
    from rich.console import Console  # noqa: PLC0415 - `--json` does without

    width = None if sys.stdout.isatty() else _UNBOUNDED
    return Console(file=sys.stdout, width=width, markup=False, emoji=False, highlight=False)


def table(*columns: str) -> "Table":
    """A table of one line a row, without a frame."""
    from rich.table import Table  # noqa: PLC0415 - as above

    made = Table(box=None, show_edge=False, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in columns:
        made.add_column(column, no_wrap=True)
    return made


def lines(screen: "Console", drawn: "Table") -> "Iterator[Text]":
    """The lines of a table: the header, then one for each row, in full however narrow the terminal is."""
    from rich.text import Text  # noqa: PLC0415 - as above

    for segments in screen.render_lines(drawn, screen.options.update(width=_UNBOUNDED), pad=False):
        line = Text.assemble(*((segment.text, segment.style or "") for segment in segments))
        line.rstrip()
        yield line


def _escape(found: "re.Match[str]") -> str:
    char = found[0]
    return _SHORT.get(char) or char.encode("unicode_escape", "surrogatepass").decode("ascii")
