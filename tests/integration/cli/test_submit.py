"""`holdfast submit`: many conversations from a file, bounded, resumable, each message once."""

import json
import re
import signal

import pytest
from stack_fixture import eventually

from holdfast.testing import call


def test_all_lines_are_checked_before_anything_starts(cli, inside):
    before = len(cli.stack.model.requests)
    path = cli.file(
        {"agent": "support", "messages": ["fine"], "conversation_id": "same"},
        "not json",
        "[1]",
        {"agent": "nobody", "messages": ["x"]},
        {"messages": ["x"]},
        {"agent": 7, "messages": ["x"]},
        "",
        {"agent": "support", "messages": []},
        {"agent": "support", "messages": "x"},
        {"agent": "support", "messages": ["x", None]},
        {"agent": "support", "messages": ["x"], "conversation_id": "not an id"},
        {"agent": "support", "messages": ["x"], "conversation_id": "same"},
        {"agent": "support", "messages": ["x"], "model": "gpt"},
        '{"agent": "support", "messages": ["x"], "context": NaN}',
        {"agent": "support", "messages": ["x" * (1024 * 1024 + 1)]},
        name="wrong.jsonl",
    )

    said = inside("submit", path, code=2)
    as_json = json.loads(inside("submit", path, "--json", code=2).err)

    lines = said.err.splitlines()
    numbers = [int(found[1]) for line in lines if (found := re.match(r"error: line (\d+): ", line))]
    assert numbers == [2, 3, 4, 5, 6, 8, 9, 10, 11, 12, 13, 14, 15]
    assert lines[-1].startswith(f"error: {path}: 13 of its lines cannot be used; correct it and submit again")
    for number, words in (
        (4, "'support'"),
        (5, "agent: Field required"),
        (12, "line 1 has 'same' already"),
        (13, "model: Extra"),
    ):
        assert words in next(line for line in lines if line.startswith(f"error: line {number}: "))
    assert len(as_json["lines"]) == 13
    assert len(cli.stack.model.requests) == before
    inside("show", "same", code=2)


@pytest.mark.gate
def test_a_file_run_again_takes_up_where_it_stopped(cli):
    cli.scenario("plain", "First.", "Second.", "Third.")
    cli.scenario("asks", call("ask", {"question": "?"}), "Thanks.", "Bye.")
    path = cli.file(
        {"agent": "support", "messages": ["plain", "more", "and more"]},
        {"agent": "support", "messages": ["asks", "then"], "context": {"user": 1}},
        name="again.jsonl",
    )

    first = cli("submit", path, "--json", code=5)
    results = {result["line"]: result for result in first.lines()}
    again = {result["line"]: result for result in cli("submit", path, "--json", code=5).lines()}

    assert [results[line]["status"] for line in (1, 2)] == ["idle", "awaiting_input"]
    assert results[1]["reply"] == "Third."
    assert re.fullmatch(r"[0-9a-f]{12}-1", results[1]["conversation_id"])
    assert again == results
    assert (cli.asked("plain"), cli.asked("asks")) == (3, 1)
    assert "2 of 2 done; " in first.err

    cli.resolve(results[2]["pending"][0], "--answer", '"blue"')
    done = cli("submit", path).out.splitlines()

    assert sorted(done) == sorted(
        [f"{results[1]['conversation_id']}  idle  Third.", f"{results[2]['conversation_id']}  idle  Bye."]
    )
    assert (cli.asked("plain"), cli.asked("asks")) == (3, 3)


def test_what_fails_or_is_refused_stops_alone_and_is_exit_code_1(cli, inside, waiting):
    cli.scenario("fails")  # it has no answer: the server says 400
    cli.scenario("fine", "Fine.")
    path = cli.file(
        {"agent": "support", "messages": ["fails", "never sent"], "conversation_id": "fails-1"},
        {"agent": "support", "messages": ["fine"], "conversation_id": "fine-1"},
        {"agent": "support", "messages": ["something else"], "conversation_id": "listed-1"},
        name="fails.jsonl",
    )

    results = {result["conversation_id"]: result for result in cli("submit", path, "--json", code=1).lines()}

    assert {name: result["status"] for name, result in results.items()} == {
        "fails-1": "failed",
        "fine-1": "idle",
        "listed-1": "refused",
    }
    assert results["fails-1"]["error"]
    assert "another message" in results["listed-1"]["error"]
    shown = inside("show", "fails-1").out
    assert "The last turn failed (model_error): " in shown
    assert "never sent" not in shown


def test_with_wait_a_suspended_conversation_is_waited_for_without_a_slot(cli):
    cli.scenario("patient", call("ask", {"question": "?"}), "Thanks.", "Bye.")
    cli.scenario("quick", "Quick.")
    path = cli.file(
        {"agent": "support", "messages": ["patient", "then"], "conversation_id": "patient-1"},
        {"agent": "support", "messages": ["quick"], "conversation_id": "quick-1"},
        name="wait.jsonl",
    )

    process = cli.start("submit", path, "--wait", "--concurrency", "1", "--timeout", "100")
    with process:
        assert process.stdout.readline() == "quick-1  idle  Quick.\n"
        question = eventually(lambda: cli.pending("patient-1").get("ask"), what="the question")
        cli.resolve(question, "--answer", "1")
        out, err = process.communicate(timeout=100)

    assert process.returncode == 0, err
    assert out == "patient-1  idle  Bye.\n"


def test_at_the_timeout_what_goes_on_is_left_to_itself(cli, inside):
    cli.scenario("slow", "At last.")
    cli.stack.model.hold()
    path = cli.file(
        *({"agent": "support", "messages": ["slow"], "conversation_id": f"slow-{number}"} for number in range(2)),
        name="slow.jsonl",
    )
    try:
        said = cli("submit", path, "--timeout", "3", "--concurrency", "1", "--json", code=5)
    finally:
        cli.stack.model.release()

    assert [result["status"] for result in said.lines()] == ["generating", "not_started"]
    assert cli.rested("slow-0").reply == "At last."
    inside("show", "slow-1", code=2)


def test_ctrl_c_ends_it_with_130_and_the_conversations_go_on(cli):
    cli.scenario("interrupted", "After all.")
    path = cli.file({"agent": "support", "messages": ["interrupted"], "conversation_id": "int-1"}, name="int.jsonl")
    cli.stack.model.hold()
    try:
        process = cli.start("submit", path)
        with process:
            eventually(lambda: cli.asked("interrupted"), what="the model's request")
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=60)
    finally:
        cli.stack.model.release()

    assert process.returncode == 130
    assert "Traceback" not in err
    assert cli.rested("int-1").reply == "After all."
    assert cli.asked("interrupted") == 1
