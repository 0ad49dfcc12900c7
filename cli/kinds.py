"""The terminal's texts for each kind of pending call: its title and frame, what is asked, and the options that resolve it."""

from collections.abc import Mapping
from dataclasses import dataclass

from holdfast.conversation import SuspensionKind


@dataclass(frozen=True, slots=True)
class Drawn:
    """The title, color and frame of a kind; its question, about a `tool` and an `action`; and the options that resolve it."""

    title: str
    color: str
    frame: str
    asks: str = ""
    takes: str = ""


KINDS: Mapping[SuspensionKind | None, Drawn] = {
    SuspensionKind.APPROVAL: Drawn(
        *("Approval", "yellow", "HEAVY", "May {tool} run with these arguments?"),
        "An approval takes --approve, --approve --arguments JSON (edited), or --deny REASON.",
    ),
    SuspensionKind.ELICITATION: Drawn(
        *("Question", "cyan", "ROUNDED", "Somebody is asked; the answer is the call's result."),
        "A question takes --answer JSON (text in double quotes), --ask (one by one), or --deny REASON.",
    ),
    SuspensionKind.CLIENT_EXEC: Drawn(
        *("For the client", "magenta", "DOUBLE", "A client is to run this; what it answers counts as untrusted."),
        "A client's call takes --answer JSON, or --fail ERROR.",
    ),
    SuspensionKind.LOST: Drawn(
        *("Lost", "red", "HEAVY"),
        "Find out whether {tool} took effect with these arguments: run it again, or give its outcome.",
        "A lost run takes --redispatch (run it again), --answer JSON (what it returned), or --fail ERROR.",
    ),
    SuspensionKind.REVIEW: Drawn(
        *("Review", "blue", "HEAVY", "{tool} asks somebody for a word before it goes on: {action}."),
        "A review takes --review allow, block or review (revise and ask again), with --notes TEXT.",
    ),
    None: Drawn("Unreadable", "red", "SQUARE"),
}
"""The key None is for a call of unreadable kind."""
