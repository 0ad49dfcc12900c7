"""The list as a widget: two lines for each call, drawn only where they are seen."""

from collections.abc import Callable, Sequence
from typing import ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from holdfast.cli.display import clean, shorten, span
from holdfast.cli.hints import KINDS
from holdfast.client.inbox.kinds import asked_in, kind_of
from holdfast.client.inbox.row import Row

from .waiting import Entry

LINES = 2
SOON_MS = 900_000
"""A deadline this near (ms) is drawn in red."""
LONGEST = 400
"""The most characters of one line of a call."""
_DIM, _BOLD, _RED, _DONE = Style(dim=True), Style(bold=True), Style(color="red", bold=True), Style(dim=True, italic=True)


class CallList(ScrollView, can_focus=True):
    """The calls, with the one under the cursor, and those that are marked."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "Up", show=False),
        Binding("down,j", "move(1)", "Down", show=False),
        Binding("pageup", "move(-10)", "Page up", show=False),
        Binding("pagedown", "move(10)", "Page down", show=False),
        Binding("home", "move(-100000)", "First", show=False),
        Binding("end", "move(100000)", "Last", show=False),
    ]

    class Moved(Message):
        """The cursor stands on another call."""

    def __init__(self, now: Callable[[], int]) -> None:
        super().__init__()
        self._now = now
        self._entries: Sequence[Entry] = ()
        self.place = 0
        self.marked: set[str] = set()

    @property
    def entry(self) -> Entry | None:
        """The call under the cursor; None if the list is empty."""
        return self._entries[self.place] if self._entries else None

    def show(self, entries: Sequence[Entry]) -> None:
        """Show these calls; the cursor stays on its call, or in its place if that is gone."""
        before = self.entry.call.suspension_id if self.entry is not None else ""
        self._entries = entries
        self.marked &= {one.call.suspension_id for one in entries if not one.ended}
        names = [one.call.suspension_id for one in entries]
        self.place = names.index(before) if before in names else max(min(self.place, len(entries) - 1), 0)
        self.virtual_size = Size(self.size.width, LINES * len(entries))
        self._follow_cursor()
        self.refresh()
        after = self.entry.call.suspension_id if self.entry is not None else ""
        if after != before:
            self.post_message(self.Moved())

    def mark(self) -> None:
        """Mark the call under the cursor, or take its mark away, and go to the next one."""
        if self.entry is not None and not self.entry.ended:
            self.marked ^= {self.entry.call.suspension_id}
            self.action_move(1)
            self.refresh()

    def action_move(self, by: int) -> None:
        """Move the cursor by so many calls."""
        place = max(min(self.place + by, len(self._entries) - 1), 0)
        if place != self.place:
            self.place = place
            self._follow_cursor()
            self.refresh()
            self.post_message(self.Moved())

    def on_click(self, event: object) -> None:
        """Move the cursor to the call that was clicked."""
        y = int(getattr(event, "y", 0)) + self.scroll_offset.y
        self.action_move(y // LINES - self.place)

    def _follow_cursor(self) -> None:
        self.scroll_to_region(Region(0, self.place * LINES, 1, LINES), animate=False, force=True)

    def render_line(self, y: int) -> Strip:
        """One line of the list as it is seen."""
        number, line = divmod(y + self.scroll_offset.y, LINES)
        width = self.scrollable_content_region.width
        if number >= len(self._entries):
            return Strip.blank(width, self.rich_style)
        entry = self._entries[number]
        parts = self._first(entry) if line == 0 else self._second(entry)
        here = number == self.place
        base = self.rich_style + Style(reverse=here and self.has_focus, bold=here)
        segments = [Segment(text, base + (Style() if here and self.has_focus else style)) for text, style in parts]
        return Strip(segments, sum(cell_len(text) for text, _ in parts)).crop_extend(0, width, base)

    def _first(self, entry: Entry) -> list[tuple[str, Style]]:
        call = entry.call
        mark = "● " if call.suspension_id in self.marked else "  "
        if entry.ended:
            return [(mark, _BOLD), (f"{clean(call.tool)}  ", _DONE), (clean(entry.ended), _DONE)]
        left = None if call.expires_at is None else call.expires_at - self._now()
        says = "?" if left is None else span(left) if left > 0 else "due"
        soon = left is not None and left < SOON_MS
        asks = asked_in(call)
        drawn = [(mark, _BOLD), (f"{says:<7} ", _RED if soon else _DIM)]
        drawn += [(kind_of(call).label, Style(color=KINDS[call.kind].color)), ("  ", _DIM), (clean(call.tool) or "?", _BOLD)]
        return [*drawn, ("  ", _DIM), (shorten(clean(asks), LONGEST), Style())] if asks else drawn

    def _second(self, entry: Entry) -> list[tuple[str, Style]]:
        call, row = entry.call, Row(entry.call)
        above = "".join(f"{clean(one.agent)} → " for one in call.path)
        noted = f"{clean(row.noted)} · " if row.noted and not entry.ended else ""
        said = f" · {shorten(clean(row.said), LONGEST)}" if row.said else ""
        return [(f"          {noted}", Style()), (f"{above}{clean(call.agent)} · {clean(call.conversation_id)}{said}", _DIM)]
