"""A conversation as a client sees it that carries out its calls."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, Unpack
from uuid import uuid4

from holdfast.conversation import ClaimReceipt, OnDetach, Receipt
from holdfast.errors import InvalidInput

from . import verbs
from .gateway import Gateway, asked
from .operation import Verb, check_suspension
from .results import PendingCall

if TYPE_CHECKING:
    from .attached import AsyncAttached
    from .handlers import ClientHandler

R = TypeVar("R")


class HowFar(TypedDict, total=False):
    """What a report of progress may say beside its value."""

    message: str | None
    status: str | None
    loaded: float | None
    total: float | None


class Executing:
    """What a client that executes calls does with one conversation."""

    def __init__(self, gateway: Gateway, conversation_id: str, *, receipt: Receipt | None = None) -> None:
        self._gateway = gateway
        self.id = conversation_id
        self.receipt = receipt

    def __repr__(self) -> str:
        return f"Conversation({self.id!r})"

    def attach(
        self,
        handlers: "Mapping[str, ClientHandler]",
        *,
        client_id: str | None = None,
        on_detach: OnDetach | str = OnDetach.KEEP,
    ) -> "AsyncAttached":
        """A client that carries out calls of this conversation, for `async with ... as attached`.

        It is present within the block, where `await attached.serve()` carries out calls until the conversation has ended.

        Args:
            handlers: By tool, a function of a call's arguments and a `ClientContext`, async or not (then it runs in a thread).
                What it returns, a JSON value, is the call's result; what it raises is the call's error.
            client_id: The client's id, in the name space of its principal, for one program at a time; by default a random one.
                With the same id again, a program first gives back what it had claimed.
            on_detach: What becomes of what waits for the client once it leaves. `keep`: others carry it out. `cancel`: its
                claims are cancelled after 5 s, and so is what its principal alone may decide, unless another client of that
                principal is attached.

        Raises:
            InvalidInput: A handler, the id or `on_detach` cannot be used.
            TooManyClients: 64 other clients are attached, or 32 of the same principal (raised at the beginning of the block).
        """
        from .attached import AsyncAttached  # noqa: PLC0415 - only clients that execute need it
        from .handlers import handlers_of  # noqa: PLC0415 - as above

        handlers, name = handlers_of(handlers), uuid4().hex if client_id is None else client_id
        given = verbs.ATTACH.checked({"client_id": name, "tools": list(handlers), "on_detach": on_detach})
        ids = {"client_id": given["client_id"], "on_detach": given["on_detach"]}
        return AsyncAttached(self._gateway, self.id, handlers, **ids)

    async def claim(
        self,
        call: PendingCall[Any] | str,
        client_id: str,
        *,
        on_detach: OnDetach | str = OnDetach.KEEP,
        request_id: str | None = None,
    ) -> ClaimReceipt:
        """Claim a call that waits for a client, before it is carried out; `attach` does this by itself.

        From then on only this client answers it (`resolve(..., client_id=)`) or gives it back, until it is gone for 15 s.
        `call` may be the id of the call's suspension; `on_detach` is as in `attach`.

        Raises:
            StaleCall: Another client has claimed it (`reason` is `claimed`), or it waits no more.
            InvalidInput: The call waits for something else.
        """
        given = {"client_id": client_id, "on_detach": on_detach, "request_id": request_id}
        return await self._asked(verbs.CLAIM, **self._noted(call), **given)

    async def give_back(
        self,
        call: PendingCall[Any] | str,
        client_id: str,
        *,
        began: bool = True,
        reason: str = "",
        request_id: str | None = None,
    ) -> Receipt:
        """Give a claimed call back. If its handler `began`, the tool's `on_lost` decides as if a worker had lost the run.

        `call` may be the id of the call's suspension; `reason` is for the log, at most 1 KiB.

        Raises:
            StaleCall: This client has not claimed it, or it waits no more.
        """
        given = {"client_id": client_id, "began": began, "reason": reason, "request_id": request_id}
        return await self._asked(verbs.GIVE_BACK, **self._noted(call), **given)

    async def report_progress(
        self, call: PendingCall[Any] | str, client_id: str, value: Any = None, **how_far: Unpack[HowFar]
    ) -> bool:
        """Report the progress of a claimed call as a live event; whether anybody listens. See `ClientContext.report_progress`.

        Raises:
            StaleCall: This client has not claimed the call, or it waits no more.
            InvalidInput: The report is not JSON, or too large.
        """
        from holdfast.agent.context import check_progress  # noqa: PLC0415 - as above

        check_progress(value, **how_far)
        return await self._asked(verbs.REPORT_PROGRESS, **self._noted(call), client_id=client_id, value=value, **how_far)

    async def _asked(self, verb: Verb[R], **given: Any) -> R:
        return await asked(self._gateway, verb, conversation_id=self.id, **given)

    def _noted(self, call: PendingCall[Any] | str) -> dict[str, str | None]:
        shown = call.tool_call_id if isinstance(call, PendingCall) else None
        return {"suspension_id": suspension_of(call, self.id), "tool_call_id": shown or None}


def suspension_of(call: PendingCall[Any] | str, conversation_id: str) -> str:
    """The suspension of a pending call of this conversation, or the id itself, checked."""
    if isinstance(call, PendingCall):
        if call.conversation_id != conversation_id:
            problem = f"it is a call of {call.conversation_id!r:.80}"
            raise InvalidInput("call", problem, "use the conversation of the call: client.conversation(call.conversation_id)")
        call = call.suspension_id
    check_suspension(call, conversation_id)
    return call
