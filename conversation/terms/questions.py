"""Questions of a model to a person: their form, their bounds, and whether answers fit them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Annotated, Any, TypeAlias

from pydantic import Field

from holdfast.conversation.text import jsontext
from holdfast.errors import InvalidDecision, InvalidInput
from holdfast.visible import without_hidden

MOST_QUESTIONS = 16
"""How many questions one call may ask."""
MOST_OPTIONS = 32
"""How many options one question may have."""
LONGEST_ID, LONGEST_TEXT, LONGEST_OPTION, LONGEST_ANSWER = 64, 2_000, 200, 8_000
"""The longest id and text of a question, option, and free-text answer; in characters."""

Given: TypeAlias = str | Sequence[str]
Answers: TypeAlias = dict[str, str | list[str]]
"""Answers by the ids of their questions: a text, an option, or a list of options."""


@dataclass(frozen=True, slots=True)
class Question:
    """One question to a person, answered by one option, by several options or by free text.

    Raises:
        InvalidInput: A part of it cannot be used; the error names the part.
    """

    id: Annotated[str, Field(description="The name of its answer: 1 to 64 visible characters, without spaces around them.")]
    text: Annotated[str, Field(description="What the person is asked, 1 to 2,000 characters.")]
    options: Annotated[
        Sequence[str] | None,
        Field(description="The texts to choose from, at most 32 of at most 200 characters; None: the answer is free text."),
    ] = field(default=None, kw_only=True)
    multiple: Annotated[bool, Field(description="Whether several options may be chosen.")] = field(default=False, kw_only=True)
    required: Annotated[bool, Field(description="Whether it has to be answered.")] = field(default=True, kw_only=True)
    default: Annotated[
        Given | None, Field(description="The answer if none is given: a text, an option, or several options.")
    ] = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        _check_line("id", self.id, LONGEST_ID)
        _check_text("text", self.text)
        for name, flag in (("multiple", self.multiple), ("required", self.required)):
            if not isinstance(flag, bool):
                raise InvalidInput(f"question.{name}", f"{flag!r:.40} is no boolean", "give true or false")
        if self.options is not None:
            object.__setattr__(self, "options", _options(self.options))
        if self.multiple and self.options is None:
            raise InvalidInput("question.multiple", "there is nothing to choose from", "give options, or leave it out")
        if self.default is not None:
            object.__setattr__(self, "default", _default(self))

    def to_dict(self) -> dict[str, Any]:
        """The fields as plain JSON values."""
        return {name: list(said) if isinstance(said := getattr(self, name), tuple) else said for name in _KEYS}

    def problem(self, value: object) -> tuple[str, str] | None:
        """The problem of a value as this question's answer, and the fix; None if the answer fits or is missing."""
        if self.options is None:
            if not isinstance(value, str):
                return f"{_kind(value)} is no text", "give a string"
            if len(value) > LONGEST_ANSWER:
                return f"it has {len(value)} characters, {LONGEST_ANSWER} are allowed", "shorten it"
        elif self.multiple:
            if not isinstance(value, list | tuple):
                return f"{_kind(value)} is no list of options", f"give a list with some of {_offered(self.options)}"
            for one in value:
                if not isinstance(one, str) or one not in self.options:
                    return f"{one!r:.80} is not offered", f"choose among {_offered(self.options)}"
            if len(set(value)) < len(value):
                return "an option is chosen twice", "choose each once"
        elif not isinstance(value, str):
            return f"{_kind(value)} is no choice", f"choose one of {_offered(self.options)}"
        elif value not in self.options:
            return f"{value!r:.80} is not offered", f"choose one of {_offered(self.options)}"
        return None

    def answer(self, value: Any) -> str | list[str]:
        """The answer as it is kept: several choices in the order of the options."""
        if self.options is not None and self.multiple:
            return [option for option in self.options if option in value]
        return str(value)


_KEYS = tuple(one.name for one in fields(Question))


class NotQuestions(ValueError):
    """The arguments of a call are not questions; the message says where and why, for the model."""


def parse(arguments: object) -> tuple[Question, ...]:
    """The questions of a call with these arguments, `{"questions": [{"id": ..., "text": ..., ...}]}`; else `NotQuestions`."""
    if not isinstance(arguments, Mapping) or set(arguments) != {"questions"}:
        raise NotQuestions("give an object with the one key questions")
    given = arguments["questions"]
    if not isinstance(given, list | tuple) or not 1 <= len(given) <= MOST_QUESTIONS:
        many = f"{len(given)} of them" if isinstance(given, list | tuple) else _kind(given)
        raise NotQuestions(f"questions: {many}, and not a list of 1 to {MOST_QUESTIONS} questions")
    found: dict[str, Question] = {}
    for place, one in enumerate(given):
        question = _parsed(one, f"questions[{place}]")
        if question.id in found:
            raise NotQuestions(f"questions[{place}].id: {question.id!r} stands there twice; give each question its own")
        found[question.id] = question
    return tuple(found.values())


def check(questions: Sequence[Question], value: object) -> Answers:
    """The answers to these questions, with the defaults of omitted ones; an optional one may stay unanswered.

    None, an empty list and a text of spaces are no answer. None also counts as omitted, so the default applies. The
    `InvalidDecision` of an answer that does not fit names the question.
    """
    if not isinstance(value, Mapping):
        raise InvalidDecision("decision.value", f"{_kind(value)} is no object", "give answers by the ids of the questions")
    known = {question.id: question for question in questions}
    for name in value:
        if name not in known:
            shown = ascii(name)
            problem = f"there is no question {shown if len(shown) <= LONGEST_ID else shown[:LONGEST_ID] + '...'}"
            place = f"decision.value.{name}" if _is_line(name, LONGEST_ID) else "decision.value"
            raise InvalidDecision(place, problem, f"answer {_offered(tuple(known))}")
    answers: Answers = {}
    for question in questions:
        given = value.get(question.id)
        if given is None:
            given = question.default
        if given is None:
            _check_optional(question, "it is not answered")
            continue
        wrong = question.problem(given)
        if wrong is not None:
            raise InvalidDecision(f"decision.value.{question.id}", *wrong)
        if not (given.strip() if isinstance(given, str) else given):
            _check_optional(question, "it is empty")
            continue
        answers[question.id] = question.answer(given)
    return answers


def defaults(questions: Sequence[Question]) -> Answers | None:
    """The default answers; None if a required question has none."""
    if any(question.required and question.default is None for question in questions):
        return None
    return check(questions, {})


def schema_of(questions: Sequence[Question]) -> dict[str, Any]:
    """A JSON Schema of the answers, for drawing forms; only `check` judges answers."""
    return {
        "type": "object",
        "properties": {question.id: _schema_of(question) for question in questions},
        "required": [question.id for question in questions if question.required and question.default is None],
        "additionalProperties": False,
    }


def _schema_of(question: Question) -> dict[str, Any]:
    said: dict[str, Any] = {"title": question.text}
    if question.options is None:
        said |= {"type": "string", "maxLength": LONGEST_ANSWER}
    elif question.multiple:
        choice = {"type": "string", "enum": list(question.options)}
        said |= {"type": "array", "items": choice, "uniqueItems": True}
    else:
        said |= {"type": "string", "enum": list(question.options)}
    if question.required and (question.options is None or question.multiple):
        said["minLength" if question.options is None else "minItems"] = 1
    if question.default is not None:
        said["default"] = question.default if isinstance(question.default, str) else list(question.default)
    return said


def _check_optional(question: Question, problem: str) -> None:
    if question.required:
        fix = "answer it" if question.options is None else f"choose among {_offered(question.options)}"
        raise InvalidDecision(f"decision.value.{question.id}", problem, fix)


def _parsed(given: object, where: str) -> Question:
    if not isinstance(given, Mapping):
        raise NotQuestions(f"{where}: {_kind(given)} is no object")
    unknown = [key for key in given if key not in _KEYS]
    if unknown:
        raise NotQuestions(f"{where}: a question has no key {unknown[0]!r:.40}; it has {', '.join(_KEYS)}")
    missing = [key for key in ("id", "text") if key not in given]
    if missing:
        raise NotQuestions(f"{where}.{missing[0]}: it is missing")
    named = {key: given[key] for key in _KEYS[2:] if given.get(key) is not None}
    try:
        return Question(given["id"], given["text"], **named)
    except InvalidInput as error:
        part = error.field.removeprefix("question.")
        raise NotQuestions(f"{where}.{part}: {error.problem}; {error.fix}") from None


def _options(given: object) -> tuple[str, ...]:
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise InvalidInput("question.options", f"{_kind(given)} is no list", "give a list of texts")
    if not 1 <= len(given) <= MOST_OPTIONS:
        raise InvalidInput("question.options", f"there are {len(given)}", f"give 1 to {MOST_OPTIONS}")
    for one in given:
        _check_line("options", one, LONGEST_OPTION)
    if len(set(given)) < len(given):
        raise InvalidInput("question.options", "one stands there twice", "give each once")
    return tuple(given)


def _default(question: Question) -> Given:
    given = question.default
    wrong = question.problem(given)
    if wrong is not None:
        raise InvalidInput("question.default", *wrong)
    _check_carried("question.default", given)
    if not (given.strip() if isinstance(given, str) else given):
        raise InvalidInput("question.default", "it is empty", "leave it out")
    answer = question.answer(given)
    return answer if isinstance(answer, str) else tuple(answer)


def _check_line(part: str, value: object, longest: int) -> None:
    if not _is_line(value, longest):
        fix = f"give 1 to {longest} visible characters, in one line and without spaces around them"
        raise InvalidInput(f"question.{part}", f"{value!a:.80} cannot be used", fix)


def _is_line(value: object, longest: int) -> bool:
    return (
        isinstance(value, str)
        and 1 <= len(value) <= longest
        and value == value.strip()
        and without_hidden(value, lambda _: "") == value
    )


def _check_text(part: str, value: object) -> None:
    if not isinstance(value, str) or not value.strip() or len(value) > LONGEST_TEXT:
        what = f"{_kind(value)} is no text" if not isinstance(value, str) else f"it has {len(value)} characters"
        raise InvalidInput(f"question.{part}", what, f"give 1 to {LONGEST_TEXT} characters")
    _check_carried(f"question.{part}", value)


def _check_carried(where: str, value: object) -> None:
    try:
        jsontext.dumps(value)
    except jsontext.NotJson as error:
        raise InvalidInput(where, str(error), "give text that can be encoded as UTF-8") from None


def _offered(options: Sequence[str]) -> str:
    shown = ", ".join(options)
    return shown if len(shown) <= LONGEST_OPTION else f"{shown[:LONGEST_OPTION]}..."


def _kind(value: object) -> str:
    return "null" if value is None else type(value).__name__
