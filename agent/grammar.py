"""The commands that a bash grammar finds in a text: in each branch, substitution and here-document."""

from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import tree_sitter

LONGEST = 4096
"""The most bytes that are parsed: the grammar needs quadratic time for some nonsense texts (here at most 0.1 s)."""
_BODIES = frozenset({"heredoc_body", "herestring_redirect"})
_BESIDE = frozenset({"variable_assignment", "variable_assignments", "file_redirect", "herestring_redirect", "heredoc_redirect"})


def found_in(text: str) -> Iterator[list[str] | str]:
    """Each command in a text as its words, with quotes, and each here-document as its text; none for a text too long."""
    source = text.encode(errors="replace")
    if len(source) > LONGEST:
        return
    cursor = _parser().parse(source).walk()
    while True:
        node = cursor.node
        if node is not None and node.type == "command":
            yield [_said(source, part) for part in node.named_children if part.type not in _BESIDE]
        elif node is not None and node.type in _BODIES:
            yield _said(source, node).lstrip("<")
        if cursor.goto_first_child():
            continue
        while not cursor.goto_next_sibling():
            if not cursor.goto_parent():
                return


def _said(source: bytes, node: "tree_sitter.Node") -> str:
    return source[node.start_byte : node.end_byte].decode(errors="replace")


def _parser() -> "tree_sitter.Parser":
    import tree_sitter  # noqa: PLC0415 - needed only to judge a command that is not plain

    return tree_sitter.Parser(_language())


@cache
def _language() -> "tree_sitter.Language":
    import tree_sitter  # noqa: PLC0415 - as above
    import tree_sitter_bash  # noqa: PLC0415 - as above

    return tree_sitter.Language(tree_sitter_bash.language())
