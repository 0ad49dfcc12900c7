"""The models that an agent's calls are answered by: the first one, and its fallbacks."""

from pydantic import Field

from holdfast.conversation.record import Record
from holdfast.conversation.text.jsontext import JsonText

from .stages import Seconds

RETRIES = 4
MOST_RETRIES = 10
MOST_FALLBACKS = 8


class Breaker(Record):
    """When a worker passes a model over, which failed again and again, and when it asks that model anew.

    Attributes:
        failures: After so many failed tries in a row the model is passed over.
        cooldown_s: For so many seconds; then tries are let through as probes.
        probes: How many probes there are at once. The first answer ends the passing over, a failure begins it again.
    """

    failures: int = Field(default=5, ge=1, le=1000)
    cooldown_s: Seconds = Field(default=30, le=86_400)
    probes: int = Field(default=1, ge=1, le=100)


class ModelSpec(Record):
    """A model as the machine knows it, and how often and when it is asked.

    Attributes:
        model: The model as litellm names it.
        options: Its stored options, as `AgentSpec.model_options`.
        retries: How often a try that failed for a passing reason is repeated.
        breaker: When it is passed over; None: never.
    """

    model: str
    options: JsonText = "{}"
    retries: int = Field(default=RETRIES, ge=0, le=MOST_RETRIES)
    breaker: Breaker | None = None
