"""Several calls decided at once: all of them are listed first, then each has its own result."""

import asyncio
import uuid
from collections.abc import Callable, Sequence
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Footer, Input, RadioButton, RadioSet, Static

from holdfast.cli.display import clean
from holdfast.cli.errors import message_of
from holdfast.cli.hints import outcome
from holdfast.client import AsyncClient
from holdfast.client.inbox.choices import FAIL, Choice, settled_as
from holdfast.client.inbox.kinds import shared
from holdfast.client.results import AsyncPendingCall
from holdfast.errors import HoldfastError, StaleCall

from .dialogs import plain
from .shown import headline, quoted, what_of

SIDE_BY_SIDE = 8


class Several(ModalScreen[bool]):
    """The marked calls, whole, with the decisions that all of them take; then what became of each."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+s", "send", "Decide all of them"), Binding("escape", "back", "Back")]

    def __init__(self, client: AsyncClient, calls: Sequence[AsyncPendingCall], settled: Callable[[str, str], None]) -> None:
        super().__init__()
        self._client, self._named, self._settled = client, calls, settled
        self._calls: list[AsyncPendingCall] = []
        self._choices: list[Choice] = []
        self._key, self._done = uuid.uuid4().hex, False

    def compose(self) -> ComposeResult:
        """The list, and the decisions."""
        with Vertical(classes="dialog"):
            yield plain(f"Decide {len(self._named)} calls, each by itself", classes="title")
            yield plain("", classes="problem", name="problem")
            with VerticalScroll(classes="body"):
                yield Static(Content("reading them"), id="list")
            yield RadioSet(compact=True, id="choices")
            yield plain("Reason", classes="label")
            yield Input(compact=True, id="reason")
            yield Footer(show_command_palette=False, compact=True)

    async def on_mount(self) -> None:
        """Read the calls whole."""
        self.run_worker(self._read(), exclusive=True)

    async def _read(self) -> None:
        room = asyncio.Semaphore(SIDE_BY_SIDE)

        async def whole(call: AsyncPendingCall) -> AsyncPendingCall | HoldfastError:
            async with room:
                try:
                    return await self._client.pending_call(call.suspension_id, conversation_id=call.conversation_id)
                except HoldfastError as error:
                    return error

        found = await asyncio.gather(*(whole(call) for call in self._named))
        self._calls = [one for one in found if not isinstance(one, HoldfastError)]
        self._choices = shared(self._calls)
        said = Text()
        for call, one in zip(self._named, found, strict=True):
            said.append(f"{headline(call)}\n", "bold")
            if isinstance(one, HoldfastError):
                said.append(f"  {clean(message_of(one))}\n", "red")
            else:
                said.append(f"{quoted(one.prompt)}\n" if one.prompt else "")
                said.append(what_of(one))
            said.append("\n")
        self.query_one("#list", Static).update(said)
        if not self._choices:
            self._tell("No decision fits all of these: mark calls of one kind, or decide them one by one.")
            return
        choices = self.query_one("#choices", RadioSet)
        await choices.mount_all(
            RadioButton(Content(f"{one.says} ({'for the log' if one.read == 'log' else 'for the agents'})"))
            for one in self._choices
        )
        choices.focus()
        choices.action_next_button()

    def action_back(self) -> None:
        """Go back; the result is whether anything was decided."""
        self.dismiss(self._done)

    def action_send(self) -> None:
        """Decide each of them."""
        pressed = self.query_one("#choices", RadioSet).pressed_index
        reason = self.query_one("#reason", Input).value
        if self._done:
            return
        if pressed < 0:
            self._tell("Choose a decision.")
            return
        choice = self._choices[pressed]
        if choice is FAIL and not reason.strip():
            self._tell("Say what went wrong: the agents read it.")
            return
        self._done = True
        self._tell("")
        self.run_worker(self._decide(choice, reason), exclusive=True)

    async def _decide(self, choice: Choice, reason: str) -> None:
        if choice.made is None:
            return
        decision = choice.made(reason)
        try:
            found = await self._client.resolve_each([(call, decision) for call in self._calls], decision_id=self._key)
        except HoldfastError as error:  # a second try has the same key
            self._done = False
            self._tell(clean(message_of(error)))
            return
        said = Text()
        for call, one in zip(self._calls, found, strict=True):
            if isinstance(one, StaleCall):
                ended, style = f"was {settled_as(one.settled_by)} before", "yellow"
            elif isinstance(one, HoldfastError):
                ended, style = message_of(one), "red"
            elif waits := outcome(one):
                ended, style = waits, "yellow"
            else:
                ended, style = choice.done, "green"
                self._settled(call.suspension_id, f"{choice.done} by you")
            said.append(f"{headline(call)}\n", "bold")
            said.append(f"  {clean(ended)}\n", style)
        self.query_one("#list", Static).update(said)
        for name in ("#choices", "#reason", ".label"):
            self.query_one(name).display = False

    def _tell(self, problem: str) -> None:
        self.query_one("#problem", Static).update(Content(problem))
