"""The fields of a form as a person sent it."""

from collections.abc import Mapping, Sequence


class Form:
    """The fields of a form; an absent field reads as empty. Lines end in LF, not in the CRLF of forms."""

    def __init__(self, fields: Mapping[str, Sequence[str]]) -> None:
        self._fields = {name: [value.replace("\r\n", "\n") for value in values] for name, values in fields.items()}

    def __contains__(self, name: object) -> bool:
        return name in self._fields

    def get(self, name: str) -> str:
        """The last value of a field."""
        return self._fields.get(name, [""])[-1]

    def all(self, name: str) -> Sequence[str]:
        """All values of a field."""
        return self._fields.get(name, [])
