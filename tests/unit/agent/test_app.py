from contextlib import asynccontextmanager, contextmanager

import pytest
import toy_cipher
from toy_cipher import ToyCipher

from holdfast.agent import Agent, App, cipher_path
from holdfast.errors import AgentNotFound, ConfigurationError

SUPPORT = Agent(name="support")


async def opened(app):
    async with app.resources() as resources:
        return resources


def test_an_agent_is_found_by_its_name():
    assert App(agents=[SUPPORT]).agent("support") is SUPPORT


def test_an_unknown_agent_is_refused_with_those_known():
    with pytest.raises(AgentNotFound) as caught:
        App(agents=[SUPPORT, Agent(name="sales")]).agent("nope")
    assert caught.value.field == "agent"
    assert "'support', 'sales'" in caught.value.fix


def test_two_agents_of_one_name_are_refused():
    with pytest.raises(ConfigurationError, match=r"app\.agents: two agents are named 'support'"):
        App(agents=[SUPPORT, Agent(name="support")])


@pytest.mark.parametrize("agents", [SUPPORT, 5, "support", [5]])
def test_agents_that_are_none_are_refused(agents):
    with pytest.raises(ConfigurationError, match=r"app\.agents"):
        App(agents=agents)


def test_the_environment_is_what_the_patterns_name():
    environ = {"OPENAI_API_KEY": "k", "OPENAI_API_BASE": "b", "HOME": "h", "openai_api_key": "lower"}
    assert App(agents=[]).environment(environ) == {"OPENAI_API_KEY": "k", "OPENAI_API_BASE": "b"}
    assert App(agents=[], env=["HO*"]).environment(environ) == {"HOME": "h"}
    assert App(agents=[], env=[]).environment(environ) == {}


@pytest.mark.parametrize("env", ["OPENAI_API_KEY", 5, [5], [""], ["OPENAI_API_KEY=secret"]])
def test_env_is_a_list_of_names(env):
    with pytest.raises(ConfigurationError) as caught:
        App(agents=[], env=env)
    assert caught.value.field == "app.env"


async def test_without_a_lifespan_there_are_no_resources():
    assert await opened(App(agents=[])) is None


async def test_a_lifespan_may_take_the_app_or_nothing_and_be_async_or_not():
    @asynccontextmanager
    async def with_app(app):
        yield app

    @asynccontextmanager
    async def with_nothing():
        yield "async"

    @contextmanager
    def blocking():
        yield "blocking"

    async def generator(app):
        yield app

    def blocking_generator():
        yield "generator"

    app = App(agents=[], lifespan=with_app)
    assert await opened(app) is app
    app = App(agents=[], lifespan=generator)
    assert await opened(app) is app
    assert await opened(App(agents=[], lifespan=with_nothing)) == "async"
    assert await opened(App(agents=[], lifespan=blocking)) == "blocking"
    assert await opened(App(agents=[], lifespan=blocking_generator)) == "generator"


async def test_a_lifespan_closes_what_it_opened():
    steps = []

    async def lifespan():
        steps.append("open")
        yield
        steps.append("closed")

    async with App(agents=[], lifespan=lifespan).resources():
        steps.append("used")
    assert steps == ["open", "used", "closed"]


async def coroutine():
    return None


@pytest.mark.parametrize("lifespan", [5, coroutine, lambda one, two: None])  # noqa: ARG005
def test_a_lifespan_that_makes_no_context_manager_is_refused(lifespan):
    with pytest.raises(ConfigurationError) as caught:
        App(agents=[], lifespan=lifespan)
    assert caught.value.field == "app.lifespan"


async def test_a_lifespan_that_returns_something_else_is_refused_when_it_is_entered():
    with pytest.raises(ConfigurationError, match=r"app\.lifespan: it returned int"):
        await opened(App(agents=[], lifespan=lambda: 5))


@pytest.mark.parametrize("name", ["HOLDFAST_APP_KEY", "HOLDFAST_LINK_KEYS"])
def test_a_key_of_holdfast_s_own_is_handed_to_no_worker_whatever_the_patterns_say(name):
    environ = {name: "k", "HOLDFAST_DEMO_MODEL": "m"}
    assert App(agents=[], env=["*"]).environment(environ) == {"HOLDFAST_DEMO_MODEL": "m"}
    assert App(agents=[], env=[name]).environment(environ) == {}


class Later(ToyCipher):
    async def encrypt(self, data, context):
        return data + context


@pytest.mark.parametrize("cipher", [7, object(), ToyCipher, Later()], ids=["number", "object", "class", "async"])
def test_what_is_no_cipher_is_refused_where_it_stands(cipher):
    with pytest.raises(ConfigurationError, match=r"app\.encrypt"):
        App(agents=[SUPPORT], encrypt=cipher)


def test_an_app_encrypts_nothing_unless_it_is_told_to():
    assert cipher_path(App(agents=[SUPPORT])) is None


def test_a_cipher_is_found_in_its_own_module_also_where_others_have_imported_it():
    assert cipher_path(App(agents=[SUPPORT], encrypt=CIPHER)) == "toy_cipher:cipher"
    assert cipher_path(App(agents=[SUPPORT], encrypt="keys:cipher")) == "keys:cipher"


def test_a_cipher_that_no_module_has_is_refused_with_the_fix():
    with pytest.raises(ConfigurationError, match="a module of its own"):
        cipher_path(App(agents=[SUPPORT], encrypt=ToyCipher()))


CIPHER = toy_cipher.cipher
