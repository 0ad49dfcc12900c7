"""Reading a file of permission rules: YAML, which includes JSON, bounded before it is built."""

from pathlib import Path
from typing import Any

import yaml

from holdfast.errors import InvalidRule

LONGEST_BYTES = 1 << 20
"""The most bytes of a file."""
_MOST_EVENTS = 50_000
_MOST_DEEP = 8


def read(path: Path) -> Any:
    """The content of a file, as plain values."""
    where = str(path)
    try:
        with path.open("rb") as file:
            data = file.read(LONGEST_BYTES + 1)
    except OSError as error:
        raise InvalidRule(where, f"it cannot be read ({error.strerror})", "name a file of rules") from None
    if len(data) > LONGEST_BYTES:
        raise InvalidRule(where, f"it has more than {LONGEST_BYTES} bytes", "write fewer, wider rules")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidRule(where, f"it is not UTF-8 (at byte {error.start})", "save it as UTF-8") from None
    try:
        _check_bounds(text)
        tree = yaml.compose(text, Loader=yaml.SafeLoader)
        _check_keys(tree)
        return yaml.SafeLoader("").construct_document(tree) if tree is not None else None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        at = "" if mark is None else f" (line {mark.line + 1}, column {mark.column + 1})"
        fix = 'correct it there; a pattern that begins with * or has a colon stands in quotes: "*"'
        raise InvalidRule(where, f"{error.problem or error.context}{at}", fix) from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        line = " ".join(str(error).split())
        raise InvalidRule(where, f"it is no YAML and no JSON ({line:.200})", "correct it") from None


def _check_bounds(text: str) -> None:
    """Refuse aliases, deep nesting and very many values before they are built."""
    deep = 0
    for number, event in enumerate(yaml.parse(text, Loader=yaml.SafeLoader)):
        if isinstance(event, yaml.AliasEvent):
            problem = f"*{event.anchor} is an alias, and rules may have none"
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=event.start_mark)
        deep += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if deep > _MOST_DEEP or number > _MOST_EVENTS:
            problem = "it is nested too deep" if deep > _MOST_DEEP else "it holds too many values"
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=event.start_mark)


def _check_keys(tree: Any) -> None:
    todo = [tree]
    while todo:
        node = todo.pop()
        if isinstance(node, yaml.SequenceNode):
            todo += node.value
        elif isinstance(node, yaml.MappingNode):
            seen = set()
            for key, value in node.value:
                if not isinstance(key, yaml.ScalarNode) or key.value in seen:
                    problem = (
                        "a key is no text" if not isinstance(key, yaml.ScalarNode) else f"{key.value!r:.60} stands there twice"
                    )
                    raise yaml.MarkedYAMLError(problem=problem, problem_mark=key.start_mark)
                seen.add(key.value)
                todo.append(value)
