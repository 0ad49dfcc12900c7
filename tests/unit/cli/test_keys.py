"""Times as options take them, and keys that cannot be read in the list."""

import json
from contextlib import asynccontextmanager
from types import SimpleNamespace

import pytest

from holdfast.cli import session
from holdfast.cli.app import run
from holdfast.cli.options import seconds_of
from holdfast.errors import InvalidInput
from holdfast.persistence import AccessScope, ApiKey, ApiKeyList
from holdfast.persistence.access import UnreadableApiKey


@pytest.mark.parametrize(("text", "seconds"), [("30d", 2_592_000), ("12h", 43_200), ("15m", 900), ("5s", 5), ("2w", 1_209_600)])
def test_a_time_is_a_number_and_a_unit(text, seconds):
    assert seconds_of(text, "expires") == seconds


@pytest.mark.parametrize("text", ["", "30", "d", "-1d", "1.5h", "1 d", "1y", "²d", "9999999d"])
def test_what_is_no_time_is_refused(text):
    with pytest.raises(InvalidInput, match=r"--for: .*is no time"):
        seconds_of(text, "--for")


@pytest.mark.parametrize("as_json", [False, True])
def test_a_key_that_cannot_be_read_is_named_and_hides_no_other(capsys, monkeypatch, as_json):
    good = ApiKey(key_id="k0", name="ana", digest="00", scopes=(AccessScope.READ,), created_at=1)
    found = ApiKeyList((good,), (UnreadableApiKey("k\x1b1", "it is junk"),))

    async def listed():
        return found

    @asynccontextmanager
    async def opened(_):
        yield SimpleNamespace(client=SimpleNamespace(access=SimpleNamespace(listed=listed)))

    monkeypatch.setattr(session, "session", opened)
    assert run(["keys", "list", *(["--json"] if as_json else [])]) == 0

    shown = capsys.readouterr()
    assert "ana" in shown.out
    assert "\x1b" not in shown.out + shown.err
    if as_json:
        assert json.loads(shown.out)["unreadable"] == [{"key_id": "k\x1b1", "why": "it is junk"}]
    else:
        assert "key k\\x1b1 cannot be read" in shown.err
        assert "it is junk" in shown.err
