"""The base of everything that is stored or sent: frozen, strict about unknown fields."""

from pydantic import BaseModel, ConfigDict


class Record(BaseModel):
    """A frozen value with named fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")
