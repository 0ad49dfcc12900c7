"""The built-in tool with which a model asks a person questions."""

from holdfast.conversation.terms.questions import (
    LONGEST_ANSWER,
    LONGEST_ID,
    LONGEST_OPTION,
    LONGEST_TEXT,
    MOST_OPTIONS,
    MOST_QUESTIONS,
)
from holdfast.conversation.terms.spec import Executor

from .tool import Tool

_DESCRIPTION = (
    "Ask the user questions and wait for the answers. Use it when you cannot go on without them; ask everything at once. "
    "The result has the answers by the ids of the questions; a question that is not required may have none."
)
_TEXT = {"type": "string", "minLength": 1}
_QUESTION = {
    "type": "object",
    "properties": {
        "id": {**_TEXT, "maxLength": LONGEST_ID, "description": "A short name for the answer, another one for each question."},
        "text": {**_TEXT, "maxLength": LONGEST_TEXT, "description": "What the user is asked."},
        "options": {
            "type": "array",
            "items": {**_TEXT, "maxLength": LONGEST_OPTION},
            "minItems": 1,
            "maxItems": MOST_OPTIONS,
            "description": "What the user chooses from; leave it out for an answer in the user's own words.",
        },
        "multiple": {"type": "boolean", "description": "Whether the user may choose several options; false by default."},
        "required": {"type": "boolean", "description": "Whether the user has to answer; true by default."},
        "default": {
            "anyOf": [{"type": "string", "maxLength": LONGEST_ANSWER}, {"type": "array", "items": {"type": "string"}}],
            "description": "The answer if the user gives none: a text, an option, or a list of options.",
        },
    },
    "required": ["id", "text"],
    "additionalProperties": False,
}
_PARAMETERS = {
    "type": "object",
    "properties": {"questions": {"type": "array", "items": _QUESTION, "minItems": 1, "maxItems": MOST_QUESTIONS}},
    "required": ["questions"],
    "additionalProperties": False,
}


class _Questions(Tool):
    """A human tool whose arguments are questions. The core checks the questions, and later the answers against them."""

    def __init__(self, name: str) -> None:
        super().__init__(name=name, description=_DESCRIPTION, parameters=_PARAMETERS, executor=Executor.HUMAN)
        self.spec = self.spec.model_copy(update={"questions": True})


ask_user_questions: Tool = _Questions("ask_user_questions")
"""A tool for the `tools=` of an agent: the model asks the user up to 16 questions in one call, and reads the answers by id.

Each question is a choice of one option, a choice of several, or a text; it may be required and may have a default. Unusable
questions are an error that the model reads. An answer is judged by the questions of its own call.
"""
