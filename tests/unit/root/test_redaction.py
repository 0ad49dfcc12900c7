"""Secrets in texts: by their values in whatever way these are escaped, by their place, by their shape; linear in the text."""

import base64
import json
import re
import string
import urllib.parse

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from holdfast import redaction as module
from holdfast.redaction import HIDDEN, MOST_CHARACTERS, MOST_VALUES, PLAIN, SHORTEST, Redaction, said

KEY = "hunter2-/+ü'\"\\x"


def values():
    """Secrets long enough, of characters that no label has."""
    characters = st.characters(exclude_categories=["Cs"], exclude_characters="[]_*")
    return st.text(characters, min_size=SHORTEST, max_size=40).filter(lambda text: len(text.strip()) >= SHORTEST)


ESCAPES = {
    "as it is": lambda value: value,
    "JSON": json.dumps,
    "JSON in UTF-8": lambda value: json.dumps(value, ensure_ascii=False),
    "JSON within JSON": lambda value: json.dumps(json.dumps({"error": value})),
    "JSON of another language": lambda value: json.dumps(value, ensure_ascii=False).replace("/", "\\/"),
    "Python": repr,
    "Python within Python": lambda value: repr(repr(value)),
    "Python's bytes": lambda value: repr(value.encode()),
    "JSON in Python's bytes": lambda value: repr(json.dumps(value).encode()),
    "URL": lambda value: urllib.parse.quote(value, safe=""),
    "path of a URL": urllib.parse.quote,
    "form": urllib.parse.quote_plus,
    "URL in small letters": lambda value: re.sub("%..", lambda found: found[0].lower(), urllib.parse.quote(value, safe="")),
    "base64": lambda value: base64.b64encode(value.encode()).decode(),
    "base64 for URLs": lambda value: base64.urlsafe_b64encode(value.encode()).decode(),
}


@pytest.mark.parametrize("escape", ESCAPES.values(), ids=ESCAPES)
@settings(max_examples=20)
@given(value=values(), before=st.text(max_size=5), after=st.text(max_size=5))
@example(value=KEY, before="", after="")
@example(value="a'b\"c\\d/e", before="", after="")
def test_a_secret_survives_in_no_escaped_form(escape, value, before, after):
    found = Redaction({"TOKEN_OF_MINE": value}).redacted(f"{before}{escape(value)}{after}")

    assert value not in found
    assert escape(value).strip("\"'b") not in found or not escape(value).strip("\"'b")


@given(value=values(), user=st.text(string.ascii_letters, min_size=0, max_size=4), after=st.text(max_size=4))
def test_a_secret_does_not_survive_in_base64_with_something_before_and_after_it(value, user, after):
    encoded = base64.b64encode(f"{user}:{value}{after}".encode()).decode()
    found = Redaction({"PASSWORD": value}).redacted(f"Basic credentials {encoded} were refused")

    assert "[PASSWORD]" in found or HIDDEN in found
    core = base64.b64encode(value.encode()).decode().rstrip("=")[:-1]
    assert (len(user) + 1) % 3 or core not in found


@settings(max_examples=30)
@given(st.lists(values(), min_size=2, max_size=6, unique=True), st.data())
def test_of_secrets_that_overlap_none_survives(secrets, data):
    first = data.draw(st.sampled_from(secrets))
    chosen = {f"V{number}": secret for number, secret in enumerate([*secrets, first + secrets[0][:3], secrets[0][2:] + first])}
    text = "".join(data.draw(st.lists(st.sampled_from([*chosen.values(), " ", "x"]), max_size=8)))

    found = Redaction(chosen).redacted(text)

    assert not [secret for secret in chosen.values() if secret.strip() in found]


def test_the_longest_secret_is_named_and_short_values_are_none():
    redaction = Redaction({"A": "secret-one", "B": "secret-one-and-two", "C": "true"})
    assert redaction.redacted("secret-one-and-two, secret-one, true") == "[B], [A], true"
    assert "secret-one" not in repr(redaction)


def test_the_password_within_a_value_and_the_lines_of_a_key_are_secret_too():
    key = "-----BEGIN X-----\nMIIEvQIBADANBgkqhki\nG9w0BAQEFAASC\n-----END X-----"
    redaction = Redaction({"DATABASE_URL": "postgres://app:p%40ssw0rd@db/shop", "PEM": key}, urls=["redis://:open-sesame@r:1"])

    found = redaction.redacted("p@ssw0rd p%40ssw0rd open-sesame MIIEvQIBADANBgkqhki postgres://app:p%40ssw0rd@db/shop")

    assert found == "[DATABASE_URL] [DATABASE_URL] *** [PEM] [DATABASE_URL]"


def test_the_passwords_in_the_query_of_a_url_are_secret_too():
    redaction = Redaction(urls=["rediss://host/0?password=open%2Dsesame&ssl_password=looking-glass"])
    assert redaction.redacted("open-sesame open%2Dsesame looking-glass") == "*** *** ***"


def test_a_process_knows_the_variables_that_are_named_and_those_that_call_themselves_secret():
    environ = {"SHOP_DSN": "host=db user=x", "AWS_SECRET_ACCESS_KEY": "abcdefgh", "GH_TOKEN": "ijklmnop", "LANG": "C.UTF-8"}
    found = Redaction.of_process(environ, ["SHOP_DSN", "MISSING"]).redacted("host=db user=x abcdefgh ijklmnop C.UTF-8")
    assert found == "[SHOP_DSN] [AWS_SECRET_ACCESS_KEY] [GH_TOKEN] C.UTF-8"


def test_of_too_many_variables_those_count_that_call_themselves_secret():
    many = {f"V{number}": f"value-{number:06}" for number in range(MOST_VALUES + 10)} | {"Z_API_KEY": "the-real-one"}
    assert Redaction(many).redacted("the-real-one") == "[Z_API_KEY]"


def passwords():
    """Passwords as they stand in URLs that were put together without escaping."""
    return st.text(string.ascii_letters + string.digits + "@/:#?%!$&()*+,;=[]^{}|~.-_", min_size=1, max_size=20).filter(
        lambda text: "://" not in text and not text.startswith(("*", "/"))
    )


@given(
    password=passwords(), user=st.sampled_from(["", "app", "a.b-c"]), scheme=st.sampled_from(["redis", "postgresql+psycopg"])
)
@example(password="p@ss/w0rd", user="", scheme="redis")
@example(password="%40%2F", user="app", scheme="redis")
def test_the_user_part_of_a_url_is_hidden_whatever_the_password_holds(password, user, scheme):
    url = f"{scheme}://{user}:{password}@db.internal:5432/0"

    assert PLAIN.redacted(f"cannot connect to {url} now") == f"cannot connect to {scheme}://***@db.internal:5432/0 now"
    assert PLAIN.redacted(repr({"dsn": url})) == repr({"dsn": f"{scheme}://***@db.internal:5432/0"})


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgres://u:p@h/db, redis://:q@h2/1", "postgres://***@h/db, redis://***@h2/1"),
        ("amqp://u:p@h1,amqp://u:p2@h2", "amqp://***@h1,amqp://***@h2"),
        ("https://ghp_x@github.com/a.git", "https://***@github.com/a.git"),
        ("https://u:p@h:80/a@b", "https://***@h:80/a@b"),
        ("?to=redis%3A%2F%2F%3Apass%40host", "?to=redis%3A%2F%2F***%40host"),
        ('{"u":"redis:\\/\\/:pass@host"}', '{"u":"redis:\\/\\/***@host"}'),
        ("Authorization: Bearer abcdef", "Authorization: ***"),
        ("{'Authorization': 'Basic YWJj', 'x': 1}", "{'Authorization': '***', 'x': 1}"),
        ("(b'authorization', b'Bearer abc')", "(b'authorization', b'***')"),
        ("X-Api-Key: foo", "X-Api-Key: ***"),
        ("Set-Cookie: a=b; c=d\nnext", "Set-Cookie: ***\nnext"),
        ("sent Bearer abc12345 there", "sent Bearer *** there"),
        ("host=h password=abc user=u", "host=h password=*** user=u"),
        ("host=h password='it\\'s me' user=u", "host=h password='***' user=u"),
        ("connect(password=abc, host=1)", "connect(password=***, host=1)"),
        ("?api_key=abc&x=1", "?api_key=***&x=1"),
        ("Pwd=a,b;Server=x", "Pwd=***;Server=x"),
        ('{"password": "hu\\"nter"}', '{"password": "***"}'),
        ('{\\"client_secret\\": \\"hunter\\"}', '{\\"client_secret\\": \\"***\\"}'),
        ("password: hunter2", "password: ***"),
        ("Incorrect API key provided: sk-abcdefghijklmnopqrstuv.", "Incorrect API key provided: ***."),
        ("https://api.x/?key=AIzaSyA1234567890123456789012345678901x", "https://api.x/?key=***"),
        (f"see https://x.example/r/k1.WyJjLTEi{'Lk_-' * 12}.{'-b9' * 14}x, then", "see https://x.example/r/***, then"),
        (f"k1.WyJjLTEi{'Lk_-' * 12}.{'b' * 42} is no link", f"k1.WyJjLTEi{'Lk_-' * 12}.{'b' * 42} is no link"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.abc!", "***!"),
        ("eyAiYWxnIjogIkhTMjU2IiB9.eyJzdWIiOiAiYSJ9.abc!", "***!"),
        ("for ewoiYWxnIjoiSFMyNTYifQ.eyJzdWIiOiAiYSJ9. there", "for *** there"),
        ("eyJhbGciOiJkaXIifQ..c2lnc2ln.c2lnc2ln.c2lnc2ln!", "***!"),
        ("-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----\nok", "***\nok"),
    ],
)
def test_what_is_secret_by_its_place_or_shape_is_hidden_and_stays_so(text, shown):
    assert PLAIN.redacted(text) == shown
    assert PLAIN.redacted(shown) == shown


@pytest.mark.parametrize(
    "text",
    [
        "redis://host:6379/0",
        "http://localhost:8000/users/@me",
        '{"a":"http://h:80","m":"a@b"}',
        "$.password: Input should be a valid string",
        "password: must be longer",
        "Access denied for user 'root'@'localhost' (using password: YES)",
        "max_tokens=4096",
        "api_key=None",
        "api_key=[OPENAI_API_KEY]",
        "Unexpected token: foo",
        "bearer authentication failed",
        "a risk-assessment-of-something-big",
        "a run of three: a, b and c",
    ],
)
def test_what_is_no_secret_is_left(text):
    assert PLAIN.redacted(text) == text


@pytest.mark.parametrize("cut", range(80))
def test_a_cut_leaves_no_half_of_a_secret(cut):
    secret = "abcdefghij" * 3
    text = f"cannot log in with {secret} at redis://:{secret}@host"
    found = Redaction({"MY_KEY": secret}).redacted(text, cut)

    assert len(found) <= cut
    assert "abc" not in found


def test_what_stands_after_long_secrets_is_not_cut_for_their_length():
    secret = "abcdefghij" * 300
    assert (
        Redaction({"MY_KEY": secret}).redacted(f"{secret} {secret} {secret} it failed", 40)
        == "[MY_KEY] [MY_KEY] [MY_KEY] it failed"
    )


@pytest.mark.parametrize("shift", [1, 59])
def test_where_a_long_text_is_no_longer_looked_at_no_half_of_a_secret_is_left(shift):
    secret = "abcdefghij" * 500
    text = "." * (MOST_CHARACTERS - shift) + secret + "." * 100
    for limit in (None, 100, MOST_CHARACTERS):
        assert "abc" not in Redaction({"MY_KEY": secret}).redacted(secret * 60 + text, limit)
        assert "abc" not in Redaction({"MY_KEY": secret}).redacted(text, limit)


class Text(str):
    """A text that counts how often, and how far, it is searched."""

    __slots__ = ("searched",)

    def __new__(cls, text):
        made = super().__new__(cls, text)
        made.searched = 0
        return made

    def find(self, what, start=0, end=None):
        found = super().find(what, start, len(self) if end is None else end)
        self.searched += (found if found >= 0 else len(self) if end is None else end) - start
        return found

    rfind = find


class Counting:
    """The module `re`, whose patterns count how far they search from a place that they are given."""

    def __init__(self):
        self.searched = 0

    def __getattr__(self, name):
        return getattr(re, name)

    def compile(self, pattern, *flags):
        compiled, counting = re.compile(pattern, *flags), self

        class Pattern:
            def __getattr__(self, name):
                return getattr(compiled, name)

            def search(self, text, start=0, end=None):
                end = len(text) if end is None else end
                found = compiled.search(text, start, end)
                counting.searched += (end if found is None else found.start()) - start
                return found

        return Pattern()


@pytest.mark.parametrize("unit", ["a://", "://@", "a:/", "%3A%2F%2F", "http://a:b@c ", "abcdef", "redis://h/x?", "http://h/@"])
def test_the_work_grows_with_the_text_and_no_faster(unit, monkeypatch):
    counting = Counting()
    monkeypatch.setattr(module, "re", counting)

    def work(length):
        text = Text((unit * length)[:length])
        counting.searched = 0
        list(Redaction({"A_KEY": "abcdef"})._spans(text))
        return text.searched + counting.searched

    assert work(20_000) <= 2.5 * work(10_000) + 1000


def test_an_error_that_cannot_say_what_it_is_is_its_class():
    class Mute(Exception):
        def __str__(self):
            raise ValueError

    assert said(Mute()) == "Mute"
    assert PLAIN.said(ValueError("redis://:pw@h")) == "ValueError: redis://***@h"


def test_every_pattern_hides_what_it_names():
    assert all(set(pattern.groupindex) & set(module._GROUPS) for pattern in module._patterns())


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("input_value='postgres-hunter2...and-more-42', input_type=str", "input_value='[DB]...[DB]', input_type=str"),
        ("…and-more-42", "…[DB]"),
        ("['postgres-hunter2 [...] and-more-42']", "['[DB] [...] [DB]']"),
        ("it was 'postgres-hu…", "it was '[DB]…"),
        ("postgre...re-42", "postgre...re-42"),  # too little to know it by
        ("wait... postgres is down... and more", "wait... postgres is down... and more"),
        ("postgres-hunter1...", "postgres-hunter1..."),
    ],
)
def test_what_somebody_else_cut_in_the_middle_is_recognised_beside_the_ellipsis(text, shown):
    assert Redaction({"DB": "postgres-hunter2-with-signs-and-more-42"}).redacted(text) == shown


def test_a_value_in_html_and_the_signing_key_are_recognised():
    redaction = Redaction.of_process({"HOLDFAST_APP_KEY": "k&<0123456789"})
    assert redaction.redacted("<p>k&amp;&lt;0123456789</p>") == "<p>[HOLDFAST_APP_KEY]</p>"


@pytest.mark.parametrize("name", ["APP_KEYS", "HOLDFAST_LINK_KEYS"])
@pytest.mark.parametrize("between", [" ", ","])
def test_each_of_the_keys_that_a_variable_holds_is_recognised(name, between):
    redaction = Redaction.of_process({name: f"new:0123456789abcdefABCDEF{between}old:fedcba9876543210FEDCBA"})
    assert redaction.redacted("fedcba9876543210FEDCBA is no key") == f"[{name}] is no key"


def test_a_text_that_is_made_to_cost_much_beside_ellipses_costs_no_more_than_its_size(promptly):
    redaction = Redaction({f"KEY_{number}": "apiVersi" * 1500 + str(number) for number in range(100)})
    redaction.redacted(("apiVersi" * 40 + "...") * 500)


def test_the_key_in_the_headers_of_an_exporter_is_a_secret():
    environ = {"OTEL_EXPORTER_OTLP_HEADERS": "x-team=shop,x-honeycomb-team=hcaik-0123456789abcdef"}
    said = Redaction.of_process(environ).redacted("it answered 401 to hcaik-0123456789abcdef")
    assert said == "it answered 401 to [OTEL_EXPORTER_OTLP_HEADERS]"
