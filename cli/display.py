"""Texts of models and people, made safe for a terminal: as data, never as control characters that it obeys."""

import json
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast.visible import without_hidden

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_ESCAPED = re.compile(r"(?<!\\)(?:\\\\)*\\[ubf]")  # JSON escapes of characters that a person cannot read
_UNBOUNDED = 1_000_000
_UNITS = ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s"))


class Said(NamedTuple):
    """The output of a command: the value for `--json`; else lines, or a function that draws, and a note on stderr."""

    data: Any
    shown: Iterable[str] | Callable[[], object]
    note: str = ""
    code: int = 0
    indent: int | None = 2

    def write(self, *, as_json: bool) -> int:
        """Print it; gives the exit code."""
        if as_json:
            sys.stdout.write(to_json(self.data, indent=self.indent) + "\n")
            return self.code
        if callable(self.shown):
            self.shown()
        else:
            sys.stdout.writelines(f"{clean(line)}\n" for line in self.shown)
        if self.note:
            sys.stderr.write(f"note: {clean(self.note)}\n")
        return self.code


def many(count: int, what: str) -> str:
    """A number of things, whose plural ends with an s: `1 run`, `2 runs`."""
    return f"{count} {what}{'' if count == 1 else 's'}"


def clean(text: str) -> str:
    """The text on one line, with control and invisible characters as escapes."""
    return without_hidden(text, _escape)


def clean_block(text: str) -> str:
    """As `clean`, but lines stay lines."""
    return without_hidden(text.replace("\r\n", "\n"), _escape, kept="\n\t").expandtabs(4)


def tell(text: str) -> None:
    """Write for the person, on stderr: stdout may carry JSON."""
    sys.stderr.write(text)
    sys.stderr.flush()


def shorten(text: str, length: int) -> str:
    """The text, cut to a length in characters."""
    return text if len(text) <= length else text[: length - 1] + "…"


def is_whole(text: str, length: int) -> bool:
    """Whether `shorten(clean(text), length)` shows the whole text, with no escapes but for line ends."""
    return len(clean(text)) <= length and without_hidden(text, lambda _: "", kept="\r\n\t") == text


def is_whole_json(text: str, length: int) -> bool:
    """As `is_whole`, for a text that `to_json` made."""
    return is_whole(text, length) and _ESCAPED.search(text) is None


def to_json(value: Any, *, indent: int | None = None) -> str:
    """The JSON text of a value, readable and harmless in a terminal; a parser reads the same value from it."""
    readable = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    text = json.dumps(value, ensure_ascii=not readable, indent=indent, default=str)
    return without_hidden(text, lambda char: json.dumps(char)[1:-1], kept="\n")


def span(milliseconds: int) -> str:
    """A length of time in its two largest units, such as `6d 23h`."""
    seconds = max(milliseconds, 0) // 1000
    for (size, unit), (below, name) in pairwise((*_UNITS, _UNITS[-1])):
        if seconds >= size:
            rest = seconds % size // below
            return f"{seconds // size}{unit}" + (f" {rest}{name}" if rest else "")
    return "0s"


def console() -> "Console":
    """Standard output; if it is no terminal, without a maximal width, so that nothing is cut or wrapped."""
    from rich.console import Console  # noqa: PLC0415 - not needed for `--json`

    width = None if sys.stdout.isatty() else _UNBOUNDED
    return Console(file=sys.stdout, width=width, markup=False, emoji=False, highlight=False)


def table(*columns: str) -> "Table":
    """A frameless table with one line per row."""
    from rich.table import Table  # noqa: PLC0415 - as above

    made = Table(box=None, show_edge=False, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in columns:
        made.add_column(column, no_wrap=True)
    return made


def write_table(
    columns: Sequence[str], rows: Iterable[Sequence[str]], *, below: Callable[[int], Iterable[tuple[str, str]]] = lambda _: ()
) -> None:
    """Print a table of clean texts: one line per row, in full even on a narrow terminal.

    `below` gives the lines under a row, by its number, each with its style.
    """
    from rich.text import Text  # noqa: PLC0415 - as above

    screen, drawn = console(), table(*columns)
    for row in rows:
        drawn.add_row(*row)
    for number, segments in enumerate(screen.render_lines(drawn, screen.options.update(width=_UNBOUNDED), pad=False)):
        line = Text.assemble(*((segment.text, segment.style or "") for segment in segments))
        line.rstrip()
        screen.print(line, soft_wrap=True)
        for text, style in below(number - 1) if number else ():
            screen.print(f"  {text}", style=style, soft_wrap=True)


def _escape(char: str) -> str:
    return _SHORT.get(char) or char.encode("unicode_escape", "surrogatepass").decode("ascii")
