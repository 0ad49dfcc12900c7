"""Which release serves a store: the newest, and an older one only on purpose."""

import pickle
from dataclasses import replace
from types import SimpleNamespace

import pytest

from holdfast.actors.actor_settings import ActorSettings, StoreAddress
from holdfast.errors import ConfigurationError, OlderRelease, OtherBuild
from holdfast.persistence import MemoryStore
from holdfast.registry import releases as turnover
from holdfast.registry.releases import older, take_office
from holdfast.testing import FailAfter, Faults, FaultyStore


@pytest.mark.parametrize(
    ("mine", "serving", "is_older"),
    [
        ("0.1.0", "0.1.0", False),
        ("0.2.0", "0.10.0", True),  # by number, not by letter
        ("0.10.0", "0.2.0", False),
        ("0.2.0.dev3", "0.2.0", True),
        ("0.2.0rc1", "0.2.0.dev9", False),
        ("0.2.0+local.1", "0.2.0+local.2", False),  # two builds of one version take turns
        ("0.2.0", "0.2.0+local.2", False),
        ("0.1.9+local.9", "0.2.0+local.2", True),
        ("0.2.0+local.1.cipher.abcdefgh", "0.2.0+local.1", False),  # nor is a cipher newer than none
        ("0.2.0+local.1", "0.2.0+local.1.cipher.abcdefgh", False),
        ("0.1.9+local.9.cipher.abcdefgh", "0.2.0+local.2.cipher.22222222", True),
        ("1!0.1", "9.0", False),
        ("0.1.0", "what is this", False),
        ("what is this", "0.1.0", True),
    ],
)
def test_releases_are_in_the_order_of_their_versions(mine, serving, is_older):
    assert older(mine, serving) is is_older


async def test_an_older_release_is_refused_with_the_fix_and_changes_nothing():
    store = MemoryStore()
    await take_office(store, "0.2.0")
    with pytest.raises(OlderRelease, match=r"0\.1\.0.*0\.2\.0.*upgrade holdfast here.*holdfast up --roll-back") as refused:
        await take_office(store, "0.1.0")
    assert await store.serving() == "0.2.0"
    assert isinstance(refused.value, ConfigurationError)
    again = pickle.loads(pickle.dumps(refused.value))  # noqa: S301 - our own
    assert (str(again), again.fix, again.release) == (str(refused.value), refused.value.fix, "0.1.0")


async def test_an_equal_or_newer_release_takes_office_and_going_back_is_an_act():
    store = MemoryStore()
    for release in ("0.1.0", "0.1.0", "0.2.0.dev1", "0.2.0", "0.2.0+here", "0.2.0"):
        await take_office(store, release)
        assert await store.serving() == release
    await take_office(store, "0.1.0", roll_back=True)
    assert await store.serving() == "0.1.0"
    await take_office(store, "0.1.0")
    await take_office(store, "0.2.0")  # forward needs no word


async def test_another_build_of_one_version_is_refused_where_it_may_not_change_what_serves():
    store = MemoryStore()
    await take_office(store, "0.1.0+aaa")

    with pytest.raises(
        OtherBuild, match=r"this is build 0\.1\.0\+bbb, and 0\.1\.0\+aaa serves.*install the same build.*holdfast up"
    ):
        await take_office(store, "0.1.0+bbb", other_builds=False)
    assert await store.serving() == "0.1.0+aaa"

    await take_office(store, "0.1.0+aaa", other_builds=False)
    await take_office(store, "0.1.0+bbb")
    await take_office(store, "0.2.0+ccc", other_builds=False)  # an upgrade is no other build
    assert await store.serving() == "0.2.0+ccc"


@pytest.mark.parametrize(
    ("mine", "serving"),
    [
        ("0.1.0+aaa.cipher.abcdefgh", "0.1.0+aaa"),
        ("0.1.0+aaa", "0.1.0+aaa.cipher.abcdefgh"),
        ("0.1.0+aaa.cipher.abcdefgh", "0.1.0+aaa.cipher.22222222"),
    ],
)
async def test_another_cipher_of_one_build_is_said_to_be_that_and_no_other_build(mine, serving):
    store = MemoryStore()
    await take_office(store, serving)

    with pytest.raises(ConfigurationError, match=r"another cipher.*HOLDFAST_CIPHER.*holdfast up") as refused:
        await take_office(store, mine, other_builds=False)
    assert not isinstance(refused.value, OtherBuild)
    assert await store.serving() == serving

    with pytest.raises(OtherBuild):
        await take_office(store, mine.replace("aaa", "bbb"), other_builds=False)
    await take_office(store, mine)
    assert await store.serving() == mine


async def test_who_is_overtaken_by_a_newer_release_while_it_looks_is_refused():
    class Overtaken(MemoryStore):
        async def serve(self, release, *, before):
            if release == "0.1.0":
                await super().serve("0.3.0", before=before)
            return await super().serve(release, before=before)

    store = Overtaken()
    with pytest.raises(OlderRelease):
        await take_office(store, "0.1.0")
    assert await store.serving() == "0.3.0"


async def test_a_lost_reply_is_asked_for_again():
    inner = MemoryStore()
    store = FaultyStore(inner, Faults(serve={1: FailAfter()}))
    with pytest.raises(Exception, match="serve"):
        await take_office(store, "0.1.0")
    await take_office(store, "0.1.0")
    assert await inner.serving() == "0.1.0"


def test_actors_of_a_newer_release_that_came_meanwhile_are_not_ended_unless_it_is_to_be_rolled_back(monkeypatch):
    settings = ActorSettings(StoreAddress("redis://x", "holdfast", "store-1"), release="0.2.0", cluster="a" * 56)
    ended, retired = [], []
    of = {release: replace(settings, release=release).prefix for release in ("0.1.0", "0.2.0", "0.3.0")}
    names = [f"{prefix}{kind}" for prefix in of.values() for kind in ("actor:1", "sweeper", "worker:0123:0")]
    names += [f"{settings.family}{release}:{kind}" for release in ("0.1.0", "0.3.0") for kind in ("actor:2", "sweeper")]

    def handle(name):
        return SimpleNamespace(name=name, retire=SimpleNamespace(remote=lambda: retired.append(name)))

    monkeypatch.setattr(turnover, "named", lambda _: names)
    monkeypatch.setattr(turnover, "find", handle)
    monkeypatch.setattr(turnover.ray, "kill", lambda handle: ended.append(handle.name))

    turnover.end_other_releases(settings)
    assert ended[:2] == [f"{of['0.1.0']}sweeper", f"{settings.family}0.1.0:sweeper"]
    assert sorted(ended[2:]) == sorted([f"{of['0.1.0']}actor:1", f"{settings.family}0.1.0:actor:2"])
    assert retired == [f"{of['0.1.0']}worker:0123:0"]

    turnover.end_other_releases(settings, roll_back=True)
    assert {name for name in ended if "0.3.0" in name} == {name for name in names if "0.3.0" in name and "worker" not in name}
    assert not [name for name in ended + retired if name.startswith(of["0.2.0"])]
