"""Notification targets as an app declares them: a mistake fails at once, naming field and fix, and shows no secret."""

from urllib.parse import urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from yarl import URL

from holdfast.agent import Agent, App
from holdfast.agent.notify import MOST, TO_ACT_ON, Email, Notify, Slack, Webhook, checked_url
from holdfast.conversation.terms.spec import NoticeKind, NotifySpec
from holdfast.errors import ConfigurationError

DESK, BILLING = Agent(name="desk"), Agent(name="billing")
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"  # noqa: S105 - the example of standard-webhooks
POST = "https://hooks.example/in"


async def tell(notice):
    """Takes every notice."""


def hook(url=POST, **more):
    return Webhook(url, **({"secret_env": "HOOK"} | more))


def mail(to="ops@example.com", **more):
    return Email(to, **({"sender": "desk@example.com", "host": "smtp.example.com"} | more))


def refused(declare):
    with pytest.raises(ConfigurationError) as caught:
        declare()
    assert caught.value.fix
    return caught.value


def test_a_target_is_told_of_what_a_person_must_act_on():
    assert hook().events == Slack().events == mail().events == Notify(tell).events == TO_ACT_ON
    assert set(TO_ACT_ON) == {"suspended", "reminded", "escalated", "lost_run", "quarantined"}
    assert hook(events=["ended", "settled", "ended"]).events == (NoticeKind.ENDED, NoticeKind.SETTLED)


def test_each_agents_spec_names_the_targets_that_are_told_of_it_and_nothing_else_of_them():
    app = App(agents=[DESK, BILLING], notify=[hook(events=["ended"]), Slack(agents=["billing"]), tell])
    desk, billing = (agent.spec for agent in app.agents)
    assert desk.notify == (NotifySpec(name="webhook", events=("ended",)), NotifySpec(name="tell", events=TO_ACT_ON))
    assert [one.name for one in billing.notify] == ["webhook", "slack", "tell"]
    assert not any(word in desk.model_dump_json() for word in ("hooks.example", "HOOK"))
    assert app.agent("desk").spec is desk
    assert DESK.spec.notify == ()  # the agent itself may be in other apps
    assert desk.digest != DESK.spec.digest


def test_without_targets_an_app_has_the_agents_themselves():
    app = App(agents=[DESK, BILLING], notify=[Slack(agents=["billing"])])
    assert app.agent("desk") is DESK
    assert App(agents=[DESK]).notify == ()


def test_workers_get_the_variables_that_targets_need():
    app = App(agents=[DESK], env=[], notify=[hook(), Slack(url_env="SLACK"), mail(user_env="USER_OF", password_env="PASS_OF")])
    environ = {"HOOK": "a", "SLACK": "b", "USER_OF": "c", "PASS_OF": "d", "OTHER": "e", "HOLDFAST_APP_KEY": "f"}
    assert app.environment(environ) == {"HOOK": "a", "SLACK": "b", "USER_OF": "c", "PASS_OF": "d"}
    assert App(agents=[], env=[], notify=[hook(secret_env="HOLDFAST_APP_KEY")]).environment(environ) == {}


@pytest.mark.parametrize("notify", [hook(), "slack", {"a": hook()}, 5, None])
def test_targets_are_a_list(notify):
    assert refused(lambda: App(agents=[], notify=notify)).field == "app.notify"


@pytest.mark.parametrize("one", ["slack", 5, lambda _: None, print, App])
def test_what_is_no_target_is_refused(one):
    error = refused(lambda: App(agents=[], notify=[one]))
    assert error.field == "app.notify"
    assert "async def tell(notice: Notice)" in error.fix


def test_two_targets_of_one_name_are_refused():
    error = refused(lambda: App(agents=[], notify=[hook(), hook()]))
    assert (error.field, error.fix) == ("app.notify", "rename one of them with name=")
    assert len(App(agents=[], notify=[hook(), hook(name="other"), tell, Notify(tell, name="again")]).notify) == 4


def test_targets_have_a_bound():
    assert "too many" in refused(lambda: App(agents=[], notify=[hook(name=f"h{n}") for n in range(MOST + 1)])).problem


@pytest.mark.parametrize("make", [hook, mail, Slack, lambda **more: Notify(tell, **more)])
class TestCommon:
    @pytest.mark.parametrize("name", ["", "a:b", "a b", "\u00e4", "a\n", "x" * 65, 5])
    def test_a_name_is_plain(self, make, name):
        assert refused(lambda: make(name=name)).field == f"notify {name!r}.name"

    @pytest.mark.parametrize("events", [["nothing"], [], "ended", 5, [5]])
    def test_events_are_known(self, make, events):
        error = refused(lambda: make(name="n", events=events))
        assert error.field == "notify 'n'.events"
        if events == ["nothing"]:
            assert "'suspended', 'reminded', 'escalated', 'settled'" in error.fix

    @pytest.mark.parametrize("agents", [[], "desk", [5]])
    def test_agents_are_a_list_of_names(self, make, agents):
        assert refused(lambda: make(name="n", agents=agents)).field == "notify 'n'.agents"

    def test_agents_are_those_of_the_app(self, make):
        error = refused(lambda: App(agents=[DESK], notify=[make(name="n", agents=["sales"])]))
        assert (error.field, error.fix) == ("notify 'n'.agents", "use some of its agents: 'desk'")


@pytest.mark.parametrize(
    "url",
    [
        *("https://hooks.example", "https://hooks.example:8443/a/b?c=d&e=%20", "https://xn--bcher-kva.example/"),
        *("https://1.1.1.1/x", "https://[2606:4700::1111]:443/x", "https://a_b.example/x"),
    ],
)
def test_a_webhook_goes_to_an_https_url(url):
    assert hook(url).url == url


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("http://hooks.example/s3cret", "http is neither encrypted"),
        ("https://ann:s3cret@hooks.example/", "names a user or password"),
        ("https://s3cret@hooks.example/", "names a user or password"),
        ("HTTPS://ann:s3cret@hooks.example/", "names a user or password"),
        ("https://hooks.example/#s3cret", "fragment"),
        ("https://hooks.example/s3cret\\x", "backslash"),
        ("https://hooks.example:0/s3cret", "no port"),
        ("https://hooks.example:65536/s3cret", "no port"),
        ("https://hooks.example:99999/s3cret", "no port"),
        *((f"{scheme}://hooks.example/s3cret", "no http") for scheme in ("ftp", "file", "gopher", "ws", "unix", "HTTPS")),
        ("file:///etc/passwd", "no http"),
        ("//hooks.example/s3cret", "no http"),
        ("hooks.example/s3cret", "no http"),
        ("https:///s3cret", "no http"),
        ("https://", "no http"),
        ("https://b\u00fccher.example/s3cret", "no http"),
        ("https://hooks.example/s3cret\r\nHost: other", "no http"),
        ("https://hooks.example/s3 cret", "no http"),
        ("https://hooks.example\t/s3cret", "no http"),
        ("https://hooks.example%2f@other/s3cret", "no http|names a user"),
        ("https://hooks.example\\@other/s3cret", "no http|names a user"),
        ("https://[::1", "no http"),
        ("https://[1:2]/s3cret", "no IPv6 address"),
        ("https://0177.0.0.1/s3cret", "read differently"),
        ("https://127.1/s3cret", "read differently"),
        ("https://0X7F.1/s3cret", "read differently"),
        ("https://2130706433/s3cret", "read differently"),
        ("https://[.1]/s3cret", "no IPv6 address"),
        ("https://[fe80::1%25eth0]/s3cret", "no http"),
        (" https://hooks.example/s3cret", "no http"),
        ("", "no http"),
        (5, "no http"),
    ],
)
def test_another_url_is_refused_and_not_shown(url, problem):
    error = refused(lambda: hook(url, name="n"))
    assert error.field == "notify 'n'.url"
    assert any(one in error.problem for one in problem.split("|"))
    assert "s3cret" not in str(error)


def test_http_is_for_private_networks():
    assert hook("http://10.0.0.5:8080/x", allow_private=True).url == "http://10.0.0.5:8080/x"
    assert "user or password" in refused(lambda: hook("http://a:b@10.0.0.5/", allow_private=True)).problem


@pytest.mark.parametrize("variable", [SECRET, POST, "", "a b", "A=b", 5, None])
@pytest.mark.parametrize(
    ("field", "make"),
    [
        ("secret_env", lambda value: hook(secret_env=value)),
        ("url_env", lambda value: Slack(url_env=value)),
        ("user_env", lambda value: mail(user_env=value, password_env="PASS_OF")),
        ("password_env", lambda value: mail(user_env="USER_OF", password_env=value)),
    ],
)
def test_a_secret_itself_in_place_of_its_variable_is_refused_and_not_shown(field, make, variable):
    error = refused(lambda: make(variable))
    assert error.field.endswith(field if variable is not None else error.field.rpartition(".")[2])
    assert not variable or str(variable) not in str(error)


@pytest.mark.parametrize(
    "to",
    [
        *("", "ops", "ops@", "@example.com", "ops@example.com\r\nBcc: all@example.com", "a@b, c@d", "Ops <ops@example.com>", 5),
        *([], ["ops@example.com", "x"], [f"u{n}@example.com" for n in range(51)], "\u00f6ps@example.com", "a@b\nc"),
    ],
)
def test_mail_goes_to_addresses(to):
    assert refused(lambda: mail(to, name="n")).field == "notify 'n'.to"


def test_mail_may_go_to_several():
    assert mail(["a@example.com", "b@example.com"]).to == ("a@example.com", "b@example.com")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("sender", value) for value in ("x", "", 5, "a@b\r\nTo: c@d")),
        *(("host", value) for value in ("", 5, "smtp.example.com:25", "a b", "http://x", "a\n")),
        *(("port", value) for value in (0, 65536, "587", True, 5.5, None)),
        *(("content", value) for value in (1, "yes", None)),
    ],
)
def test_the_server_of_mail_is_plain(field, value):
    assert refused(lambda: mail(name="n", **{field: value})).field == f"notify 'n'.{field}"


def test_a_function_is_named_by_itself():
    (target,) = App(agents=[], notify=[tell]).notify
    assert (target.name, target.function, target.agents) == ("tell", tell, None)
    assert repr(target) == "<Notify 'tell'>"


@settings(max_examples=500)
@given(st.from_regex(r"https?://[!-~]{1,40}", fullmatch=True))
def test_no_two_readers_find_different_hosts_in_a_url_that_is_taken(url):
    """The one that is looked up and checked, and the one that the request goes to."""
    try:
        checked_url(url, "url", allow_private=True)
    except ConfigurationError:
        return
    parts, read = urlsplit(url), URL(url)
    assert (read.host, read.port) == (parts.hostname, parts.port or (443 if parts.scheme == "https" else 80))
    assert read.user is None
    assert read.password is None
