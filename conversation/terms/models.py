"""The models that an agent's calls are answered by: the first one, and its fallbacks."""

from typing import Any

from pydantic import Field, GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

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


class ModelChain(ModelSpec):
    """A model with those that are asked where it cannot answer.

    Attributes:
        fallbacks: These models, in the order in which they are asked.
    """

    fallbacks: tuple[ModelSpec, ...] = Field(default=(), max_length=MOST_FALLBACKS)

    @property
    def models(self) -> tuple[ModelSpec, ...]:
        """The models in the order in which they are asked."""
        return (self, *self.fallbacks)


class DeclaredModel:
    """A model as an app declares it (`holdfast.Model`). What is stored of it is its chain.

    Attributes:
        spec: The model as the machine knows it.
        own_options: Its options that are not stored, by name.
        fallbacks: The models that are asked where it cannot answer.
    """

    spec: ModelSpec
    own_options: dict[str, Any]
    fallbacks: "tuple[DeclaredModel, ...]"

    @property
    def chain(self) -> ModelChain:
        """The model and its fallbacks without the options that stay with the app."""
        return ModelChain(**dict(self.spec), fallbacks=tuple(one.spec for one in self.fallbacks))

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """The pydantic schema of a field that takes such a model."""
        del source, handler
        stored = core_schema.plain_serializer_function_ser_schema(lambda declared: declared.chain)
        return core_schema.is_instance_schema(cls, serialization=stored)
