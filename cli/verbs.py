"""The small commands, each a row of one table: its options, the client's method that it calls, and its output."""

import contextlib
import inspect
import sys
import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import typer

from holdfast.client import MessageStatus, QueuedMessage, SummaryStatus
from holdfast.conversation import Origin, Principal, Receipt, SuspensionKind, When
from holdfast.conversation.ids import check_conversation_id, is_compaction_id
from holdfast.conversation.terms.parts import FilePart, ImagePart, TextPart
from holdfast.errors import ConversationNotFound, InvalidInput, InvalidMessage, StoreError

from .display import Said, clean, clean_block, span, tell
from .errors import ExitCode
from .hints import command, paused, whose
from .options import ConversationId, Key, OfConversation, Suspension, Where, chosen, seconds_of, words_of
from .session import Reached, within

MOST_BYTES = 64 * 1024 * 1024
"""The most bytes that are read from a pipe; the agent's limits bound the message itself."""
SHOWN_CHARS = 80
"""How many characters of a waiting message are listed."""
VERBS: dict[str, Callable[..., Said]] = {}
"""The commands by name, as `options.everywhere` takes them."""


Verb = Callable[..., Awaitable[Said]]


def verb(*, key: str = "", before: Callable[[dict[str, Any]], None] | None = None) -> Callable[[Verb], None]:
    """Make a coroutine of a `Reached` and its options the command of its name.

    `key` is the option that makes the command safe to repeat: its value, else a random one, is printed. `before` checks or
    completes the options, or asks the person, before anything is reached.
    """

    def registered(asking: Verb) -> None:
        def run(where: Where, **given: Any) -> Said:
            if key and given[key] is None:
                given[key] = uuid.uuid4().hex
            if before is not None:
                before(given)
            said: Said = within(where, partial(asking, **given))
            data = said.data if isinstance(said.data, Mapping) else said.data.model_dump(mode="json")
            keyed = {**data, **({key: given[key]} if key else {})}
            return said._replace(data=keyed, indent=None)

        _, *parameters = inspect.signature(asking).parameters.values()
        where = inspect.Parameter("where", inspect.Parameter.POSITIONAL_ONLY, annotation=Where)
        run.__dict__["__signature__"] = inspect.Signature([where, *parameters], return_annotation=Said)
        option = f"--{key.replace('_', '-')}"
        repeated = f"\n\nThe printed id makes the command safe to repeat: with the same `{option} ID` it is recorded once."
        run.__doc__ = (inspect.getdoc(asking) or "") + (repeated if key else "")
        VERBS[asking.__name__] = run

    return registered


def recorded(receipt: Receipt) -> str:
    """Whether a request is recorded now, or was before."""
    return "was recorded before" if receipt.duplicate else "is recorded"


def _read(given: dict[str, Any]) -> None:
    """Replace the text `-` with the standard input, and images and files with their parts."""
    for name in ("image", "file"):
        given[name] = [_part(name, place) for place in given[name] or ()]
    _from_pipe(given)


def _from_pipe(given: dict[str, Any]) -> None:
    """Replace the text `-` with the standard input."""
    if given["text"] != "-":
        return
    data = sys.stdin.buffer.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise InvalidMessage("text", f"standard input has more than {MOST_BYTES} bytes", "send less, or a reference to it")
    try:
        given["text"] = data.decode()
    except UnicodeDecodeError as error:
        problem = f"standard input is not UTF-8 ({error.reason} at byte {error.start})"
        raise InvalidMessage("text", problem, "send text in UTF-8") from error


def _part(name: str, place: str) -> ImagePart | FilePart:
    """The part of an image or a file: of its https URL, or of what the file holds."""
    try:
        given = place if place.startswith("https://") else _whole(Path(place))
        if name == "image":
            return ImagePart.of(given)
        return FilePart.of(given, filename=Path(place).name if isinstance(given, bytes) else None)
    except OSError as error:
        raise InvalidMessage(name, f"{place} cannot be read ({error.strerror})", "give a file, or an https URL") from error
    except InvalidInput as error:
        raise InvalidMessage(name, f"{place}: {error.problem}", "give another file") from error


def _whole(file: Path) -> bytes:
    with file.open("rb") as opened:
        return opened.read(MOST_BYTES)


_At = Annotated[str | None, typer.Option(metavar="TIME", help="Queue it at this time: 2027-01-31T09:00:00+01:00.")]
_Priority = Annotated[int | None, typer.Option(help="Its place in the queue: 0 (first) to 255 (last); by default 128.")]
_Model = Annotated[str | None, typer.Option(help="The model of its turn, one that the agent allows.")]
_Temperature = Annotated[float | None, typer.Option(help="The temperature of its turn, as far as the agent allows.")]
_MaxTokens = Annotated[int | None, typer.Option(help="The most tokens of an answer in its turn, as far as the agent allows.")]
_TopP = Annotated[float | None, typer.Option(help="The top_p of its turn, as far as the agent allows.")]
_Effort = Annotated[str | None, typer.Option("--effort", help="The reasoning effort of its turn, one that the agent allows.")]
_Origin = Annotated[Origin, typer.Option(help="Where it comes from; shown and logged.")]


@verb(key="message_id", before=_read)
async def send(
    on: Reached,
    conversation: ConversationId,
    text: Annotated[str, typer.Argument(help="The message; - reads it from standard input.")],
    *,
    when: Annotated[When, typer.Option(help="What it does while a turn goes on or waits.")] = When.QUEUE,
    at: _At = None,
    priority: _Priority = None,
    origin: _Origin = Origin.USER,
    model: _Model = None,
    temperature: _Temperature = None,
    max_tokens: _MaxTokens = None,
    top_p: _TopP = None,
    reasoning_effort: _Effort = None,
    message_id: Key = None,
    image: Annotated[
        list[str] | None, typer.Option(help="An image to send with it: a file, or an https URL; again for more.")
    ] = None,
    file: Annotated[
        list[str] | None, typer.Option(help="A file to send with it: a PDF or a text, or an https URL; again for more.")
    ] = None,
) -> Said:
    """Send the user's next message to a conversation; done once it is durable. During a turn, messages queue in order.

    With `--when reject` it is refused during a turn, with `steer` it joins the turn before the next model call, and with
    `interrupt` it cancels the turn and what is queued. `--model`, `--temperature` and the like are for the turn of this message
    alone.
    """
    given = {"model": model, "temperature": temperature, "max_tokens": max_tokens, "top_p": top_p}
    overrides = chosen({**given, "reasoning_effort": reasoning_effort}) or None
    attached = [*(image or ()), *(file or ())]
    content = [TextPart.of(text), *attached] if attached else text
    more: dict[str, Any] = {"when": when, "at": at, "origin": origin, "overrides": overrides} | (
        {} if priority is None else {"priority": priority}
    )
    receipt = await on.client.conversation(conversation).send(content, message_id=message_id, **more)
    return Said(receipt, [f"Message {message_id} to {receipt.conversation_id} {recorded(receipt)} (seq {receipt.seq})."])


BECAME = {
    MessageStatus.QUEUED: "is queued",
    MessageStatus.RUNNING: "is being answered, or waits for somebody",
    MessageStatus.COMPLETED: "was answered",
    MessageStatus.FAILED: "could not be answered",
    MessageStatus.CANCELLED: "was not answered: its turn was cancelled",
    MessageStatus.DROPPED: "was not answered: the conversation ended before",
    MessageStatus.DELAYED: "waits for its time",
    MessageStatus.SUPERSEDED: "is not answered: an interruption came before",
    MessageStatus.WITHDRAWN: "was withdrawn",
}


@verb(key="request_id", before=_from_pipe)
async def interrupt(
    on: Reached,
    conversation: ConversationId,
    text: Annotated[str | None, typer.Argument(help="The message to go on with; - reads it from standard input.")] = None,
    *,
    origin: _Origin = Origin.USER,
    request_id: Key = None,
) -> Said:
    """Cancel the current turn and what is queued, and go on with a message, if one is given."""
    done = await on.client.conversation(conversation).interrupt(text, origin=origin, request_id=request_id)
    what = "There was no turn to cancel" if done.turn_id is None else f"{_named(done.turn_id)} is cancelled"
    gone = f"; superseded: {', '.join(done.superseded)}" if done.superseded else ""
    then = "" if text is None else f"; message {request_id} {'was recorded before' if done.duplicate else 'is recorded'}"
    return Said(done, [f"{what}{gone}{then} (request {request_id} to {done.conversation_id})."])


@verb()
async def queue(
    on: Reached,
    conversation: ConversationId,
    *,
    withdraw: Annotated[str | None, typer.Option(metavar="ID", help="Withdraw this message; it is never answered.")] = None,
    move: Annotated[str | None, typer.Option(metavar="ID", help="Give this message the time or priority.")] = None,
    at: _At = None,
    priority: _Priority = None,
) -> Said:
    """List the messages that no turn has taken up yet; or withdraw one, or give it another time or priority."""
    found = on.client.conversation(conversation)
    if withdraw is not None and move is not None:
        raise InvalidInput("--move", "it does not go with --withdraw", "leave one of them out")
    if move is None and (at is not None or priority is not None):
        raise InvalidInput("--at and --priority", "no message is named", "name one with --move ID")
    if withdraw is not None:
        await found.withdraw(withdraw)
    if move is not None:
        await found.reschedule(move, at=at, priority=priority)
    waiting, now = await found.queue(), await on.now()
    data = {"conversation_id": conversation, "items": [one.model_dump(mode="json") for one in waiting]}
    return Said(data, [_waiting(one, now) for one in waiting] or ["No message waits."])


def _waiting(one: QueuedMessage, now: int) -> str:
    """A line about a message that waits."""
    when = "joins the turn" if one.steers else "is queued" if one.due_at is None else f"is queued in {span(one.due_at - now)}"
    text = clean(one.text[:SHOWN_CHARS].replace("\n", " "))
    return f"{one.message_id}  {when}, priority {one.priority}, from {one.origin}: {text}"


def _named(turn_id: str) -> str:
    """A turn, or a summary in place of one, as the subject of a sentence."""
    return f"{'The summary' if is_compaction_id(turn_id, last=sys.maxsize) else 'Turn'} {turn_id}"


_GOOD = frozenset({SummaryStatus.WAITING, SummaryStatus.COMPACTED})


@verb(key="request_id")
async def compact(
    on: Reached,
    conversation: ConversationId,
    *,
    wait: Annotated[float, typer.Option(metavar="SECONDS", help="Wait up to SECONDS for the summary.")] = 120,
    request_id: Key = None,
) -> Said:
    """Have the oldest messages summarised, whatever the agent's threshold: at once, or before the turn's next model call."""
    found = on.client.conversation(conversation)
    await found.compact(request_id=request_id)
    if wait > 0:
        await found.wait(timeout_s=wait)
    summary = await found.summary(request_id or "")
    match summary.status:
        case SummaryStatus.COMPACTED:
            fewer = f"about {summary.tokens_before} tokens before, {summary.tokens_after} with it"
            said = f"A summary stands for the first {summary.messages} messages of {conversation}: {fewer}"
        case SummaryStatus.FAILED:
            said = f"{conversation} has not been summarised: {clean(summary.error or '')} ({summary.reason})"
        case SummaryStatus.WAITING:
            said = f"The summary of {conversation} is not made yet"
        case _:
            said = f"The summary of {conversation} was {summary.status}"
    code = ExitCode.DONE if summary.status in _GOOD else ExitCode.FAILED
    return Said({"conversation_id": conversation, **summary.model_dump()}, [f"{said} (request {request_id})."], code=code)


@verb()
async def message(
    on: Reached,
    conversation: ConversationId,
    message: Annotated[str, typer.Argument(help="The message's id, as `holdfast send` and receipts show it.")],
) -> Said:
    """Show what became of a message: its status, its turn, and the reply or the error."""
    found, now = await on.client.conversation(conversation).message(message), await on.now()
    turn = "" if found.turn_id is None else f" (turn {found.turn_id}, try {found.attempts})"
    said = f"Message {found.message_id}, sent {span(now - found.accepted_at)} ago, {BECAME[found.status]}{turn}."
    texts = [clean_block(text).split("\n") for text in (found.reply, found.error) if text]
    return Said({"conversation_id": conversation, **found.model_dump()}, [said, *chain(*texts)])


@verb(key="request_id")
async def cancel(
    on: Reached,
    conversation: ConversationId,
    *,
    turn: Annotated[str | None, typer.Option(metavar="ID", help="Cancel only if this turn is still the current one.")] = None,
    wait: Annotated[float, typer.Option(metavar="SECONDS", help="Wait up to SECONDS for running tools to stop.")] = 0,
    pending: Annotated[bool, typer.Option("--pending", help="Only the calls that wait; the turn goes on.")] = False,
    kind: Annotated[SuspensionKind | None, typer.Option(help="With --pending: only those that wait for this.")] = None,
    client: Annotated[
        str | None, typer.Option(metavar="ID", help="With --pending: only what waits for this client of yours.")
    ] = None,
    reason: Annotated[str, typer.Option(help="With --pending: why; the model reads it.")] = "",
    request_id: Key = None,
) -> Said:
    """Cancel the current turn of a conversation, with its pending calls. The next message begins another turn."""
    if pending and (turn is not None or wait):
        raise InvalidInput("--pending", "it leaves the turn alone", "leave --turn and --wait out")
    if not pending and (kind is not None or client is not None or reason):
        raise InvalidInput("--kind, --client and --reason", "they are for the calls that wait", "add --pending")
    found = on.client.conversation(conversation)
    if pending:
        done = await found.cancel_pending(kind, reason, client_id=client, request_id=request_id)
    else:
        done = await found.cancel(turn, wait_s=wait, request_id=request_id)
    calls = ", ".join(done.calls)
    if done.turn_id is None:
        what = "Nothing waits" if pending else "There was no turn to cancel"
    elif pending:
        what = f"Cancelled in turn {done.turn_id}, which goes on: {calls}"
    else:
        what = f"{_named(done.turn_id)} is cancelled" + (f", with {calls}" if calls else "")
    if done.running:
        what += f"; {', '.join(done.running)} still runs"
    before = "; this was recorded before" if done.duplicate else ""
    return Said(done, [f"{what} (request {request_id} to {done.conversation_id}{before})."])


def _confirm_end(given: dict[str, Any]) -> None:
    conversation = check_conversation_id(given["conversation"])
    if given["yes"]:
        return
    if not sys.stdin.isatty():
        raise InvalidInput("--yes", "an end is for good, and there is no terminal to confirm it on", "give --yes")
    tell(f"End {conversation} for good? It takes no message any more, and its pending calls are cancelled. [y/N] ")
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        sys.stderr.write("Nothing was done.\n")
        raise typer.Exit(1)


@verb(key="request_id", before=_confirm_end)
async def end(
    on: Reached,
    conversation: ConversationId,
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,  # noqa: ARG001 - for `before`
    request_id: Key = None,
) -> Said:
    """End a conversation for good: its turn and its pending calls are cancelled, and it takes no message any more.

    On a terminal the command asks first; elsewhere it needs --yes.
    """
    receipt = await on.client.conversation(conversation).end(request_id=request_id)
    ended = "had ended by this" if receipt.duplicate else "has ended"
    return Said(receipt, [f"{receipt.conversation_id} {ended} (request {request_id}, seq {receipt.seq})."])


@verb()
async def retry(on: Reached, conversation: ConversationId) -> Said:
    """Lift a conversation's quarantine, so that it is taken up again where it stood.

    A conversation is put in quarantine when its own work took process after process down, or when it cannot be read or
    carried on. `holdfast list --status quarantined` names them all, `holdfast show` says why. It needs Redis alone.
    """
    found, store = on.client.conversation(conversation), await on.store()
    if store is None:
        with contextlib.suppress(StoreError):  # its state may be unreadable
            await found.state()
    else:
        owner = await store.owner(conversation)  # as above
        if owner is None or not owner.started:
            raise ConversationNotFound(conversation)
    lifted = await found.retry()
    said = "is taken up again" if lifted else "is not in quarantine; nothing was done"
    return Said({"conversation_id": conversation, "lifted": lifted}, [f"{conversation} {said}."])


@verb(key="request_id")
async def assign(
    on: Reached,
    suspension: Suspension,
    *,
    to: Annotated[str | None, typer.Option(metavar="NAME", help="Who takes it on; by default you yourself.")] = None,
    nobody: Annotated[bool, typer.Option("--nobody", help="Give it back, so that nobody is assigned.")] = False,
    conversation: OfConversation = None,
    request_id: Key = None,
) -> Said:
    """Say who takes a pending call on. It decides nothing: all who may decide the call still may."""
    if nobody and to is not None:
        raise InvalidInput("--nobody", "it does not go with --to", "leave one of them out")
    call = await on.client.pending_call(suspension, conversation_id=conversation)
    taker: Any = "" if nobody else ... if to is None else to
    receipt = await on.client.conversation(call.conversation_id).assign(call, taker, request_id=request_id)
    what = "is given back" if nobody else "is yours" if to is None else f"is taken on by {to}"
    before = ", as was recorded before" if receipt.duplicate else ""
    said = f"{call.suspension_id} of {receipt.conversation_id} {what}{before} (seq {receipt.seq}, request {request_id})."
    return Said(receipt, [said])


@verb(key="request_id")
async def comment(
    on: Reached,
    suspension: Suspension,
    text: Annotated[str, typer.Argument(help="The comment.")],
    *,
    conversation: OfConversation = None,
    request_id: Key = None,
) -> Said:
    """Write to the others who may decide a pending call. The model does not read it, and it decides nothing."""
    call = await on.client.pending_call(suspension, conversation_id=conversation)
    receipt = await on.client.conversation(call.conversation_id).comment(call, text, request_id=request_id)
    place = f"{call.suspension_id} of {receipt.conversation_id}"
    return Said(receipt, [f"The comment on {place} {recorded(receipt)} (seq {receipt.seq}, request {request_id})."])


@verb(key="request_id")
async def snooze(
    on: Reached,
    suspension: Suspension,
    for_time: Annotated[str, typer.Argument(metavar="TIME", help="For how long, such as 2h; 0s shows it again.")],
    *,
    reason: Annotated[str, typer.Option(help="Why; the log keeps it.")] = "",
    conversation: OfConversation = None,
    request_id: Key = None,
) -> Said:
    """Hide a pending call from your own lists for a while. Its deadline stays, and others see it."""
    for_s = seconds_of(for_time, "TIME")
    call = await on.client.pending_call(suspension, conversation_id=conversation)
    receipt = await on.client.conversation(call.conversation_id).snooze(call, for_s, reason=reason, request_id=request_id)
    what = f"is hidden from your lists for {for_time}" if for_s else "is shown to you again"
    said = f"{call.suspension_id} of {receipt.conversation_id} {what} (seq {receipt.seq}, request {request_id})."
    return Said(receipt, [said])


@verb(key="request_id")
async def escalate(
    on: Reached,
    suspension: Suspension,
    to: Annotated[list[str], typer.Option(metavar="NAME", help="A role or id, role:cfo or id:ana; may be repeated.")],
    *,
    reason: Annotated[str, typer.Option(help="Why; the log keeps it.")] = "",
    conversation: OfConversation = None,
    request_id: Key = None,
) -> Said:
    """Let others decide a pending call, in the place of those who may now. Votes so far are void."""
    call = await on.client.pending_call(suspension, conversation_id=conversation)
    receipt = await on.client.conversation(call.conversation_id).escalate(call, to, reason=reason, request_id=request_id)
    place = f"{call.suspension_id} of {receipt.conversation_id}"
    return Said(receipt, [f"{place} is decided by {', '.join(to)} now (seq {receipt.seq}, request {request_id})."])


@verb()
async def link(
    on: Reached,
    suspension: Suspension,
    *,
    to: Annotated[str, typer.Option(metavar="NAME", help="Who decides by the link.")],
    role: Annotated[list[str] | None, typer.Option(help="A role of that principal that counts; again for more.")] = None,
    lasts: Annotated[str, typer.Option("--for", metavar="TIME", help="For how long it is valid: 24h, 7d.")] = "24h",
    decisions: Annotated[
        str | None,
        typer.Option(metavar="LIST", help="The decisions that it makes: approve,deny. By default what the call takes."),
    ] = None,
    conversation: OfConversation = None,
) -> Said:
    """Print a link by which a person decides a pending call without signing in. Whoever has the link acts as that person.

    The link shows the call, and decides it once. HOLDFAST_LINK_KEYS has the keys that sign links, HOLDFAST_PUBLIC_URL the
    address under which people reach the server. Over a server it takes a key with the scopes `decide` and `admin`.
    """
    found = await on.client.pending_call(suspension, conversation_id=conversation)
    kinds = None if decisions is None else [one.strip() for one in decisions.split(",")]
    who = Principal(to, roles=tuple(role or ()))
    made = await on.client.link(found, to=who, decisions=kinds, expires_s=seconds_of(lasts, "--for"))
    return Said(made, [made.url], f"by it, {to} decides {found.suspension_id} of {found.conversation_id} within {lasts}")


@verb()
async def pause(
    on: Reached,
    *,
    agent: Annotated[str | None, typer.Option(help="Only this agent's work.")] = None,
    reason: Annotated[str, typer.Option(help="The reason, shown with the pause.")] = "",
) -> Said:
    """Stop new work until `holdfast unpause`: turns, model calls and runs that have not begun wait, and nothing is lost.

    Work that has begun continues. Messages, decisions, cancellations, ends and deadlines are recorded as before. Once this
    command has ended, no new work begins. It needs Redis alone.

    With --json, `known` is false where no conversation has the agent, which may be misspelt.
    """
    made = await on.client.pause(agent, reason)
    known = agent is None or bool((await on.client.conversations(agent=agent, limit=1)).items)
    said = paused(made, await on.now())
    before = " It was paused before; nothing was changed." if made.duplicate else ""
    lifting = command(["unpause", *words_of({"--agent": agent})], on.where)
    unknown = "" if known else f"there is no conversation of an agent {agent!r} here"
    return Said(asdict(made) | {"known": known}, [f"{said}.{before}", f"To lift it: {lifting}"], unknown)


@verb()
async def unpause(
    on: Reached,
    *,
    agent: Annotated[str | None, typer.Option(help="Lift this agent's pause; without it, the namespace's.")] = None,
) -> Said:
    """Lift a pause: waiting work continues by itself. A pause of the namespace and those of agents are lifted one by one."""
    lifted, left, now = await on.client.unpause(agent), await on.client.paused(), await on.now()
    said = "was not paused; nothing was done" if lifted is None else "is no longer paused"
    data = {"lifted": None if lifted is None else asdict(lifted), "paused": [asdict(one) for one in left]}
    return Said(data, [f"New work of {whose(agent)} {said}.", *(f"Still: {paused(one, now)}." for one in left)])
