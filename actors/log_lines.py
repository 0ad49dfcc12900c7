"""The form of log lines: JSON a line, or readable text. Both come after the guard, so neither shows what the guard hides."""

import json
import logging
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, TextIO

from holdfast.log_context import ABOUT
from holdfast.settings import LogForm, LogSettings

from . import logs

ROOT = "holdfast"


class JsonLines(logging.Formatter):
    """Formats a record as one JSON object: time, level, logger, process, message, what it is about, and a traceback."""

    def __init__(self, process: str) -> None:
        super().__init__()
        self._process = process

    def format(self, record: logging.LogRecord) -> str:
        """The line; a field that is not known is left out."""
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


class TextLines(logging.Formatter):
    """Formats a record for a person: time, level, message, what it is about; a traceback follows, indented."""

    def __init__(self, process: str) -> None:
        super().__init__()
        self._process = process

    def format(self, record: logging.LogRecord) -> str:
        """The line, and those of the traceback."""
        about = "".join(f" {name}={logs.line(value)}" for name, value in _about(record).items())
        said = f"{_time(record)} {record.levelname:<7} {self._process}: {record.getMessage()}{about}"
        return f"{said}\n{record.exc_text}" if record.exc_text else said


class Lines(logging.StreamHandler[TextIO]):
    """Writes Holdfast's log lines; `write_lines` makes at most one of these in a process."""


def write_lines(process: str, settings: LogSettings, *, stream: TextIO | None = None, anew: bool = True) -> None:
    """Have this process write Holdfast's log lines, from this level on and in this form.

    An earlier call no longer counts; or, where this is not to begin `anew`, it is the one that counts. Records still go on to
    the handlers that an app has set up for all loggers.
    """
    logger = logging.getLogger(ROOT)
    before = [one for one in logger.handlers if isinstance(one, Lines)]
    if before and not anew:
        return
    stream = sys.stderr if stream is None else stream
    form = settings.form or (LogForm.TEXT if stream.isatty() else LogForm.JSON)
    handler = Lines(stream)
    handler.setFormatter(TextLines(process) if form is LogForm.TEXT else JsonLines(process))
    handler.addFilter(logs.guard_of(ROOT))
    for earlier in before:
        logger.removeHandler(earlier)
    logger.addHandler(handler)
    logger.setLevel(settings.level)


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _about(record: logging.LogRecord) -> Mapping[str, str]:
    found = getattr(record, logs.ABOUT_RECORD, {})
    return {name: found[name] for name in ABOUT if found.get(name)}
