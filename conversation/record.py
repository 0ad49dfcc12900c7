"""The base class of everything that is stored or sent."""

from collections.abc import Mapping
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler
from pydantic_core import CoreSchema

_new, _set = object.__new__, object.__setattr__


class Record(BaseModel):
    """A frozen value with named fields; unknown fields are refused.

    Fields are written in the order of their declaration, a base class's first. `LAST` names fields that are written after all
    others: it keeps the byte order from before fields moved to a base class.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")
    LAST: ClassVar[str] = ""

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy with changed fields. Quicker than pydantic's: a record has nothing but its fields, and they never change."""
        if deep:
            return super().model_copy(update=update, deep=True)
        copied = _new(type(self))
        _set(copied, "__dict__", {**self.__dict__, **(update or {})})
        _set(copied, "__pydantic_fields_set__", self.__pydantic_fields_set__ | (update or {}).keys())
        _set(copied, "__pydantic_extra__", None)
        _set(copied, "__pydantic_private__", None)
        return copied

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """The pydantic schema, with the fields in the order of writing."""
        fields = cls.__pydantic_fields__
        for name in cls.LAST.split():
            fields[name] = fields.pop(name)
        return handler(source)
