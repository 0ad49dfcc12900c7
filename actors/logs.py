"""The logs of Holdfast's processes: free of secrets, and no logged text can pose as a log line.

Lines are JSON or readable text. Both are formatted after the guard, so neither shows what it hides.
"""

import json
import logging
import sys
import threading
import traceback
import warnings
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, TextIO

from holdfast.redaction import PLAIN, Redaction
from holdfast.settings import LogForm, LogSettings
from holdfast.work_context import ABOUT

OURS = (
    "holdfast",
    *(f"holdfast.{name}" for name in ("actor", "agent", "client", "embedded", "persistence", "ray", "registry", "server")),
    *(f"holdfast.{name}" for name in ("courier", "server.access", "step", "sweeper", "worker", "workers")),
)
"""Holdfast's own loggers."""
OTHERS = (
    *("LiteLLM", "LiteLLM Router", "LiteLLM Proxy", "httpx", "openai._base_client", "anthropic._base_client"),
    *("asyncio", "concurrent.futures", "py.warnings"),
    *("opentelemetry.exporter.otlp.proto.http.trace_exporter", "opentelemetry.sdk._shared_internal", "opentelemetry.sdk.trace"),
)
"""Loggers of other libraries that log, in our processes, the errors of providers, collectors and the app's code."""
INDENT = "    "
ABOUT_RECORD = "holdfast_about"
"""The attribute of a guarded record that says what it is about: conversation, effect, request, trace."""
GUARDED = "holdfast_guarded"
"""The attribute of a guarded record that holds the redaction applied to it."""
MESSAGE = 8192
"""How many characters of a message are logged."""
TRACEBACK = 65_536


class Guard(logging.Filter):
    """A filter that makes each log record one line without secrets; the lines of a traceback are indented below it."""

    def __init__(self, redaction: Redaction = PLAIN) -> None:
        super().__init__()
        self._redaction = redaction

    def filter(self, record: logging.LogRecord) -> bool:
        """Redact the record's message, traceback and stack, once for each redaction, and let it pass."""
        if getattr(record, GUARDED, None) is self._redaction:
            return True
        try:
            message = record.getMessage()
        except Exception:  # noqa: BLE001 - an argument's `__str__` may raise anything, and a log line is no place to fail
            message = str(record.msg)
        record.msg, record.args = line(self._redaction.redacted(message, MESSAGE)), ()
        if record.exc_info and record.exc_info[0] is not None:
            record.exc_text = self._block("".join(traceback.format_exception(*record.exc_info)))
        record.exc_info = None  # a handler that formats the error anew, or sends it elsewhere, would show its secrets
        if record.stack_info:
            record.stack_info = self._block(record.stack_info)
        about = {name: variable.get() for name, variable in ABOUT.items()}
        shown = {name: line(self._redaction.redacted(value, MESSAGE)) for name, value in about.items() if value}
        setattr(record, ABOUT_RECORD, shown)
        setattr(record, GUARDED, self._redaction)
        return True

    def _block(self, text: str) -> str:
        return "\n".join(f"{INDENT}{line(one)}" for one in self._redaction.redacted(text, TRACEBACK).rstrip("\n").split("\n"))


def line(text: str) -> str:
    """The text on one line, with each unprintable character written as its escape."""
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape", "surrogatepass").decode("ascii") for char in text
    )


def guard(*others: str) -> None:
    """Guard Holdfast's own loggers and these, unless they are guarded already; for processes of clients."""
    for name in (*OURS, *others):
        logger = logging.getLogger(name)
        if not any(isinstance(known, Guard) for known in logger.filters):
            logger.addFilter(Guard())


def guard_process(redaction: Redaction, *, loggers: Iterable[str] = (*OURS, *OTHERS)) -> None:
    """Guard the loggers of an actor's or worker's process, with the secrets of that process from now on."""
    guarding = Guard(redaction)
    for name in loggers:
        logger = logging.getLogger(name)
        guarded: list[logging.Filterer] = [logger, *logger.handlers]
        for place in guarded:
            earlier = [known for known in place.filters if isinstance(known, Guard)]
            for known in earlier:
                place.removeFilter(known)
            if earlier or place is logger:
                place.addFilter(guarding)


def guard_app() -> None:
    """Log the app's warnings, errors that end its threads and uncatchable errors, instead of printing them raw."""
    warnings.showwarning = _warned  # `logging.captureWarnings` hides warnings where nobody has configured logging
    threading.excepthook = _thread_died
    sys.unraisablehook = _unraisable


def _warned(message: Warning | str, category: type[Warning], filename: str, lineno: int, *_: object, **__: object) -> None:
    logging.getLogger("py.warnings").warning("%s:%d: %s: %s", filename, lineno, category.__name__, message)


def _unraisable(args: "sys.UnraisableHookArgs") -> None:
    if args.exc_value is not None:
        logging.getLogger("holdfast.worker").error("the app raised an error that nothing catches", exc_info=args.exc_value)


def _thread_died(args: threading.ExceptHookArgs) -> None:
    if args.exc_type is SystemExit or args.exc_value is None:
        return
    name = args.thread.name if args.thread is not None else "a thread"
    logging.getLogger("holdfast.worker").error("%s of the app died", name, exc_info=args.exc_value)


ROOT = "holdfast"


class TextLines(logging.Formatter):
    """Formats a record for a person: time, level, message, what it is about; a traceback follows, indented."""

    def __init__(self, process: str) -> None:
        super().__init__()
        self._process = process

    def format(self, record: logging.LogRecord) -> str:
        """The line, and those of the traceback."""
        about = "".join(f" {name}={line(value)}" for name, value in _about(record).items())
        said = f"{_time(record)} {record.levelname:<7} {self._process}: {record.getMessage()}{about}"
        return f"{said}\n{record.exc_text}" if record.exc_text else said


class JsonLines(TextLines):
    """Formats a record as one JSON object: time, level, logger, process, message, what it is about, and a traceback."""

    def format(self, record: logging.LogRecord) -> str:
        """The line; unknown fields are left out."""
        said: dict[str, Any] = {
            "time": _time(record),
            "level": record.levelname,
            "logger": record.name,
            "process": self._process,
            "message": record.getMessage(),
            **_about(record),
        }
        if record.exc_text:
            said["traceback"] = record.exc_text
        return json.dumps(said, ensure_ascii=True).encode("utf-8", "backslashreplace").decode()


class Lines(logging.StreamHandler[TextIO]):
    """Writes Holdfast's log lines; `write_lines` keeps at most one per process."""


def write_lines(process: str, settings: LogSettings, *, stream: TextIO | None = None, anew: bool = True) -> None:
    """Have this process write Holdfast's log lines, from this level on and in this form.

    The last call counts; with `anew` false, the first. Records still reach the handlers that an app has set up for all loggers.
    """
    logger = logging.getLogger(ROOT)
    before = [one for one in logger.handlers if isinstance(one, Lines)]
    if before and not anew:
        return
    stream = sys.stderr if stream is None else stream
    form = settings.form or (LogForm.TEXT if stream.isatty() else LogForm.JSON)
    handler = Lines(stream)
    handler.setFormatter(TextLines(process) if form is LogForm.TEXT else JsonLines(process))
    handler.addFilter(next((one for one in logger.filters if isinstance(one, Guard)), Guard()))
    for earlier in before:
        logger.removeHandler(earlier)
    logger.addHandler(handler)
    logger.setLevel(settings.level)


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _about(record: logging.LogRecord) -> Mapping[str, str]:
    found = getattr(record, ABOUT_RECORD, {})
    return {name: found[name] for name in ABOUT if found.get(name)}
