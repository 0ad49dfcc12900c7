"""Known security holes of Redis, Valkey and Ray, as of `AS_OF`, and the first releases without them.

A hole is listed if it lets somebody run code or stop the server. Sources: the release notes of Redis and Valkey, and Ray's
advisories. A server that its operator patches under an old number looks worse here than it is.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .check import Check, ok, warn

AS_OF = "August 2026"

Line = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Hole:
    """A hole: its id, and for each release line the first patch release without it.

    A line missing in `mended` has the hole if it is older than the newest line there, and not older than `since`.
    """

    cve: str
    mended: Mapping[Line, int]
    since: Line = (0, 0)

    def is_in(self, line: Line, patch: int) -> bool:
        """Whether a release has the hole."""
        if line in self.mended:
            return patch < self.mended[line]
        return self.since <= line < max(self.mended)


HOLES: Mapping[str, Sequence[Hole]] = {
    "Redis": (
        Hole("CVE-2024-46981", {(6, 2): 17, (7, 2): 7, (7, 4): 2}),
        Hole("CVE-2025-21605", {(6, 2): 18, (7, 2): 8, (7, 4): 3}),
        Hole("CVE-2025-32023", {(6, 2): 19, (7, 2): 10, (7, 4): 5, (8, 0): 3}),
        Hole("CVE-2025-49844", {(6, 2): 20, (7, 2): 11, (7, 4): 6, (8, 0): 4, (8, 2): 2}),
        Hole("CVE-2025-62507", {(8, 2): 3}, since=(8, 2)),
        Hole("CVE-2026-23479", {(7, 2): 14, (7, 4): 9, (8, 2): 6, (8, 4): 3, (8, 6): 3}, since=(7, 2)),
        # Redis gave this hole no number; Valkey, which had it too, did.
        Hole("CVE-2026-63639", {(6, 2): 23, (7, 2): 15, (7, 4): 10, (8, 2): 8, (8, 4): 5, (8, 6): 5, (8, 8): 1}),
    ),
    "Valkey": (
        Hole("CVE-2025-49844", {(7, 2): 11, (8, 0): 6, (8, 1): 4}),
        Hole("CVE-2026-23479", {(7, 2): 13, (8, 0): 9, (8, 1): 7, (9, 0): 4}),
        Hole("CVE-2026-63639", {(7, 2): 14, (8, 0): 10, (8, 1): 9, (9, 0): 5, (9, 1): 1}),
    ),
    "Ray": (Hole("CVE-2025-62593", {(2, 52): 0}), Hole("CVE-2026-27482", {(2, 54): 0})),
}


def holes_of(server: str, version: str) -> list[str]:
    """The ids of the known holes that a release has; none if its version cannot be read."""
    found = _read(version)
    return [] if found is None else [hole.cve for hole in HOLES[server] if hole.is_in(*found)]


def release_check(name: str, server: str, version: str, *, of: str = "", fix: str = "") -> Check:
    """The check of a release for known holes; `fix` ends the advice, and `of` begins the text of a release without holes."""
    holes = holes_of(server, version)
    if not holes:
        return ok(name, f"{of}{version}: no hole that was known in {AS_OF}")
    said = f"{server} {version} has holes that were known in {AS_OF}: {', '.join(holes)}"
    return warn(name, said, f"use {server} {mended(server, version)} or later{fix}")


def mended(server: str, version: str) -> str:
    """The nearest release without known holes: of the same line, else of the next line that has such a release."""
    line, _ = _read(version) or ((0, 0), 0)
    lines = sorted({line for hole in HOLES[server] for line in hole.mended})
    whole = [one for one in lines if not any(hole.is_in(one, 10**6) for hole in HOLES[server])]
    nearest = next((one for one in whole if one >= line), whole[-1])
    patch = max(hole.mended.get(nearest, 0) for hole in HOLES[server])
    return f"{nearest[0]}.{nearest[1]}.{patch}"


def _read(version: str) -> tuple[Line, int] | None:
    parts = version.split(".")
    numbers = [int(part) for part in parts[:3] if part.isascii() and part.isdigit()]
    return ((numbers[0], numbers[1]), numbers[2]) if len(numbers) == 3 else None  # noqa: PLR2004 - major, minor, patch
