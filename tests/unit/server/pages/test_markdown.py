"""Markdown from models and people: what is drawn of it, and that nothing of it can act."""

import re
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.client.inbox.text import visible
from holdfast.server.pages.markdown import LONGEST, markdown

TAGS = {"p", "br", "hr", "strong", "em", "s", "code", "pre", "blockquote", "ul", "ol", "li", "a"}
TAGS |= {"table", "thead", "tbody", "tr", "th", "td"}
ATTRIBUTES = {"a": {"href", "target", "rel"}, "ol": {"start"}, "pre": {"class", "tabindex"}}


class Checked(HTMLParser):
    """Fails where an element, an attribute or a URL could do anything."""

    def __init__(self, html):
        super().__init__()
        self.tags = []
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        assert tag in TAGS
        self.tags.append(tag)
        for name, value in attributes:
            assert name in ATTRIBUTES.get(tag, ()), (tag, name)
            if name == "href":
                assert re.match(r"https?://|mailto:", value, re.IGNORECASE), value


def test_what_people_use_of_markdown_is_drawn():
    html = markdown("# Title\n\n**bold** and `code` and [a link](https://x.example)\n\n- one\n- two\n\n| a |\n|---|\n| b |\n")

    assert "<p><strong>Title</strong></p>" in html
    assert {"p", "strong", "code", "a", "ul", "li", "table"} <= set(Checked(html).tags)
    assert 'rel="noopener noreferrer nofollow"' in html


@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "![tracked](https://evil.example/?secret)",
        "[x](javascript:alert(1))",
        "[x](JaVaScRiPt:alert(1))",
        "[x](java\nscript:alert(1))",
        "[x](&#106;avascript:alert(1))",
        "[x](data:text/html,<script>alert(1)</script>)",
        "[x](vbscript:x)",
        "<javascript:alert(1)>",
        '[x](https://x.example "onmouseover=alert(1)")',
        '[x](https://x.example" onmouseover="alert(1))',
        "<svg><script>alert(1)</script></svg>",
        "<!-- list -->",
        "<a href='https://x.example' style='position:fixed;inset:0'>x</a>",
        '<form action="https://evil.example"><button>Approve</button></form>',
        "<iframe src=https://evil.example>",
        "`<script>`",
        "```html\n<script>alert(1)</script>\n```",
        "<math><mtext><style><img src=x onerror=alert(1)></style></mtext></math>",
        "[a]: javascript:alert(1)\n\n[a]",
    ],
)
def test_nothing_in_it_can_act(text):
    html = markdown(text)

    Checked(html)
    assert "<script" not in html
    assert "<!--" not in html
    assert "<img" not in html


@given(st.text(alphabet=st.sampled_from(list("<>&\"'`[]()!*_#-:/\\ \nabjs=;{}|~")), max_size=120))
def test_no_text_at_all_gives_anything_but_plain_elements(text):
    Checked(markdown(text))


HIDDEN = [
    "a\u202etxt.exe",
    "a&#8238;txt.exe",
    "a&rlm;b",
    "a&#x200b;b",
    "`a\u202eb`",
    "[a&shy;b](https://x.example)",
    "&#x2066;",
    "&#x2800;",
]


@pytest.mark.parametrize("text", HIDDEN)
def test_characters_that_nobody_sees_are_shown_also_those_that_are_written_as_entities(text):
    html = markdown(text)

    assert html == visible(html)
    assert "\\u" in html or "\\x" in html


def test_links_within_this_site_are_none():
    html = markdown("[approve](/inbox/s-1) [there](//evil.example) [here](#x)")

    assert "href" not in html


def test_a_table_of_more_cells_than_are_drawn_is_text():
    assert "<table" not in markdown("|a" * 20 + "|\n" + "|-" * 20 + "|\n" + "|\n" * 500)


def test_a_very_long_text_is_shown_whole_and_plain():
    text = "*a* <b> " * LONGEST

    html = markdown(text)

    assert html.startswith('<pre class="text"')
    assert html.count("&lt;b&gt;") == LONGEST


@pytest.mark.parametrize("text", ["> " * 10_000, "[" * 10_000, "*a " * 9_000, "`" * 20_000, "- " * 10_000, "![](" * 8_000])
def test_what_is_nested_or_repeated_without_end_is_drawn_all_the_same(text):
    Checked(markdown(text))
