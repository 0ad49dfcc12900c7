"""The model of a rehearsal: a list of replies, a function of the messages, or recorded transcripts."""

import inspect
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, TypeAlias

from holdfast.actors.worker.model_answer import ModelAnswer
from holdfast.conversation import Limits
from holdfast.errors import ConfigurationError

from .transcripts import COST, Message, NoAnswer, Replay, complete

Said: TypeAlias = Message | str | Exception
"""An assistant message, plain text, or the error with which the model call fails."""
Script: TypeAlias = Sequence[Said] | Callable[[list[Message]], Said | Awaitable[Said]] | Replay
"""The replies of a model; see `ScriptedModel`."""
Model: TypeAlias = Script | Mapping[str, Script]
"""The replies of a rehearsal's models: one script for all agents, or one for each, by their names."""

FIX = (
    'give a list like [call("refund", {"order": 7}), say("Done.")], a function of the messages, a Replay, or one for each agent'
)
SHOWN = 80
"""How many characters of the last message an error shows."""


class ProviderError(Exception):
    """What a provider says in place of an answer: in the script of a rehearsal, the error of a model call after its retries.

    What becomes of the call is decided by the status, as in a worker: with 503 the agent's next fallback is asked, with 400 the
    turn fails.

    Args:
        status_code: The HTTP status.
        message: The provider's words; some of them say that the request is too long.

    Raises:
        ConfigurationError: The status is no number from 100 to 599.
    """

    def __init__(self, status_code: int, message: str = "") -> None:
        if isinstance(status_code, bool) or not isinstance(status_code, int) or not 100 <= status_code <= 599:  # noqa: PLR2004
            problem = f"{status_code!r:.40} is not an HTTP status"
            raise ConfigurationError("status_code", problem, "give a number from 100 to 599, such as 503")
        super().__init__(status_code, message)
        self.status_code = status_code
        self.message = message

    def __str__(self) -> str:
        return f"{self.status_code} {self.message}".rstrip()


class ScriptedModel:
    """Replies for the conversations of a rehearsal; a list is used up in the order in which they ask.

    `agent` is the name of the only agent that it is for, if any. `model` is a list of replies, a function from the messages to
    one (async or not), or a `Replay`. A reply that is an exception is the error with which a model's tries failed, all of them.
    It means what it means to a worker, by its `status_code` (`ProviderError`) or its type: after an `OSError`, such as
    `ConnectionError()`, the next reply is that of the agent's next fallback.

    Raises:
        ConfigurationError: `model` is no script, or one of its replies is none.
    """

    def __init__(self, model: Script, agent: str = "") -> None:
        self._of = f" of agent {agent!r}" if agent else ""
        self._function = model if callable(model) else None
        self._replay = model if isinstance(model, Replay) else None
        if not (self._function or self._replay) and (isinstance(model, str | Mapping) or not isinstance(model, Sequence)):
            raise ConfigurationError("model", f"{type(model).__name__} is no script", FIX)
        listed = model if isinstance(model, Sequence) else ()
        self._replies = [_reply(said, f"model[{number}]") for number, said in enumerate(listed)]
        self._given = 0

    @property
    def left(self) -> int:
        """How many replies of a list were not asked for."""
        return len(self._replies) - self._given

    async def reply(self, messages: list[Message]) -> Message | Exception:
        """The reply to the messages: a whole assistant message, or the error with which the call fails.

        Raises:
            NoAnswer: The script has no more replies, or no recording continues from here.
            ConfigurationError: The function returned a value that is no reply.
            Exception: An error of the function.
        """
        if self._replay is not None:
            return self._replay.answer({"messages": messages})
        if self._function is not None:
            said = self._function(messages)
            return _reply(await said if inspect.isawaitable(said) else said, "the reply of the model's function")
        if not self.left:
            many = "1 reply" if len(self._replies) == 1 else f"{len(self._replies)} replies"
            raise NoAnswer(f"the script{self._of} has {many}, and the model is asked once more, {_last(messages)}")
        self._given += 1
        return self._replies[self._given - 1]


def scripts_of(model: Model, agents: Collection[str]) -> dict[str, ScriptedModel]:
    """The script of each agent. A mapping names agents; those that it leaves out have no replies."""
    if isinstance(model, Mapping) and model and model.keys() <= set(agents):
        return {name: ScriptedModel(model.get(name, ()), name) for name in agents}
    return dict.fromkeys(agents, ScriptedModel(model))  # type: ignore[arg-type]  # a mapping of other keys is refused


def answer_of(message: Message, limits: Limits) -> ModelAnswer:
    """The whole answer of a message, put together as by the worker from a stream, whose `Broken` and `TooMuch` it raises."""
    answer = ModelAnswer(limits)
    tool_calls = [
        SimpleNamespace(index=index, id=called["id"], function=SimpleNamespace(**called["function"]))
        for index, called in enumerate(message.get("tool_calls", ()))
    ]
    delta = SimpleNamespace(
        content=message["content"], reasoning_content=message.get("reasoning_content"), tool_calls=tool_calls
    )
    answer.add(SimpleNamespace(choices=[SimpleNamespace(index=0, delta=delta)]))
    answer.ended(message.get("finish_reason", "tool_calls" if tool_calls else "stop"))
    answer.used(_object_of(message.get("usage")))
    answer.finish()
    return answer


def cost_of(message: Message) -> float | None:
    """What a message's answer cost in US dollars; None if it does not say."""
    cost = message.get("usage", {}).get(COST)
    return None if cost is None else float(cost)


def _object_of(value: Any) -> Any:
    """Mappings as objects, as litellm gives them."""
    return SimpleNamespace(**{name: _object_of(one) for name, one in value.items()}) if isinstance(value, Mapping) else value


def _reply(said: Any, where: str) -> Message | Exception:
    if isinstance(said, Exception):
        return said
    try:
        message = complete(said, where)
    except ValueError as error:
        raise ConfigurationError(where, str(error), FIX) from error
    if "events" in message or "blocks" in message:
        problem = "it is written as a provider's stream, which only `ModelServer` sends"
        raise ConfigurationError(where, problem, "use say(), call() and calls()")
    return message


def _last(messages: list[Message]) -> str:
    if not messages:
        return "without any message"
    text = f"{messages[-1].get('content')!r}"
    return f"after the {messages[-1]['role']} message {text if len(text) <= SHOWN else text[:SHOWN] + '…'}"
