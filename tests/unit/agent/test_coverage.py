"""What one pattern covers in what allows and in what denies."""

import posixpath

from hypothesis import example, given
from hypothesis import strategies as st
from verdicts import allows, covers, denies, may_cover

from holdfast.agent import coverage
from holdfast.agent.patterns import parsed
from holdfast.agent.rule import RuleEffect
from holdfast.agent.rules import Rules


def test_an_argument_that_is_left_out_is_not_allowed_and_the_primary_one_is_denied():
    assert not allows("Bash(npm *)", "Bash")
    assert denies("Bash(rm *)", "Bash")
    assert not denies('Bash(path ~ "x")', "Bash")
    assert Rules(deny=["Bash(rm *)"]).verdict("Bash", {"text": "ls"}).effect is RuleEffect.DENY  # no argument is primary


def test_the_default_of_an_argument_that_is_left_out_counts():
    rules = Rules(deny=['Fetch(url ~ "*.evil.com")'])

    assert rules.verdict("Fetch", {}, defaults={"url": "https://a.evil.com"}).effect is RuleEffect.DENY
    assert (
        rules.verdict("Fetch", {"url": "https://good.com"}, defaults={"url": "https://a.evil.com"}).effect is RuleEffect.ALLOW
    )


def test_several_conditions_hold_together():
    pattern = 'Pay(currency = "EUR", to ~ "shop-*")'

    assert allows(pattern, "Pay", currency="EUR", to="shop-1")
    assert not allows(pattern, "Pay", currency="USD", to="shop-1")
    assert not allows(pattern, "Pay", currency="EUR")
    assert denies(pattern, "Pay", currency="eur", to="SHOP-1")
    assert not denies(pattern, "Pay", currency="USD", to="shop-1")


PATTERNS = [
    *("Bash(npm *)", "Bash(*)", "Bash(**)", "Bash(cat src/**)", "Bash(src/**)", "Bash(**/*.py)", "Bash(*.x.com)", "Bash(x*y)"),
    *(
        "Bash(https://*.x.com/v1/**)",
        "Bash(/a/*)",
        "Bash(a/**/b)",
        'Bash(text = "a  B")',
        'Bash(text =~ "[ab](.|\\n)*")',
        "Bash(n*m  *)",
    ),
    *("Bash(./a/*)", "Bash(x.com)", "Bash(\u00fc*)", r"Bash(a\*b *)", "Bash", "B*", "/B.*/"),
]


WORDS = st.sampled_from(
    [
        *(
            "npm",
            " ",
            "  ",
            "i",
            "src/",
            "a",
            "/",
            "b",
            ".py",
            "..",
            ".",
            "x",
            "y",
            ".com",
            "https://",
            "v1",
            "'",
            '"',
            ";",
            "$(",
            "\n",
        ),
        *(
            "%2e",
            "\u00fc",
            "\u0435",
            "\u200b",
            "\uff4e",
            "*",
            "A",
            "a  B",
            "cat ",
            "./",
            "@",
            ":",
            "\\",
            "~",
            "-",
            "\u00df",
            "\u0130",
        ),
    ]
)


@given(
    st.sampled_from(PATTERNS), st.lists(WORDS, max_size=8).map("".join) | st.text(max_size=30) | st.integers() | st.booleans()
)
@example("Bash(npm *)", "npm i")
@example("Bash(cat src/**)", "cat src/a/b")
def test_what_a_pattern_allows_it_would_also_deny(pattern, value):
    read = parsed(pattern)

    if covers(read, "Bash", {"text": value}, "text"):
        assert may_cover(read, "Bash", {"text": value}, "text")


@given(st.sampled_from(["npm ", "npm"]), st.lists(WORDS, max_size=8).map("".join) | st.text(max_size=40))
def test_what_is_allowed_is_never_more_than_one_plain_command(begin, rest):
    if allows("Bash(npm *)", "Bash", begin + rest):
        assert (begin + rest).startswith("npm ")
        assert not set(rest) & set(";&|`$<>(){}[]\n\r\\!#")


@given(
    st.sampled_from(["src/**", "src/*", "**/*.py", "src/**/a", "**", "*"]),
    st.lists(st.sampled_from(["src", "/", "..", ".", "a", " ", "x.py", "\\", "%2e", "~", "\u2024"]), max_size=8).map("".join)
    | st.text(max_size=20),
)
@example("src/**", "src/a/x.py")
def test_a_path_that_is_allowed_stays_where_it_says(glob, path):
    if allows(f'Edit(path ~ "{glob}")', "Edit", path=path):
        assert posixpath.normpath(path) == path
        assert not path.startswith(("/", "~"))
        assert ".." not in path.split("/")
        assert posixpath.normpath(f"/root/{path}").startswith("/root/src/" if glob.startswith("src") else "/root/")


def test_what_a_text_means_is_found_out_once_for_its_proposal_and_its_run():
    coverage.readings_of.cache_clear()
    first, again = (may_cover(parsed("Bash(rm *)"), "Bash", {"command": "sudo rm -rf x"}, "command") for _ in range(2))
    other = may_cover(parsed("Bash(rm *)"), "Bash", {"command": "ls -rf x"}, "command")
    assert (first, again, other) == (True, True, False)
    assert coverage.readings_of.cache_info()[:2] == (1, 2), "hits and misses"


def test_the_readings_of_long_texts_are_not_kept():
    coverage.readings_of.cache_clear()
    for _ in range(2):
        assert may_cover(parsed("Bash(rm *)"), "Bash", {"command": "x " * 5000 + "; rm x"}, "command")
    assert coverage.readings_of.cache_info().currsize == 0
