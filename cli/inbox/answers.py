"""The sheet of an answer: fields for its schema, or its questions one by one."""

from collections.abc import Iterator, Mapping, Sequence

from textual.containers import Vertical
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Checkbox, Input, RadioButton, RadioSet, Select, SelectionList, Static, TextArea
from textual.widgets.selection_list import Selection

from holdfast.cli.display import clean_block
from holdfast.client.inbox.choices import ANSWER
from holdfast.client.inbox.fields import ABSENT, FEW, Field, FieldKind, Fields
from holdfast.client.inbox.filled import Filled, blank
from holdfast.client.inbox.form import Form
from holdfast.client.results import AsyncPendingCall
from holdfast.conversation.terms.questions import check
from holdfast.errors import InvalidDecision

from .dialogs import Decide, Sheet, plain

NOTHING = "no answer"
_LINES = (FieldKind.LINES, FieldKind.ITEMS, FieldKind.JSON, FieldKind.ANY)
_SAYS = {FieldKind.ITEMS: "one in each line", FieldKind.JSON: "JSON", FieldKind.INTEGER: "a whole number"}


class AnswerSheet(Sheet):
    """An answer. Questions stand one by one: ctrl+s goes to the next, and sends all after the last; Escape goes back."""

    def __init__(self, title: str, call: AsyncPendingCall, decide: Decide) -> None:
        super().__init__(title, call, decide)
        self._place = 0

    @property
    def _fresh(self) -> Fields:
        """The empty fields; their problems are those of one look."""
        return blank(self.call, True, edited=False).answer or Fields.of(None)

    def fields(self) -> Iterator[Widget]:
        """A field for each part of the answer; of questions only one is seen."""
        root = self._fresh.root
        if self.call.questions is None:
            yield _drawn(root)
            return
        for number, one in enumerate(root.inner):
            box = _drawn(one, f"Question {number + 1} of {len(root.inner)}\n")
            box.display = number == self._place
            box.add_class("question")
            yield box

    def said(self) -> Mapping[str, Sequence[str]]:
        """See `Sheet`."""
        fields = self._fresh
        found = {"decision": [ANSWER.name], "layout": [fields.layout]}
        for one in fields:
            if one.kind is not FieldKind.GROUP:
                found[one.name] = self._values(one)
            if one.kind is FieldKind.ANY and self.query_one(f"#{_id(one)}-json", Checkbox).value:
                found[one.mark] = ["yes"]
        return found

    async def action_send(self) -> None:
        """See `Sheet`; of questions, judge this one and go to the next."""
        questions = self.call.questions
        if questions is not None:
            fields = self._fresh.filled(Form(self.said()))
            one = fields.root.inner[self._place]
            value = Fields(one).value()
            try:
                if not one.problem:
                    check([questions[self._place]], {} if value is ABSENT else {one.key: value})
            except InvalidDecision as error:
                one.problem = f"{error.problem}: {error.fix}"
            self.tell(one.problem)
            if one.problem:
                return
            if self._place + 1 < len(questions):
                self._turn(1)
                return
        await super().action_send()

    def action_back(self) -> None:
        """Go to the question before, or decide nothing."""
        if self._place:
            self._turn(-1)
        else:
            super().action_back()

    def _turn(self, by: int) -> None:
        self._place += by
        for number, box in enumerate(self.query(".question")):
            box.display = number == self._place
        self.screen.set_focus(next(one for one in list(self.query(".question"))[self._place].query("*") if one.focusable))

    def blamed(self, filled: object) -> None:
        """Show each problem beside its field."""
        fields = filled.answer if isinstance(filled, Filled) and filled.answer is not None else ()
        for one in fields:
            self.query_one(f"#{_id(one)}-problem", Static).update(Content(clean_block(one.problem)))

    def _values(self, one: Field) -> list[str]:
        widget = self.query_one(f"#{_id(one)}")
        match widget:
            case Input():
                return [widget.value]
            case TextArea():
                return [widget.text]
            case SelectionList():
                return list(widget.selected)
            case RadioSet():
                return [dict(enumerate(value for value, _ in one.choices)).get(widget.pressed_index, "")]
            case Select() if not widget.is_blank():
                return [str(widget.value)]
            case _:
                return [""]


def _id(one: Field) -> str:
    return f"field-{one.number}"


def _drawn(one: Field, head: str = "") -> Vertical:
    """A field with its label, its hint and the place of its problem."""
    mark = " (needed)" if one.needed or (one.required and one.kind is not FieldKind.GROUP) else ""
    says = "; ".join(filter(None, (one.hint, _SAYS.get(one.kind, ""))))
    parts: list[Widget] = [plain(f"{head}{one.label}{mark}", classes="label")]
    parts += [plain(says, classes="hint")] if says else []
    parts += [_drawn(inner) for inner in one.inner] if one.kind is FieldKind.GROUP else _controls(one)
    return Vertical(*parts, plain("", classes="problem", name=f"{_id(one)}-problem"), classes="field")


def _controls(one: Field) -> list[Widget]:
    name = _id(one)
    if one.kind is FieldKind.CHOICES:
        chosen = one.chosen
        return [
            SelectionList(
                *(Selection(Content(says), value, value in chosen) for value, says in one.choices), compact=True, id=name
            )
        ]
    if one.kind in (FieldKind.CHOICE, FieldKind.FLAG):
        if len(one.choices) > FEW:
            options = [(Content(says), value) for value, says in one.choices]
            return [Select(options, prompt=NOTHING, value=one.text or Select.NULL, compact=True, id=name)]
        buttons = [RadioButton(Content(says), value=value == one.text) for value, says in one.choices]
        optional = [] if one.required or one.needed else [RadioButton(Content(NOTHING))]
        return [RadioSet(*buttons, *optional, compact=True, id=name)]
    if one.kind in _LINES:
        as_json = [Checkbox("It is JSON", value=one.json, compact=True, id=f"{name}-json")] if one.kind is FieldKind.ANY else []
        return [TextArea(one.text, compact=True, id=name), *as_json]
    return [Input(one.text, compact=True, id=name)]
