"""The base of everything that is stored or sent: frozen, strict about unknown fields."""

from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler
from pydantic_core import CoreSchema


class Record(BaseModel):
    """A frozen value with named fields.

    Fields are written in the order of their declaration, a base class's first. `LAST` names fields that are written after all
    others: it keeps the byte order from before fields moved to a base class.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")
    LAST: ClassVar[str] = ""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """The pydantic schema, with the fields in the order of writing."""
        fields = cls.__pydantic_fields__
        for name in cls.LAST.split():
            fields[name] = fields.pop(name)
        return handler(source)
