"""The screen of `holdfast inbox`: the list, the call under its cursor, and the keys that decide it."""

import faulthandler
import uuid
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, ClassVar

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.widgets import Footer, Static

from holdfast.backoff import wall_ms
from holdfast.cli.display import clean
from holdfast.cli.errors import message_of
from holdfast.cli.hints import outcome
from holdfast.cli.options import seconds_of
from holdfast.cli.session import Reached
from holdfast.cli.watching import Wanted
from holdfast.client.inbox.choices import (
    ANSWER,
    APPROVE,
    CANCEL,
    DENY,
    FAIL,
    MOST_AT_ONCE,
    REDISPATCH,
    REVIEW,
    Choice,
    settled_as,
)
from holdfast.client.inbox.difference import difference
from holdfast.client.inbox.kinds import EDIT, kind_of, offered, takes_scope
from holdfast.client.inbox.text import as_json
from holdfast.client.results import AsyncPendingCall
from holdfast.conversation import Approve, Decision, Receipt, Review
from holdfast.conversation.text import jsontext
from holdfast.errors import HoldfastError, InvalidInput, StaleCall

from .answers import AnswerSheet
from .call_list import CallList
from .dialogs import Ask, ReviewSheet, ScopeSheet, Sheet
from .editor import edited
from .several import Several
from .shown import NARROW, Shown, headline, look, text_of
from .waiting import Waiting

WIDE = 110
"""The columns from which the list and a call stand side by side."""
TICK_S, SETTLE_S = 5.0, 0.05
"""Seconds between looks at what time alone changes; and for which changes are collected before they are drawn."""
ASKED: Mapping[str, tuple[Choice, str]] = {
    "approve": (APPROVE, "Reason, for the log; may be empty."),
    "deny": (DENY, ""),
    "fail": (FAIL, "What went wrong, for the agent."),
    "redispatch": (REDISPATCH, "Reason, for the log; may be empty."),
    "cancel": (CANCEL, "Reason, for the agent. The turn goes on without the call."),
}
"""The decisions that take one line, with what it is; of a denial the call's kind says that."""
OFFERED_BY = {"edit": EDIT, "answer": ANSWER.name, "review": REVIEW.name, "scope": APPROVE.name} | {
    name: choice.name for name, (choice, _) in ASKED.items()
}
"""The decision that has to be offered for each key."""
OF_CALL = ("snooze", "assign", "comment")


async def run(on: Reached, wanted: Mapping[str, Any]) -> None:
    """Show the inbox until the person leaves."""
    if not faulthandler.is_enabled():
        faulthandler.enable(all_threads=False)  # else Ray does when it is joined, on what textual has put in place of stderr
    app = Inbox(on, Wanted(wanted))
    await app.run_async()
    if app.failed is not None:
        raise app.failed


class Inbox(App[None]):
    """The inbox in a terminal."""

    TITLE = "Holdfast inbox"
    ENABLE_COMMAND_PALETTE = False
    HORIZONTAL_BREAKPOINTS = [(0, "narrow"), (WIDE, "wide")]  # noqa: RUF012 - the base class declares it so
    CSS = """
    #status { height: 1; background: $panel; padding: 0 1; }
    #both { height: 1fr; }
    CallList { width: 2fr; scrollbar-size-vertical: 1; overflow-x: hidden; }
    #call { width: 3fr; padding: 0 1; border-left: solid $panel; }
    #call:focus { border-left: solid $accent; }
    .narrow CallList { width: 1fr; }
    .narrow #call { display: none; width: 1fr; border-left: none; }
    .narrow.opened CallList { display: none; }
    .narrow.opened #call { display: block; }
    ModalScreen { align: center middle; }
    .dialog { width: 90%; max-width: 110; height: auto; max-height: 90%; padding: 0 1; }
    .dialog { border: round $accent; background: $surface; }
    .dialog .body, .dialog .fields { height: auto; margin: 1 0; }
    .dialog .body { max-height: 45vh; }
    .dialog .fields { max-height: 60vh; }
    Several .body { max-height: 30vh; }
    .field { height: auto; margin-bottom: 1; }
    .title { text-style: bold; }
    .label { margin-top: 1; }
    .hint { color: $text-muted; }
    .problem { color: $text-error; height: auto; }
    .dialog TextArea { height: 6; }
    .dialog RadioSet, .dialog SelectionList { height: auto; max-height: 10; width: 1fr; }
    Several RadioSet { max-height: 4; }
    .dialog .fields Input, .dialog TextArea, #reason { background: $boost; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "open", "Open"),
        Binding("escape", "close", "List"),
        Binding("space", "mark", "Mark"),
        Binding("s", "several", "Decide marked"),
        Binding("a", "approve", "Approve"),
        Binding("e", "edit", "Edit"),
        Binding("g", "scope", "Grant"),
        Binding("w", "answer", "Answer"),
        Binding("v", "review", "Review"),
        Binding("u", "redispatch", "Run again"),
        Binding("d", "deny", "Deny"),
        Binding("f", "fail", "Failed"),
        Binding("x", "cancel", "Cancel"),
        Binding("z", "snooze", "Snooze"),
        Binding("t", "assign", "Take"),
        Binding("c", "comment", "Note"),
        Binding("q", "quit", "Quit"),
        Binding("ctrl+c", "quit", show=False),
    ]

    def __init__(self, on: Reached, wanted: Wanted) -> None:
        super().__init__()
        self._on = on
        self.call_list = CallList(self.now)
        self._status, self._text, self._pane = Static(id="status"), Static(id="text"), VerticalScroll(id="call")
        self.waiting = Waiting(on, wanted, self._changed)
        self.shown: Shown | None = None
        self.failed: HoldfastError | None = None
        self._ahead_ms = 0
        self._drawing = False
        self._painted = False

    def compose(self) -> ComposeResult:
        """The line about the whole, the list, a call, and the keys."""
        yield self._status
        with Horizontal(id="both"):
            yield self.call_list
            with self._pane:
                yield self._text
        yield Footer(compact=True)

    def on_mount(self) -> None:
        """Follow what waits."""
        self.call_list.focus()
        self.run_worker(self._follow(), exit_on_error=True)
        self.set_interval(TICK_S, self._tick)

    def now(self) -> int:
        """The store's time in ms UTC, as far as it is known."""
        return wall_ms() + self._ahead_ms

    async def _follow(self) -> None:
        try:
            self._ahead_ms = await self._on.now() - wall_ms()
            await self.waiting.follow()
        except HoldfastError as error:
            self.failed = error
            self.exit()

    def _changed(self) -> None:
        """Draw the changes: the first at once, later ones together."""
        if not self._painted:
            self._painted = True
            self._draw()
        elif not self._drawing:
            self._drawing = True
            self.set_timer(SETTLE_S, self._draw)

    def _draw(self) -> None:
        self._drawing = False
        if not self.screen_stack:  # it ends
            return
        self.call_list.show(list(self.waiting.entries.values()))
        self._say()
        entry, shown = self.call_list.entry, self._chosen
        if entry is not None and shown is not None:
            if entry.ended:
                self._write()
            elif dict(entry.call) != dict(shown.call) and not entry.call.cut:
                self._look()  # somebody noted something
        self.refresh_bindings()

    def _say(self) -> None:
        waiting = sum(not one.ended for one in self.waiting.entries.values())
        marked = len(self.call_list.marked)
        parts = [f"{waiting}{' and more' if self.waiting.more else ''} wait" if waiting else "Nothing waits"]
        parts += [f"{marked} marked"] if marked else []
        said = Text(" · ".join(parts))
        if self.waiting.problem:
            said.append(f" · {clean(self.waiting.problem)}", "bold red")
        self._status.update(said)

    def _tick(self) -> None:
        if self.waiting.tidy("" if self.shown is None else self.shown.call.suspension_id):
            self._draw()
        self.call_list.refresh()

    def on_resize(self) -> None:
        """Wrap the words of others anew."""
        self.call_after_refresh(self._write)

    def on_call_list_moved(self) -> None:
        """Show the call under the cursor."""
        self._look()

    def _look(self) -> None:
        self.run_worker(self._looked(), exclusive=True, group="look")

    async def _looked(self) -> None:
        entry = self.call_list.entry
        if entry is None:
            self.shown = None
            self._write()
            return
        if self.shown is not None and self.shown.call.suspension_id != entry.call.suspension_id:
            self.shown = None  # its keys must not decide another call
            self.refresh_bindings()
        fresh = self.shown is None
        try:
            self.shown = await look(self._on.client, entry.call)
        except StaleCall as stale:
            self.waiting.settle(entry.call.suspension_id, settled_as(stale.settled_by))
            self.shown = Shown(entry.call)
        except HoldfastError as error:
            self._text.update(Text(clean(message_of(error)), "red"))
            return
        self._write()
        if fresh:
            self._pane.scroll_home(animate=False)
        self.refresh_bindings()

    def _write(self) -> None:
        shown = self.shown
        if shown is None:
            self._text.update(Text(""))
            return
        self._text.update(text_of(shown, self.now(), self._ended(shown), self._text.size.width or NARROW))

    def _ended(self, shown: Shown) -> str:
        entry = self.waiting.entries.get(shown.call.suspension_id)
        return "" if entry is None else entry.ended

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002 - the base class's
        """Whether a key does something now; the foot of the screen shows those."""
        if len(self.screen_stack) > 1:
            return not any(isinstance(one, Binding) and one.action == action for one in self.BINDINGS)
        marked = bool(self.call_list.marked)
        if action in {"several", "mark"}:
            return marked if action == "several" else self.call_list.has_focus
        if action in {"open", "close"}:
            away = self.screen.has_class("opened") if self._narrow else not self.call_list.has_focus
            return away == (action == "close")
        if action in OFFERED_BY or action in OF_CALL:
            shown = self._chosen
            if shown is None or marked or self._ended(shown) or (self._narrow and not self.screen.has_class("opened")):
                return False
            if action == "scope":
                return takes_scope(shown.call)
            return action in OF_CALL or OFFERED_BY[action] in offered(shown.call)
        return True

    @property
    def _chosen(self) -> Shown | None:
        """The call under the cursor, if it is the one that is shown."""
        entry, shown = self.call_list.entry, self.shown
        same = entry is not None and shown is not None and entry.call.suspension_id == shown.call.suspension_id
        return shown if same else None

    @property
    def _narrow(self) -> bool:
        return self.size.width < WIDE

    def action_open(self) -> None:
        """Show the call under the cursor alone, on a narrow screen; and scroll it with the arrows."""
        self.screen.add_class("opened")
        self._pane.focus()
        self.call_after_refresh(self._write)  # in the width that it has now
        self.refresh_bindings()

    def action_close(self) -> None:
        """Go back to the list."""
        self.screen.remove_class("opened")
        self.call_list.focus()
        self.refresh_bindings()

    def action_mark(self) -> None:
        """Mark the call under the cursor, to decide several at once."""
        self.call_list.mark()
        self._say()
        self.refresh_bindings()

    def action_several(self) -> None:
        """Decide the marked calls."""
        calls = self.waiting.calls(list(self.call_list.marked))
        if len(calls) > MOST_AT_ONCE:
            self._tell(f"{len(calls)} are marked; mark at most {MOST_AT_ONCE}", bad=True)
            return

        def done(decided: bool | None) -> None:  # noqa: FBT001 - the signature of a screen's callback
            if decided:
                self.call_list.marked.clear()
            self._draw()

        self.push_screen(Several(self._on.client, calls, self.waiting.settle), done)

    def action_approve(self) -> None:
        """Approve the call."""
        self._ask("approve")

    def action_deny(self) -> None:
        """Deny the call, with a reason."""
        self._ask("deny")

    def action_fail(self) -> None:
        """Mark the call as failed."""
        self._ask("fail")

    def action_redispatch(self) -> None:
        """Run a lost call again."""
        self._ask("redispatch")

    def action_cancel(self) -> None:
        """Drop the call."""
        self._ask("cancel")

    def _ask(self, name: str) -> None:
        choice, hint = ASKED[name]
        made = choice.made
        if self._chosen is None or made is None:
            return
        call, key = self._chosen.call, uuid.uuid4().hex
        hint = hint or f"{kind_of(call).why}."

        async def decided(reason: str) -> str:
            if choice is FAIL and not reason.strip():
                return "Say what went wrong: the agent reads it."
            return await self._decided(call, made(reason), key)

        self._asking(f"{choice.says}: {headline(call)}", hint, decided)

    def action_snooze(self) -> None:
        """Hide the call for a while."""
        self._note("Not now", "For how long: 30m, 2h, 1d. Its deadline stays, and others see it.", self._snoozed, value="1h")

    def action_assign(self) -> None:
        """Take the call on, or give it back."""
        self._note("Take on", "Who takes it on. Empty: you; - gives it back.", self._assigned)

    def action_comment(self) -> None:
        """Write to the others who may decide the call."""
        self._note("Comment", "For the others who may decide it; the agent does not read it.", self._commented)

    def _note(self, title: str, hint: str, done: Callable[[AsyncPendingCall, str], Awaitable[str]], value: str = "") -> None:
        if self._chosen is not None:
            call = self._chosen.call
            self._asking(f"{title}: {headline(call)}", hint, lambda said: done(call, said), value)

    def _asking(self, title: str, hint: str, done: Callable[[str], Awaitable[str]], value: str = "") -> None:
        """Ask for a line until `done` with it gives no problem."""

        async def asked() -> None:
            problem, said = "", value
            while True:
                given = await self.push_screen_wait(Ask(title, hint, value=said, problem=problem))
                if given is None:
                    return
                said = given
                try:
                    problem = await done(given)
                except HoldfastError as error:
                    problem = clean(message_of(error))
                if not problem:
                    return

        self.run_worker(asked(), exclusive=True, group="decide")

    async def _snoozed(self, call: AsyncPendingCall, said: str) -> str:
        for_s = seconds_of(said.strip(), "TIME")
        await self._on.client.conversation(call.conversation_id).snooze(call, for_s)
        self.waiting.hide(call.suspension_id, self.now() + for_s * 1000)
        self._draw()
        self._tell(f"{headline(call)} is hidden for {clean(said.strip())}")
        return ""

    async def _assigned(self, call: AsyncPendingCall, said: str) -> str:
        taker: Any = {"": ..., "-": None}.get(said.strip(), said.strip())
        await self._on.client.conversation(call.conversation_id).assign(call, taker)
        return ""

    async def _commented(self, call: AsyncPendingCall, said: str) -> str:
        await self._on.client.conversation(call.conversation_id).comment(call, said)
        return ""

    def action_answer(self) -> None:
        """Answer the call."""
        self._sheet("Answer", AnswerSheet)

    def action_review(self) -> None:
        """Give a verdict."""
        self._sheet("Review", ReviewSheet)

    def action_scope(self) -> None:
        """Approve the call, and more like it."""
        self._sheet("Approve, and allow later calls", ScopeSheet)

    def _sheet(self, title: str, sheet: type[Sheet]) -> None:
        if self._chosen is not None:
            call = self._chosen.call
            self.push_screen(sheet(f"{title}: {headline(call)}", call, self._decided))

    def action_edit(self) -> None:
        """Edit the arguments in the person's editor, and approve what comes of it."""
        if self._chosen is not None:
            self.run_worker(self._edited(self._chosen.call), exclusive=True, group="decide")

    async def _edited(self, call: AsyncPendingCall) -> None:
        text, key = as_json(call.arguments) + "\n", uuid.uuid4().hex
        hint = "Enter approves these arguments; the line is a reason, for the log."
        problem = ""
        while True:
            try:
                text = await edited(self, text, ".json")
                arguments = jsontext.loads(text)
            except (InvalidInput, jsontext.NotJson) as error:
                self._tell(f"Nothing was decided: {error}", bad=True)
                return
            said = Text()
            for line in difference(call.arguments, arguments):
                mark, style = {"same": ("  ", "dim"), "removed": ("- ", "red"), "added": ("+ ", "green")}[line.change]
                said.append(f"{mark}{line.text}\n", style)
            if not said.plain:
                self._tell("Nothing was changed, and nothing decided")
                return
            reason = await self.push_screen_wait(Ask(f"Approve edited: {headline(call)}", hint, body=said, problem=problem))
            if reason is None:
                return
            if not isinstance(arguments, dict):
                problem = "The arguments must be a JSON object."
                continue
            problem = await self._decided(call, Approve(arguments, reason=reason), key)
            if not problem:
                return
            key = uuid.uuid4().hex  # the next text is another decision

    async def _decided(self, call: AsyncPendingCall, decision: Decision, key: str) -> str:
        """Decide a call; gives the problem, or nothing. What others decided before is said in the call's place."""
        try:
            receipt = await call.resolve(decision, decision_id=key)
        except StaleCall as stale:
            self.waiting.settle(call.suspension_id, f"{settled_as(stale.settled_by)} before")
            self._tell(f"Too late: {headline(call)} was {settled_as(stale.settled_by)} before", bad=True)
        except HoldfastError as error:
            return clean(message_of(error))
        else:
            self._recorded(call, decision, receipt)
        self._draw()
        return ""

    def _recorded(self, call: AsyncPendingCall, decision: Decision, receipt: Receipt) -> None:
        if waits := outcome(receipt):
            self._tell(f"{headline(call)}: {waits}")
            return
        said = {"verdict": str(decision.verdict)} if isinstance(decision, Review) else None
        done = settled_as(type(decision).__name__.lower(), said)
        self.waiting.settle(call.suspension_id, f"{done} by you")
        self._tell(f"{headline(call)} was {done}")

    def _tell(self, text: str, *, bad: bool = False) -> None:
        self.notify(clean(text), severity="error" if bad else "information", markup=False)
