"""Questions in a terminal: as `holdfast show` draws them, and asked one after the other."""

import sys
from collections.abc import Sequence
from typing import Any

from holdfast.conversation import Question
from holdfast.conversation.terms.questions import Answers, check
from holdfast.errors import InvalidDecision

from .display import clean, clean_block, tell

LONGEST_LINE = 64 * 1024
"""The most characters that are read of one line; answers are shorter."""


def drawn(question: Question, number: int) -> str:
    """A question in lines: its text, the expected input, and numbered options. A model's text cannot pose as one of them."""
    text = clean_block(question.text.strip()).replace("\n", "\n   │ ")
    lines = [f"{number}. {text}", f"   ({_expected(question)}; its id is {clean(question.id)})"]
    lines += [f"   {place}) {clean(option)}" for place, option in enumerate(question.options or (), 1)]
    return "\n".join(lines)


def asked(questions: Sequence[Question]) -> Answers:
    """A person's answers in the terminal to these questions; a question is repeated until its answer is valid.

    An option is named by its number or its text, several by numbers separated by commas. An empty line takes the default, or
    skips the question.
    """
    answers: dict[str, Any] = {}
    for number, question in enumerate(questions, 1):
        tell(f"{drawn(question, number)}\n")
        while True:
            tell("   > ")
            line = sys.stdin.readline(LONGEST_LINE)
            if not line:
                tell("\n")
                problem = f"the input ended at question {number} of {len(questions)}"
                raise InvalidDecision("--answer", problem, "answer all of them, or give --answer JSON")
            said = _said(question, line.rstrip("\r\n"))
            try:
                answers |= check([question], {} if said is None else {question.id: said})
            except InvalidDecision as error:
                tell(f"   {clean(error.problem)}: {clean(error.fix)}\n")
            else:
                break
    return answers


def _expected(question: Question) -> str:
    what = "in your own words"
    if question.options is not None:
        what = "choose some, with commas between their numbers" if question.multiple else "choose one"
    if question.default is not None:
        default = question.default if isinstance(question.default, str) else ", ".join(question.default)
        return f"{what}; left empty: {clean(default)}"
    return f"{what}, needed" if question.required else f"{what}, may be left empty"


def _said(question: Question, line: str) -> str | list[str] | None:
    """The answer in a line; None if it is empty."""
    if not line.strip():
        return None
    if question.options is None:
        return line
    if not question.multiple:
        return _option(question.options, line.strip())
    if line.strip() in question.options:
        return [line.strip()]
    parts = [part.strip() for part in line.split(",")]
    return list(dict.fromkeys(_option(question.options, part) for part in parts if part))


def _option(options: Sequence[str], said: str) -> str:
    """The option with this text, or else this number; the line itself if there is none."""
    by_number = said.isascii() and said.isdigit() and len(said) <= len(str(len(options))) and 1 <= int(said) <= len(options)
    return options[int(said) - 1] if by_number and said not in options else said
