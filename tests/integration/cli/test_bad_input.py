"""Bad input: one readable line that names the field and the fix, the right exit code, never a traceback."""

import json

import pytest

RESOLVE = ("resolve", "s-1", "--conversation", "nobody")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["pending", "--limit", "0"], "limit"),
        (["pending", "--limit", "many"], "--limit"),
        (["pending", "--after", "x y"], "after"),
        (["pending", "--kind", "nonsense"], "approval, elicitation, client_exec"),
        (["pending", "--namespace", "No Such!"], "namespace"),
        (["pending", "nobody"], "never started"),
        (["pending", "not an id"], "conversation_id"),
        (["pending", "nobody", "--after", "1.a"], "--after"),
        (["pending", "--ray-address", "10.0.0.1:6379"], "redis_url"),
        (["list", "--status", "asleep"], "awaiting_input"),
        (["list", "--redis-url", "http://example.com"], "redis_url"),
        (["show", "nobody"], "never started"),
        ([*RESOLVE], "give one of --approve, --deny, --answer, --ask, --fail"),
        ([*RESOLVE, "--approve", "--deny", "no"], "--approve and --deny are given"),
        ([*RESOLVE, "--deny", "no", "--arguments", "{}"], "--arguments"),
        ([*RESOLVE, "--answer", "yes"], "double quotes"),
        ([*RESOLVE, "--answer", "NaN"], "--answer"),
        ([*RESOLVE, "--approve", "--arguments", "[1]"], "decision.arguments"),
        (["resolve", "--approve"], "suspension"),
        (["submit", "/nonexistent/jobs.jsonl"], "cannot be read"),
        (["submit", "empty.jsonl"], "no line"),
        (["submit", "empty.jsonl", "--timeout", "0"], "--timeout"),
        (["submit", "empty.jsonl", "--app", "no_such_module:app"], "no_such_module"),
        (["up", "--redis-url", "redis://127.0.0.1:1", "--ray-address", "ray://10.0.0.1:10001"], "ray://"),
        (["nonsense"], "nonsense"),
        (["pendin"], "Did you mean 'pending'"),
        (["pending", "--nonsense"], "--nonsense"),
    ],
)
def test_bad_input_is_one_line_on_stderr_and_exit_code_2(inside, arguments, expected, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.jsonl").touch()

    said = inside(*arguments, code=2)

    assert said.out == ""
    assert said.err.startswith("error: ")
    assert said.err.count("\n") == 1
    assert expected in said.err


def test_with_json_an_error_is_an_object_with_its_fields(inside):
    missing = json.loads(inside("show", "nobody", "--json", code=2).err)
    wrong = json.loads(inside("pending", "--limit", "0", "--json", code=2).err)
    unusable = json.loads(inside("pending", "--limit", "x", "--json", code=2).err)

    assert missing["error"] == "ConversationNotFound"
    assert missing["conversation_id"] == "nobody"
    assert wrong["error"] == "InvalidInput"
    assert wrong["field"] == "limit"
    assert {"message", "problem", "fix"} <= wrong.keys()
    assert unusable.keys() == {"error", "message"}


def test_a_redis_that_does_not_answer_is_exit_code_4(cli):
    said = cli("pending", "--redis-url", "redis://127.0.0.1:1", code=4)

    assert said.err.startswith("error: the store is unavailable")


def test_a_ray_that_does_not_answer_is_exit_code_4(cli, stack):
    said = cli("up", "--redis-url", stack.redis_url, "--ray-address", "127.0.0.1:1", code=4)

    assert "nothing answers at 127.0.0.1:1" in said.err


def test_a_setting_of_the_wrong_type_names_the_variable(inside, monkeypatch):
    monkeypatch.setenv("HOLDFAST_STANDBY", "several")

    assert "HOLDFAST_STANDBY" in inside("pending", code=2).err


def test_a_home_that_cannot_be_made_says_so(inside, tmp_path):
    (tmp_path / "file").touch()

    assert "HOLDFAST_HOME" in inside("pending", "--home", str(tmp_path / "file" / "home"), code=2).err


def test_what_an_error_repeats_cannot_drive_the_terminal(inside):
    said = inside("show", "\x1b]0;owned\x07", code=2)

    assert "\x1b" not in said.err
    assert "\x07" not in said.err
