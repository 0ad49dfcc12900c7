"""Ids as parts of a URL's path."""

import re
from urllib.parse import quote

_FITS = re.compile(r"[A-Za-z0-9_~:-][A-Za-z0-9._~:-]{0,127}")


def part(name: str) -> str:
    """An id as one part of a path. `.` and `..` are quoted, since they would lead elsewhere."""
    return name.replace(".", "%2E") if name in (".", "..") else quote(name, safe=":")


def fits(name: object) -> bool:
    """Whether an id of a turn or a suspension can stand in a path; Holdfast makes no others."""
    return isinstance(name, str) and _FITS.fullmatch(name) is not None
