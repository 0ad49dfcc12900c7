"""What is logged has no secret in it, and is one line: nothing that somebody wrote can pose as a record."""

import ast
import io
import logging
import sys
import threading
import warnings
from pathlib import Path

import pytest

from holdfast.actors import logs
from holdfast.actors.actor_settings import ActorSettings, StoreAddress, WorkerSettings
from holdfast.actors.conversation_actor import ConversationActor
from holdfast.actors.worker.worker import Worker
from holdfast.redaction import Redaction

ROOT = Path(__file__).parents[3]
SECRET = "open-sesame-7"  # noqa: S105 - made up


@pytest.fixture
def logged():
    """A guarded logger of ours, and what its handler writes as processes do that configure nothing."""
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    logger = logging.getLogger("holdfast.worker")
    kept = list(logger.filters)
    logger.addHandler(handler)
    logs.guard_process(Redaction({"SHOP_KEY": SECRET}), loggers=["holdfast.worker"])
    yield logger, written.getvalue
    logger.removeHandler(handler)
    logger.filters[:] = kept


def test_a_message_and_its_arguments_lose_their_secrets(logged):
    logger, written = logged
    logger.warning("%s at %s", ValueError(SECRET), "redis://:pw@host")
    assert written() == "[SHOP_KEY] at redis://***@host\n"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\nWARNING forged", "a\\nWARNING forged"),
        ("a\r\nb\tc", "a\\r\\nb\\tc"),
        ("\x1b[2J\x1b[31mred", "\\x1b[2J\\x1b[31mred"),
        ("a\u2028b\u2029c\x85d\x9be", "a\\u2028b\\u2029c\\x85d\\x9be"),
        ("a\u202eb\u200b\ufeff\udc80", "a\\u202eb\\u200b\\ufeff\\udc80"),
        ("Grüße, 世界 🙂", "Grüße, 世界 🙂"),
    ],
)
def test_a_message_is_one_line_of_what_can_be_seen(logged, text, shown):
    logger, written = logged
    logger.warning("said: %s", text)
    assert written() == f"said: {shown}\n"


def broken():
    try:
        try:
            raise ConnectionError(f"no database at postgres://app:{SECRET}@db")  # noqa: TRY301 - the point
        except ConnectionError as error:
            raise ExceptionGroup("two", [KeyError(SECRET), ValueError("x\nERROR forged\u2028ERROR forged")]) from error
    except ExceptionGroup as error:
        return error


def test_a_traceback_has_no_secret_also_of_causes_and_groups_and_its_lines_are_indented(logged):
    logger, written = logged
    logger.error("it failed", exc_info=broken())
    first, *others = written().rstrip("\n").split("\n")
    assert first == "it failed"
    assert all(line.startswith(logs.INDENT) for line in others)
    assert all(line.isprintable() for line in others)
    assert SECRET not in written()
    assert "postgres://***@db" in written()
    assert "[SHOP_KEY]" in written()
    assert "ERROR forged" in written()


def test_whoever_handles_the_record_later_finds_no_exception_in_it(logged):
    logger, _ = logged
    records = []
    handler = logging.Handler()
    handler.emit = records.append
    logger.addHandler(handler)
    try:
        logger.error("it failed: %s", SECRET, exc_info=broken(), stack_info=True)
    finally:
        logger.removeHandler(handler)
    [record] = records
    assert SECRET not in repr(vars(record))
    assert record.exc_info is None
    assert record.stack_info.startswith(logs.INDENT)


def test_what_cannot_be_formatted_is_logged_all_the_same(logged):
    class Mute:
        def __str__(self):
            raise ValueError(SECRET)

    logger, written = logged
    logger.warning("it is %s", Mute())
    logger.warning("it is %d", "no number")
    assert written() == "it is %s\nit is %d\n"


def test_every_logger_of_ours_is_guarded():
    found = set()
    for file in ROOT.glob("*/*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "getLogger":
                found |= {argument.value for argument in node.args if isinstance(argument, ast.Constant)}
    assert {name for name in found if name.startswith("holdfast")} <= set(logs.OURS)


def test_a_client_within_a_process_of_ours_leaves_its_guard_in_place(logged):
    logger, written = logged
    logs.guard()
    logger.warning("%s", SECRET)
    assert written() == "[SHOP_KEY]\n"


class Unclean:
    def __del__(self):
        raise ValueError(SECRET)


def test_warnings_dead_threads_and_what_nobody_catches_of_the_app_are_logged(logged, monkeypatch):
    _, written = logged
    monkeypatch.setattr(threading, "excepthook", threading.excepthook)
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)
    logs.guard_process(Redaction({"SHOP_KEY": SECRET}), loggers=["py.warnings", "holdfast.worker"])
    warned = logging.getLogger("py.warnings")
    handler = logging.getLogger("holdfast.worker").handlers[-1]
    warned.addHandler(handler)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            logs.guard_app()
            warnings.warn(f"{SECRET}\nWARNING forged", stacklevel=1)
            thread = threading.Thread(target=lambda: [][len(SECRET)], name=f"thread {SECRET}")
            thread.start()
            thread.join()
            Unclean()
    finally:
        warned.removeHandler(handler)
        warned.filters.clear()
    assert "UserWarning: [SHOP_KEY]\\nWARNING forged" in written()
    assert "thread [SHOP_KEY] of the app died\n    Traceback" in written()
    assert "the app raised an error that nothing catches\n    Traceback" in written()
    assert SECRET not in written()


@pytest.fixture
def unguarded():
    """Loggers as they are before a process of ours begins, and as they were again after that."""
    loggers = [logging.getLogger(name) for name in (*logs.OURS, *logs.OTHERS)]
    kept = [list(logger.filters) for logger in loggers]
    for logger in loggers:
        logger.filters.clear()
    yield loggers
    for logger, filters in zip(loggers, kept, strict=True):
        logger.filters[:] = filters


async def test_every_process_of_ours_guards_its_loggers_with_what_is_secret_there(unguarded, monkeypatch):
    monkeypatch.setenv("SHOP_API_KEY", SECRET)
    address = StoreAddress("redis://:looking-glass@host/0", "holdfast", "store-1")
    for begin in (
        lambda: ConversationActor(ActorSettings(address), "actor-1"),
        lambda: Worker(WorkerSettings(ActorSettings(address), "worker-0", "shop:app", "k")),
    ):
        for logger in unguarded:
            logger.filters.clear()
        begin()
        for logger in unguarded:
            record = logging.LogRecord(logger.name, logging.ERROR, "x.py", 1, "%s looking-glass", (SECRET,), None)
            assert logger.filter(record)
            assert record.getMessage() == "[SHOP_API_KEY] ***"
