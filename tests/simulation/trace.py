"""What happened, one line each: kept unformatted, since of thousands of simulations only the failed ones are read."""

from holdfast.conversation import Resolve, ResolveMany, Send, Start, When

from .loop import PROCESS


class Trace:
    """Lines `t=12.345 actor-3    appends c-1 4->7 run_scheduled ...`."""

    def __init__(self, loop):
        self._loop = loop
        self._lines = []

    def note(self, text, *args, who=None):
        self._lines.append((self._loop.time(), who or PROCESS.get(self._loop.judge).name, text, args))

    def __len__(self):
        return len(self._lines)

    def lines(self):
        return [f"t={at:<8.3f} {who:<12} {text % args if args else text}" for at, who, text, args in self._lines]


def shown(command):
    """What a client asks, in a few words."""
    match command:
        case Resolve():
            return f"{command.ruling.kind} {command.tool_call_id} ({command.suspension_id}) as {command.decision_id}"
        case Send() if command.when is not When.QUEUE or command.at:
            return f"{command.kind} {command.message_id} ({command.when}, at {command.at})"
        case Send() | Start():
            return f"{command.kind} {command.message_id}"
        case ResolveMany():
            return "; ".join(f"{one.ruling.kind} {one.suspension_id} as {one.decision_id}" for one in command.decisions)
        case _:
            return f"{command.kind} {command.request_id}"
