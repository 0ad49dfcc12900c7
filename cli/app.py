"""The command line as a whole: its commands, and the output and exit code of their errors."""

import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from holdfast.actors import logs
from holdfast.redaction import PLAIN

from . import errors
from .display import clean
from .options import everywhere

GROUPS = {
    "Begin": ("demo",),
    "Decide": (
        *("inbox", "pending", "approve", "deny", "answer", "review", "resolve"),
        *("assign", "comment", "snooze", "escalate", "link", "grants", "audit", "rules"),
    ),
    "Converse": (
        *("send", "message", "queue", "interrupt", "cancel", "compact", "end"),
        *("list", "show", "tree", "usage", "submit", "attach"),
    ),
    "Operate": ("problems", "outbox", "retry", "pause", "unpause", "top", "drain", "up", "down", "doctor", "reindex"),
    "Serve": ("serve", "keys"),
}
"""The commands in the order of the help, by group."""
_VERBS = (
    "assign",
    "comment",
    "snooze",
    "escalate",
    "link",
    "send",
    "message",
    "queue",
    "interrupt",
    "cancel",
    "compact",
    "end",
    "retry",
    "pause",
    "unpause",
)
_SHORT = ("approve", "deny", "answer", "review")
_MODULES = {"demo": "demo_command", "inbox": "inbox.command", "list": "conversations"}
_MODULES |= dict.fromkeys(_VERBS, "verbs") | dict.fromkeys(_SHORT, "short")
COMMANDS = {name: _MODULES.get(name, name) for group in GROUPS.values() for name in group}
"""Each command with its module, which has `run`, `VERBS`, or the `COMMANDS` below it."""
TARGETLESS = frozenset({"demo"})
"""Commands that run their own stack, and so do not take the options of `Where`."""


class Commands(TyperGroup):
    """The commands, each imported only when named, which keeps `holdfast pending` fast."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - the base class's signature
        """All names, in the order of the help."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002 - as above
        """The command of a name, None if there is none."""
        if cmd_name not in COMMANDS:
            self.commands = {name: _command(name) for name in COMMANDS}  # click suggests these for a misspelt name
            return None
        return _command(cmd_name)


def run(arguments: Sequence[str]) -> int:
    """Run the command in the arguments; gives its exit code. An expected error is one line on stderr."""
    logs.guard()
    as_json = "--json" in arguments
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # a terminal that cannot show a character is no reason to fail
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            code = typer.main.get_command(_app)(list(arguments) or ["--help"], prog_name="holdfast", standalone_mode=False)
        sys.stdout.flush()
    except Exception as error:
        known = errors.code_of(error)
        if known is None:
            raise  # a bug, whose traceback is needed
        errors.say(error, as_json=as_json)
        return known
    return code if isinstance(code, int) else errors.ExitCode.DONE


_HELP = {"help_option_names": ["-h", "--help"]}
_app = typer.Typer(cls=Commands, add_completion=False, pretty_exceptions_enable=False, context_settings=_HELP)


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    """Print a warning as one line, without its place in the code."""
    sys.stderr.write(f"{clean(PLAIN.redacted(str(message)))}\n")


def _version(wanted: bool) -> None:  # noqa: FBT001 - the signature of an option's callback
    if wanted:
        metadata = import_module("importlib.metadata")  # an import of 20 ms that only this option needs
        sys.stdout.write(f"holdfast {metadata.version('holdfast')}\n")
        raise typer.Exit


@_app.callback()
def holdfast(
    *, version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")] = False
) -> None:
    """Supervise conversations of LLM agents: a call that waits for a person is never lost, and never runs twice.

    Exit codes: 0 done, 1 failed, 2 bad input, 3 stale, 4 unreachable, 5 awaiting (submit, drain).
    """


def _command(name: str) -> Any:
    module = import_module(f".{COMMANDS[name]}", __package__)
    about = (module.__doc__ or "").partition(": ")[2]
    made = typer.Typer(add_completion=False, help=about[:1].upper() + about[1:], context_settings=_HELP)
    below = getattr(module, "COMMANDS", None)
    if below is not None:
        made.callback()(lambda: None)  # else typer leaves out the word of a command that stands alone
    for word, function in (below or {name: getattr(module, "VERBS", {}).get(name) or module.run}).items():
        made.command(word, context_settings=_HELP)(function if name in TARGETLESS else everywhere(function))
    found: Any = typer.main.get_command(made)
    found.name = name  # typer gives a group none
    found.rich_help_panel = next(group for group, names in GROUPS.items() if name in names)
    return _literal(found)


def _literal(command: Any) -> Any:
    """A command whose help wraps by the terminal's width, not as its source does, and shows square brackets as they are."""
    for one in (command, *command.params):
        if getattr(one, "help", None):
            one.help = "\n\n".join(" ".join(paragraph.split()) for paragraph in one.help.split("\n\n"))
            if "[" in one.help and getattr(command, "rich_markup_mode", None) == "rich":
                one.help = import_module("rich.markup").escape(one.help)  # an import that few commands need
    for below in getattr(command, "commands", {}).values():
        _literal(below)
    return command
