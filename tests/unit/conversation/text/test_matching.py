"""Folding, globs and linear regular expressions: what coverage stands on."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.conversation.text.confusables import is_plain, skeleton
from holdfast.conversation.text.glob import BadGlob, Glob
from holdfast.conversation.text.matching import is_domain, is_plain_command, is_settled_path
from holdfast.conversation.text.regex import BadRegex, Regex, literal


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("RM x\t", "rm x\t"),
        ("\uff32\uff2d", "rm"),
        ("r\u200b\u202em\x00", "rm"),
        ("r\u0336m\ufe0f", "rm"),
        ("\u0420\u041c", "pm"),
        ("\u0391\u0392", "ab"),
        ("Stra\u00dfe", "strasse"),
        ("\u00c9", "e"),
        ("\uff05\u2215\u3002", "%/."),
        ("\u65e5\u672c", "\u65e5\u672c"),
    ],
)
def test_texts_that_look_alike_fold_to_the_same(text, said):
    assert skeleton(text) == said
    assert skeleton(said) == said


@given(st.text(), st.text())
def test_a_text_is_folded_character_by_character(one, other):
    assert skeleton(one + other) == skeleton(one) + skeleton(other)


@pytest.mark.parametrize("text", ["", "a b", "\u00fcber", "\u65e5\u672c", "\u0939\u093f"])
def test_a_text_that_is_only_what_it_seems_is_plain(text):
    assert is_plain(text)


@pytest.mark.parametrize(
    "text", ["a\n", "\x7f", "a\u200b", "e\u0301", "\uff41", "a\u2215b", "a\u00a0b", "\u202ea", "a\u2013b", "\u037e"]
)
def test_a_text_that_may_be_taken_for_another_one_is_not(text):
    assert not is_plain(text)


@pytest.mark.parametrize(
    ("text", "parts", "stars"),
    [
        ("a", ("a",), ()),
        ("*", ("", ""), ("*",)),
        ("a/**/b*", ("a/", "/b", ""), ("**", "*")),
        ("a***b", ("a", "b"), ("**",)),
        (r"a\*\\\?", (r"a*\?",), ()),
    ],
)
def test_a_glob_is_read_as_it_is_written(text, parts, stars):
    glob = Glob.of(text)

    assert (glob.parts, glob.stars) == (parts, stars)
    assert glob.literal == (None if stars else parts[0])


@pytest.mark.parametrize(("text", "at"), [("a?", 1), ("a[b]", 1), ("a]", 1), ("{a}", 0), ("a\\", 1), ("\u00fc?", 1)])
def test_what_is_a_wildcard_elsewhere_is_no_glob(text, at):
    with pytest.raises(BadGlob) as raised:
        Glob.of(text)

    assert raised.value.at == at


@given(st.text())
def test_the_expression_of_a_literal_matches_it_alone(text):
    assert Regex(literal(text)).matches(text)
    assert not Regex(literal(text)).matches(f"{text}x")


@pytest.mark.parametrize("pattern", ["(", "a)|(b", r"(a)\1", "(?=a)b", "(?!a)b", "a{3000}", "(a{60}){60}", "[", "(?x)a #", "*"])
def test_what_does_not_match_in_linear_time_is_no_regular_expression(pattern):
    with pytest.raises(BadRegex):
        Regex(pattern)


def test_a_regular_expression_is_found_or_matches_the_whole():
    regex = Regex("(?m)^a|b$")

    assert regex.found("x\na")
    assert not regex.matches("a\nx")
    assert not regex.matches("a\n")
    assert regex.matches("a")
    assert repr(regex) == "Regex('(?m)^a|b$')"


@pytest.mark.parametrize("path", ["a", "a/b", "/a", "a b/c", ".env", "a.b/..c"])
def test_a_settled_path_leads_where_it_says(path):
    assert is_settled_path(path)


@pytest.mark.parametrize(
    "path",
    [
        *("", "/", ".", "..", "a/..", "./a", "a//b", "a/", "a /b", " a", "a/ b", "a.", "~", "~a/b", "..."),
        *("/proc/self/cwd/a", "/proc/1/root/a", "/proc/7/task/8/cwd", "/proc/self/fd/3/a", "/dev/fd/3", "x/proc/1/root/a"),
    ],
)
def test_other_paths_do_not(path):
    assert not is_settled_path(path)


@pytest.mark.parametrize("domain", ["x.com", "a-b.x.com", "localhost", "xn--bcher-kva.de", "127.0.0.1", "255.249.99.0"])
def test_a_domain_in_its_canonical_form(domain):
    assert is_domain(domain)


@pytest.mark.parametrize(
    "domain",
    [
        *(
            "",
            "X.com",
            "x.com.",
            ".x.com",
            "a..b",
            "-a.com",
            "a_b.com",
            "x.com:80",
            "b\u00fccher.de",
            "a" * 64,
            "a." * 130 + "a",
        ),
        *("127.1", "0177.0.0.1", "017700000001", "2130706433", "0x7f.0.0.1", "127.0.0.256", "127.0.0.01", "1.2.3.4.5", "x.0x1"),
    ],
)
def test_other_domains_are_not_in_it(domain):
    assert not is_domain(domain)


def test_a_plain_command_is_one_command():
    assert is_plain_command("npm run 'a b'")
    for command in ("", "a;b", "a 'b", "a\nb", "~/x", "-x", "a > b", "a $b"):
        assert not is_plain_command(command)
