"""Markdown of models and people as HTML that can do no harm: no HTML of theirs, no picture from elsewhere, no script.

Two walls stand one behind the other: the renderer writes out none of the text's own HTML, and what it writes is cleaned against
a short list of elements and attributes.
"""

import nh3
from markdown_it import MarkdownIt
from markupsafe import Markup, escape

from .text import visible

LONGEST = 32_768
"""How many characters are rendered; a longer text is shown as it is, since rendering takes time with its length."""
_TAGS = frozenset(
    "p br hr h1 h2 h3 h4 h5 h6 strong em s code pre blockquote ul ol li table thead tbody tr th td a".split()  # noqa: SIM905
)
_SCHEMES = frozenset({"http", "https", "mailto"})
_renderer = MarkdownIt("commonmark", {"html": False, "linkify": False, "typographer": False, "maxNesting": 20})
_renderer.enable(["table", "strikethrough"]).disable(["image"])


def markdown(text: str) -> Markup:
    """The HTML of a text in markdown; hidden characters are shown, and headings stand below those of the page."""
    seen = visible(text)
    if len(seen) > LONGEST:
        return Markup('<pre class="text" tabindex="0">') + escape(seen) + Markup("</pre>")
    html = nh3.clean(
        _renderer.render(seen),
        tags=set(_TAGS),
        attributes={"a": {"href", "title"}, "ol": {"start"}},
        url_schemes=set(_SCHEMES),
        link_rel="noopener noreferrer nofollow",
    )
    return Markup(html)  # noqa: S704 - this is what was cleaned
