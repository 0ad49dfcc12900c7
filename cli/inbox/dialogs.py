"""Questions over the list: one line, or a sheet with several fields that becomes a decision."""

import uuid
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Checkbox, Footer, Input, RadioButton, RadioSet, Select, Static, TextArea

from holdfast.cli.display import clean_block
from holdfast.client.inbox.choices import APPROVE, REVIEW, VERDICTS
from holdfast.client.inbox.filled import SCOPE, blank, read
from holdfast.client.inbox.form import Form
from holdfast.client.inbox.scopes import LASTS, OWN
from holdfast.client.results import AsyncPendingCall
from holdfast.conversation import Decision, Level
from holdfast.errors import InvalidInput

from .editor import edited

Decide = Callable[[AsyncPendingCall, Decision, str], Awaitable[str]]
"""Makes a decision under a key; gives the problem, or nothing."""


def plain(text: str, *, classes: str = "", name: str | None = None) -> Static:
    """A text as it is, without markup."""
    return Static(Content(text), classes=classes, id=name)


class Ask(ModalScreen[str | None]):
    """A question with one line for the answer. Enter gives it, Escape gives None."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss", "Back", show=True)]

    def __init__(self, title: str, hint: str, *, value: str = "", body: Text | None = None, problem: str = "") -> None:
        super().__init__()
        self._title, self._hint, self._value, self._body, self._problem = title, hint, value, body, problem

    def compose(self) -> ComposeResult:
        """The question, what it is about, and the line."""
        with Vertical(classes="dialog"):
            yield plain(self._title, classes="title")
            if self._body is not None:
                with VerticalScroll(classes="body"):
                    yield Static(self._body)
            if self._problem:
                yield plain(self._problem, classes="problem")
            yield Input(self._value)
            yield plain(f"{self._hint} Enter: go on. Escape: back.", classes="hint")

    def on_mount(self) -> None:
        """Type at once."""
        self.query_one(Input).focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Enter gives the line."""
        self.dismiss(event.value)


class Sheet(ModalScreen[None]):
    """Several fields that become one decision: ctrl+s sends it, and the sheet stays until it is recorded."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s", "send", "Send"),
        Binding("ctrl+e", "editor", "Your editor"),
        Binding("escape", "back", "Back"),
    ]

    def __init__(self, title: str, call: AsyncPendingCall, decide: Decide) -> None:
        super().__init__()
        self._title, self.call, self._decide, self._key = title, call, decide, uuid.uuid4().hex

    def compose(self) -> ComposeResult:
        """The title, the problem if there is one, and the fields."""
        with Vertical(classes="dialog"):
            yield plain(self._title, classes="title")
            yield plain("", classes="problem", name="problem")
            with VerticalScroll(classes="fields", can_focus=False):
                yield from self.fields()
            yield Footer(show_command_palette=False, compact=True)

    def fields(self) -> Iterator[Widget]:
        """The widgets of the fields."""
        raise NotImplementedError

    def said(self) -> Mapping[str, Sequence[str]]:
        """The form's values by the names of its fields."""
        raise NotImplementedError

    def tell(self, problem: str) -> None:
        """Show a problem, or none."""
        self.query_one("#problem", Static).update(Content(clean_block(problem)))

    def on_mount(self) -> None:
        """The keys follow from the fields."""
        self.refresh_bindings()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002 - the base class's
        """The editor is for texts of several lines."""
        return action != "editor" or bool(self.query(TextArea))

    def action_back(self) -> None:
        """Decide nothing."""
        self.dismiss(None)

    async def action_send(self) -> None:
        """Make the decision of what was filled in."""
        filled, decision = read(self.call, True, Form(self.said()))
        if decision is None:
            self.blamed(filled)
            self.tell(filled.problem)
            return
        self.tell("")
        problem = await self._decide(self.call, decision, self._key)
        if problem:
            self.tell(problem)
        else:
            self.dismiss(None)

    def blamed(self, filled: object) -> None:
        """Show the problems of single fields."""

    def action_editor(self) -> None:
        """Take the text with the cursor to the person's editor."""
        area = self.focused if isinstance(self.focused, TextArea) else next(iter(self.query(TextArea)), None)
        if area is not None:
            self.run_worker(self._in_editor(area), exclusive=True)

    async def _in_editor(self, area: TextArea) -> None:
        try:
            area.text = (await edited(self.app, area.text, ".md")).rstrip("\n")
        except InvalidInput as error:
            self.tell(str(error))


class ReviewSheet(Sheet):
    """A review's verdict, with notes."""

    def fields(self) -> Iterator[Widget]:
        """The verdicts, and the notes."""
        yield RadioSet(*(RadioButton(Content(one.says)) for one in VERDICTS.values()), compact=True, id="verdict")
        yield plain("Notes, for the agent; needed to send it back: what is to be revised.", classes="label")
        yield TextArea(compact=True, id="notes")

    def said(self) -> Mapping[str, Sequence[str]]:
        """See `Sheet`."""
        pressed = self.query_one("#verdict", RadioSet).pressed_index
        verdict = "" if pressed < 0 else list(VERDICTS)[pressed]
        return {"decision": [REVIEW.name], "verdict": [verdict], "reason": [self.query_one("#notes", TextArea).text]}


class ScopeSheet(Sheet):
    """An approval, and what may run without asking from now on."""

    def fields(self) -> Iterator[Widget]:
        """The ready scopes, the fields of another one, for how long, and why."""
        scope = blank(self.call, True, edited=False).scope
        ready = () if scope is None else scope.ready
        own = scope if scope is not None and ready else None
        yield plain("What may run without asking from now on", classes="label")
        buttons = [RadioButton(Content(f"{one.kind} {one.value} (up to {one.level.value})")) for one, _ in ready]
        yield RadioSet(*buttons, RadioButton(Content("what the fields below say")), compact=True, id="scope")
        yield plain("For how long", classes="label")
        yield Select(
            [(Content(says), name) for name, (says, _) in LASTS.items()],
            value="1h",
            allow_blank=False,
            compact=True,
            id="lasts",
        )
        yield plain("Kind, such as tool, path, domain, command", classes="label")
        yield Input("" if own is None else own.kind, compact=True, id="kind")
        yield plain("Pattern, such as src/**", classes="label")
        yield Input("" if own is None else own.pattern, compact=True, id="pattern")
        level = Level.WRITE.value if own is None else own.level
        yield plain("Up to which level", classes="label")
        yield Select([(one.value, one.value) for one in Level], value=level, allow_blank=False, compact=True, id="level")
        yield Checkbox(Content("the pattern may cover every value of its kind"), compact=True, id="everything")
        yield plain("Reason, for the log", classes="label")
        yield Input(compact=True, id="note")

    def said(self) -> Mapping[str, Sequence[str]]:
        """See `Sheet`."""
        scopes = self.query_one("#scope", RadioSet)
        last = len(scopes.query(RadioButton)) - 1
        chosen = "" if scopes.pressed_index < 0 else OWN if scopes.pressed_index == last else str(scopes.pressed_index)
        found = {name: [self.query_one(f"#{name}", Input).value] for name in ("kind", "pattern", "note")}
        found |= {name: [str(self.query_one(f"#{name}", Select).value)] for name in ("lasts", "level")}
        if self.query_one("#everything", Checkbox).value:
            found["everything"] = ["yes"]
        return found | {"decision": [APPROVE.name], SCOPE: [chosen]}

    def blamed(self, filled: object) -> None:
        """The problems of the scope stand together."""
        scope = getattr(filled, "scope", None)
        if scope is not None and scope.problems:
            setattr(filled, "problem", "; ".join(f"{name}: {why}" for name, why in scope.problems.items()))  # noqa: B010
