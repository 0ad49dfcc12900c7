"""The filters of a list's page: the fields of its query, and its controls."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, TypeAlias
from urllib.parse import urlencode

from pydantic import create_model

from holdfast.client.filters import Filter, fields_of

from .visit import Query

Options: TypeAlias = Sequence[tuple[str, str]]
"""Values that may be chosen, each with its text."""


class ListQuery(Query):
    """The query of a list's page: its filters, and what the page takes beside them."""

    declared: ClassVar[Sequence[Filter]] = ()

    @classmethod
    def of(cls, name: str, filters: Sequence[Filter], **more: Any) -> "type[ListQuery]":
        """The query with those of these filters that pages have, and with more fields."""
        on_page = [one for one in filters if one.label or one.check is None]
        fields: dict[str, Any] = fields_of(on_page) | more
        made = create_model(name, __base__=cls, **fields)
        made.declared = on_page
        return made

    @property
    def filters(self) -> dict[str, str]:
        """The filters that are set, as in the URL."""
        return {one.name: str(value) for one in self.declared if (value := getattr(self, one.name)) is not None}

    @property
    def suffix(self) -> str:
        """The filters as the end of a URL, with `?`; empty if none is set."""
        return f"?{urlencode(self.filters)}" if self.filters else ""

    @property
    def asked(self) -> dict[str, Any]:
        """The filters that the client's method takes."""
        return {one.name: getattr(self, one.name) for one in self.declared if one.check is not None}

    def wants(self, row: Any, now: int) -> bool:
        """Whether a row passes the filters."""
        given = [(one, getattr(self, one.name)) for one in self.declared]
        return all(value is None or one.wants(row, value, now) for one, value in given)

    @classmethod
    def controls(cls, known: Mapping[str, Options]) -> list[tuple[Filter, Options | None]]:
        """The filters that have a control, each with its options: those that the page knows, or else what may be chosen.

        A control without options (None) is a field for text.
        """
        labelled = [one for one in cls.declared if one.label]
        return [(one, known.get(one.name, [*one.values.items()] or None)) for one in labelled]
