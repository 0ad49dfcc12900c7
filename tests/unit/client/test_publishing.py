"""What is published of an app, and in what it may differ from what is here."""

import dataclasses
import stat

import pytest

from holdfast.actors import ray_launcher, signature
from holdfast.actors.actor_settings import ActorSettings, StoreAddress
from holdfast.actors.signature import vouched
from holdfast.agent import Agent, App, tool
from holdfast.client import publishing, transport
from holdfast.client.publishing import Here
from holdfast.embedded.home import Home
from holdfast.errors import AgentNotFound, AppNotPublished, ClusterStopped, ConfigurationError, HomeUnusable
from holdfast.persistence import EVERYWHERE, AppRecord, MemoryStore
from holdfast.settings import ProcessLimits, Settings

KEY, OTHER = b"k" * 32, b"o" * 32
STORE = StoreAddress("redis://x", "holdfast", "store-1")
DESK = Agent(name="desk", instructions="Help.").spec
HERE = Here("holdfast.cli.demo_app:app", "source-1", (DESK,), {"OPENAI_API_KEY": "sk-1", "OPENAI_API_BASE": "https://a"})


def test_what_is_published_is_signed_and_tells_no_value_without_the_key():
    record = HERE.record(KEY, STORE)
    assert vouched(KEY, STORE, HERE.path, record)
    assert not vouched(OTHER, STORE, HERE.path, record)
    assert not vouched(None, STORE, HERE.path, record)
    assert not vouched(KEY, STORE, "shop:app", record)  # another app's, put in this one's place
    assert record.environment == ("OPENAI_API_BASE", "OPENAI_API_KEY")
    again = HERE.record(OTHER, STORE)
    assert again.code != record.code
    assert not set(again.prints.values()) & set(record.prints.values())
    assert "sk-1" not in record.model_dump_json()


def test_workers_are_told_apart_by_source_and_values():
    code = HERE.record(KEY, STORE).code
    assert HERE.record(KEY, STORE).code == code
    assert dataclasses.replace(HERE, source="source-2").record(KEY, STORE).code != code
    assert dataclasses.replace(HERE, environment=HERE.environment | {"OPENAI_API_KEY": "sk-2"}).record(KEY, STORE).code != code


def test_what_differs_is_named_and_a_variable_that_is_not_set_here_is_no_difference():
    record = HERE.record(KEY, STORE)
    assert HERE.differs(KEY, record) == []
    assert dataclasses.replace(HERE, environment={"OPENAI_API_KEY": "sk-1"}).differs(KEY, record) == []
    other = Agent(name="till").spec
    environment = {"OPENAI_API_KEY": "sk-2", "GROQ_API_KEY": "g", "OPENAI_API_BASE": "https://a"}
    found = Here(HERE.path, "source-2", (DESK, other), environment).differs(KEY, record)
    assert found == ["its code", "its agents (till)", "the variables GROQ_API_KEY, OPENAI_API_KEY"]
    changed = Agent(name="desk", instructions="Refuse.").spec
    assert dataclasses.replace(HERE, specs=(changed,)).differs(KEY, record) == ["its agents (desk)"]


async def test_what_is_here_of_an_app_is_its_source_its_agents_and_its_variables(monkeypatch):
    monkeypatch.setenv("PUBLISHING_API_KEY", "x")
    app = App(agents=[Agent(name="desk", instructions="Help.")], env=["PUBLISHING_API_KEY"])
    here = await Here.of(app, "holdfast.cli.demo_app:app")
    assert (here.specs, here.environment, len(here.source)) == ((DESK,), {"PUBLISHING_API_KEY": "x"}, 64)


@pytest.mark.parametrize(("stopped_at", "spawned"), [(0, []), (1, []), (2, ["0"])])
async def test_where_holdfast_was_stopped_meanwhile_no_worker_is_hired(monkeypatch, stopped_at, spawned):
    class Stopping(MemoryStore):
        looks = 0

        async def withheld(self):
            if self.looks == stopped_at:
                await self.withhold(EVERYWHERE)
            self.looks += 1
            return await super().withheld()

    class Kept:
        def __init__(self, _):
            pass

        def put_environment(self, *_):
            pass

        forget_others = put_environment

    class Made:
        prepare = options = remote = None

        def __init__(self, slot):
            found.append(slot)
            self.prepare, self.options, self.remote = self, lambda **_: self, lambda _: None

    found = []
    monkeypatch.setattr(publishing, "Vault", Kept)
    monkeypatch.setattr(ray_launcher, "spawn", lambda worker, _avoid: Made(worker.base.rpartition(":")[2]))
    store, settings = Stopping(), ActorSettings(STORE, process_limits=ProcessLimits(workers=2))
    with pytest.raises(ClusterStopped, match="'holdfast'"):
        await publishing.publish(store, settings, KEY, HERE)
    assert found == spawned
    assert (await store.app(HERE.path) is not None) is (stopped_at > 0)


# -- the key -----------------------------------------------------------------------------------------------------------------


class FakeVault:
    """What Ray's control store keeps; one for all, as the cluster is."""

    kept = None

    def __init__(self, address):
        pass

    def key(self):
        return type(self).kept

    def ensure_key(self, brought, *, must_be):
        cls = type(self)
        cls.kept = cls.kept or brought or b"r" * 32
        if must_be and cls.kept != brought:
            raise ConfigurationError("app_key", "another", "use that")
        return cls.kept


@pytest.fixture
def vault(monkeypatch):
    class Fresh(FakeVault):
        pass

    monkeypatch.setattr(transport, "Vault", Fresh)
    return Fresh


def configured(**more):
    return Settings(redis_url="redis://x", ray_address="10.0.0.1:6379", **more)


def test_who_neither_publishes_nor_brings_a_key_makes_none(vault):
    assert transport._key(configured(), STORE, makes=False) is None
    assert vault.kept is None
    assert transport._key(configured(), STORE, makes=True) == b"r" * 32
    assert transport._key(configured(), STORE, makes=False) == b"r" * 32


def test_whoever_brings_the_key_brings_it_back_after_a_restart_of_ray_and_another_is_refused(vault):
    brings = configured(app_key="6b" * 32)
    assert transport._key(brings, STORE, makes=False) == KEY == vault.kept
    vault.kept = OTHER
    for makes in (True, False):
        with pytest.raises(ConfigurationError, match="app_key"):
            transport._key(brings, STORE, makes=makes)


def test_each_ray_of_a_home_accepts_what_the_one_before_has_signed(vault, tmp_path):
    settings = Settings(home=tmp_path / "home")
    first = transport._key(settings, STORE, makes=False)
    vault.kept = None
    assert transport._key(settings, STORE, makes=True) == first
    vault.kept = OTHER  # who came first had a HOLDFAST_APP_KEY
    assert transport._key(settings, STORE, makes=True) == OTHER


def test_a_secret_of_the_home_is_the_users_alone_and_stays(tmp_path):
    home = Home.open(tmp_path / "home")
    secret = home.secret("app.key")
    path = home.path / "app.key"
    assert (len(bytes.fromhex(secret)), home.secret("app.key")) == (32, secret)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [found.name for found in home.path.iterdir() if "app.key" in found.name] == ["app.key"]
    for broken in ("", "abc", "zz" * 32, "ab" * 31, "\u00e4" * 64):
        path.write_text(broken)
        with pytest.raises(HomeUnusable, match="no secret that Holdfast wrote"):
            home.secret("app.key")


# -- what a client may start -------------------------------------------------------------------------------------------------


async def test_a_client_that_does_not_publish_starts_only_what_is_published():
    store = MemoryStore()
    way = object.__new__(transport.RayTransport)
    way._store, way._publishes, way._published = store, False, set()
    with pytest.raises(AppNotPublished, match=r"nobody has published 'shop:app'.*holdfast up --app shop:app"):
        await way.check_published("shop:app", "desk")
    await store.put_app(AppRecord(app="shop:app", code="k", agents={"desk": "d"}), [])
    await way.check_published("shop:app", "desk")
    with pytest.raises(AgentNotFound, match=r"the published app 'shop:app' has no agent 'till'.*'desk'"):
        await way.check_published("shop:app", "till")
    way._publishes = True
    await way.check_published("other:app", "till")


def test_what_rules_know_of_tools_is_signed_and_no_list_passes_for_another():
    tools = {"coder/Bash": "command"}
    signed = [
        dataclasses.replace(HERE, primaries=tools).record(KEY, STORE),
        dataclasses.replace(HERE, approving=("coder/Bash", "command")).record(KEY, STORE),
        HERE.record(KEY, STORE).model_copy(update={"rules": tools}),
        HERE.record(KEY, STORE).model_copy(update={"rules": tools, "primaries": tools}),
    ]
    signed = [signature.sealed(KEY, STORE, record) for record in signed]
    assert all(vouched(KEY, STORE, HERE.path, record) for record in signed)
    assert len({record.signature for record in signed}) == len(signed)


async def test_what_is_here_of_an_app_names_primary_arguments_and_approvals_in_code():
    @tool(primary="command", approval=lambda _: True)
    def run(command: str) -> str:
        return command

    @tool
    def plain() -> None: ...

    here = await Here.of(App(agents=[Agent(name="coder", tools=[run, plain])]), HERE.path)
    assert (here.primaries, here.approving) == ({"coder/run": "command"}, ("coder/run",))
