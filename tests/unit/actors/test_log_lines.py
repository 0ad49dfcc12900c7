"""The form of log lines: JSON or text, what each is about, and nothing that the guard hides."""

import asyncio
import io
import json
import logging

import pytest

from holdfast.actors import logs
from holdfast.actors.actor_settings import short_name
from holdfast.actors.logs import Lines, write_lines
from holdfast.redaction import Redaction
from holdfast.settings import LogForm, LogSettings
from holdfast.work_context import about, about_nothing

SECRET = "open-sesame-7"  # noqa: S105 - made up


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def written():
    """A function that has this process write lines, and returns what they are written to."""
    names = ("holdfast", "holdfast.actor", "holdfast.server.access")
    kept = {name: list(logging.getLogger(name).filters) for name in names}
    level = logging.getLogger("holdfast").level

    def begin(form=LogForm.JSON, level="INFO", stream=None, **options):
        stream = io.StringIO() if stream is None else stream
        write_lines("actor:a1", LogSettings(level, form), stream=stream, **options)
        return stream

    logs.guard_process(Redaction({"SHOP_KEY": SECRET}), loggers=names)
    yield begin
    root = logging.getLogger("holdfast")
    for handler in [one for one in root.handlers if isinstance(one, Lines)]:
        root.removeHandler(handler)
    root.setLevel(level)
    for name, filters in kept.items():
        logging.getLogger(name).filters[:] = filters


def objects(stream):
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_line_says_when_who_what_and_what_it_is_about(written):
    stream = written()
    with about(conversation="c-1", effect="t1.m1", request="r-1"):
        logging.getLogger("holdfast.actor").warning("it waits for %s", "Ana")
    logging.getLogger("holdfast.actor").info("bare")

    first, second = objects(stream)
    assert first.pop("time").endswith("Z")
    assert first == {
        "level": "WARNING",
        "logger": "holdfast.actor",
        "process": "actor:a1",
        "message": "it waits for Ana",
        "conversation": "c-1",
        "effect": "t1.m1",
        "request": "r-1",
    }
    assert set(second) == {"time", "level", "logger", "process", "message"}


@pytest.mark.parametrize("form", list(LogForm))
def test_neither_form_shows_a_secret_or_lets_a_text_pose_as_a_line(written, form):
    stream = written(form)
    with about(conversation=f"c-{SECRET}\nERROR forged", request=f"r\u2028{SECRET}"):
        try:
            raise ValueError(f"{SECRET}\nERROR forged at redis://:pw@host")  # noqa: TRY301 - the point
        except ValueError:
            logging.getLogger("holdfast.actor").exception("said: %s", f"{SECRET}\r\nERROR forged")
    said = stream.getvalue()

    assert SECRET not in said
    assert "pw@host" not in said
    assert "[SHOP_KEY]" in said
    lines = said.rstrip("\n").split("\n")
    assert lines[0].isprintable()
    assert all(line.startswith(logs.INDENT) for line in lines[1:])
    assert not any(line.startswith("ERROR forged") for line in lines)
    assert len(lines) == 1 or form is LogForm.TEXT
    assert form is LogForm.TEXT or "ValueError" in objects(stream)[0]["traceback"]


def test_a_logger_that_nobody_guards_writes_no_secret_either(written):
    stream = written()
    logging.getLogger("holdfast.strange").warning(SECRET)
    assert objects(stream)[0]["message"] == "[SHOP_KEY]"


def test_secrets_that_are_learned_later_are_hidden_in_lines_too(written):
    stream = written()
    logs.guard_process(Redaction({"LATER": "hush-hush-9"}), loggers=("holdfast", "holdfast.actor"))
    logging.getLogger("holdfast.strange").warning("hush-hush-9")
    logging.getLogger("holdfast.actor").warning("hush-hush-9")
    assert [one["message"] for one in objects(stream)] == ["[LATER]", "[LATER]"]


def test_levels_below_the_one_that_is_set_are_not_written(written):
    stream = written(level="WARNING")
    logging.getLogger("holdfast.actor").info("small")
    logging.getLogger("holdfast.actor").error("large")
    assert [one["message"] for one in objects(stream)] == ["large"]


def test_by_default_a_terminal_gets_text_and_anything_else_json(written):
    terminal, file = written(None, stream=Terminal()), None
    logging.getLogger("holdfast.actor").warning("seen")
    assert terminal.getvalue().rstrip().endswith("WARNING actor:a1: seen")
    file = written(None)
    logging.getLogger("holdfast.actor").warning("kept")
    assert objects(file)[0]["message"] == "kept"
    assert "kept" not in terminal.getvalue(), "an earlier call no longer counts"


def test_a_call_that_is_not_to_begin_anew_leaves_what_stands(written):
    first, second = written(), written(anew=False)
    logging.getLogger("holdfast.actor").warning("once")
    assert (len(objects(first)), second.getvalue()) == (1, "")


async def test_a_task_says_what_it_was_begun_for_and_a_shared_one_nothing(written):
    stream = written()

    async def say():
        logging.getLogger("holdfast.actor").info("here")

    with about(conversation="c-1"):
        own = asyncio.create_task(say())
        with about_nothing():
            shared = asyncio.create_task(say())
    await asyncio.gather(own, shared)
    assert [one.get("conversation") for one in objects(stream)] == ["c-1", None]


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("holdfast:n:s:c:0.1:actor:3f2a", "actor:3f2a"),
        ("holdfast:n:s:c:0.1:worker:ab12:0.3", "worker:ab12:0.3"),
        ("holdfast:n:s:c:0.1:sweeper", "sweeper"),
        ("alone-0", "alone-0"),
    ],
)
def test_a_process_is_named_shortly(name, short):
    assert short_name(name) == short
