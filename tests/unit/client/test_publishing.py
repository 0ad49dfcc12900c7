"""What is published of an app, and in what it may differ from what is here."""

import dataclasses

from holdfast.actors import StoreAddress
from holdfast.actors.signature import vouched
from holdfast.agent import Agent, App
from holdfast.client.publishing import Here

KEY, OTHER = b"k" * 32, b"o" * 32
STORE = StoreAddress("redis://x", "holdfast", "store-1")
DESK = Agent(name="desk", instructions="Help.").spec
HERE = Here("holdfast.cli.demo_app:app", "source-1", (DESK,), {"OPENAI_API_KEY": "sk-1", "OPENAI_API_BASE": "https://a"})


def test_what_is_published_is_signed_and_tells_no_value_without_the_key():
    record = HERE.record(KEY, STORE)
    assert vouched(KEY, STORE, record)
    assert not vouched(OTHER, STORE, record)
    assert not vouched(None, STORE, record)
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
