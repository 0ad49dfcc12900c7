"""What goes between our processes comes out as it went in."""

import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from installed_copy import installed_at

from holdfast.actors import build, wire
from holdfast.actors.actor_settings import ActorSettings, StoreAddress, WorkerSettings
from holdfast.actors.answers import Failed, NotHosted, Replied
from holdfast.actors.build import this_release
from holdfast.actors.workers import ModelRequest, NoOutcome
from holdfast.conversation import Receipt, Resolve
from holdfast.conversation.terms.decisions import DecisionKind, DecisionRecord
from holdfast.errors import OtherBuild, StaleCall, StaleReason


def test_commands_replies_and_errors_come_out_as_they_went_in():
    ruling = DecisionRecord(kind=DecisionKind.ANSWER, body="false")
    for value in (
        ("c-1", Resolve(tool_call_id="call_1", ruling=ruling, decision_id="d-1", suspension_id="s-1")),
        Replied(Receipt(conversation_id="c-1", seq=3, accepted_at=1)),
        NotHosted(),
        NoOutcome.GONE,
        ModelRequest(code="k", conversation_id="c-1", agent="a", spec_digest="d", effect_id="e", upto_seq=3, attempt=1),
    ):
        assert wire.unpack(wire.pack(value)) == value


def test_a_refusal_keeps_its_fields():
    failed = wire.unpack(wire.pack(Failed(StaleCall("c-1", "call_1", StaleReason.EXPIRED))))

    assert isinstance(failed.error, StaleCall)
    assert failed.error.reason is StaleReason.EXPIRED


# -- of one build only --------------------------------------------------------------------------------------------------

ADDRESS = StoreAddress("redis://x", "holdfast", "store-1")


class Exploding:
    """What runs code when it is read."""

    def __reduce__(self):
        return (pytest.fail, ("another build's bytes were read",))


@pytest.fixture
def another_build(monkeypatch):
    """A build of the same version, for what is packed from now on."""
    packed = wire.pack

    def pack(value):
        with monkeypatch.context() as patched:
            patched.setattr(wire, "_mark", lambda: b"another!")
            return packed(value)

    return pack


def test_what_another_build_has_packed_is_refused_before_it_is_read(another_build):
    with pytest.raises(OtherBuild, match="install the same build") as refused:
        wire.unpack(another_build(Exploding()))

    assert refused.value.release == this_release()
    again = pickle.loads(pickle.dumps(refused.value))  # noqa: S301 - our own
    assert str(again) == str(refused.value)


@pytest.mark.parametrize("data", [b"", b"short", b"\x80\x05N."])
def test_what_is_in_no_seal_is_refused(data):
    with pytest.raises(OtherBuild):
        wire.unpack(data)


@pytest.mark.parametrize(
    "settings",
    [
        ActorSettings(ADDRESS, cluster="a" * 56, gone=("b",)),
        WorkerSettings(ActorSettings(ADDRESS), name="w", app="a:a", code="c", alone=True),
    ],
    ids=lambda one: type(one).__name__,
)
def test_what_an_actor_is_told_when_it_is_made_comes_out_whole_and_only_in_its_build(settings, monkeypatch):
    assert pickle.loads(pickle.dumps(settings)) == settings  # noqa: S301 - our own

    with monkeypatch.context() as patched:
        patched.setattr(wire, "_mark", lambda: b"another!")
        foreign = pickle.dumps(settings)
    with pytest.raises(OtherBuild):
        pickle.loads(foreign)  # noqa: S301 - our own


def digest_at(folder: Path) -> str:
    script = "from holdfast.actors import build; print(build.this_release(), build.__file__)"
    said = subprocess.run(
        [sys.executable, "-c", script], env={"PYTHONPATH": str(folder)}, capture_output=True, text=True, check=True, timeout=60
    )
    release, file = said.stdout.split()
    assert Path(file).is_relative_to(folder)
    return release


def test_equal_files_are_one_build_wherever_they_lie_and_one_changed_byte_is_another(tmp_path):
    folder = installed_at(tmp_path)
    assert digest_at(folder) == this_release()

    script = folder / "holdfast" / "persistence" / "lua" / "append.lua"
    script.write_text(script.read_text() + "\n")
    changed = digest_at(folder)
    assert changed != this_release()
    assert changed.partition("+")[0] == this_release().partition("+")[0]


def test_a_version_with_a_local_part_keeps_it(monkeypatch):
    monkeypatch.setattr(build.metadata, "version", lambda _: "0.2.0+image.7")
    build.this_release.cache_clear()
    try:
        assert build.this_release().startswith("0.2.0+image.7.")
    finally:
        build.this_release.cache_clear()
