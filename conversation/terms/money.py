"""Money as whole numbers, so that sums have no rounding errors: billionths of a US dollar."""

NANOS = 1_000_000_000
"""How many billionths a US dollar has."""
MOST_USD = 1_000_000.0
"""The largest bound of a cost; an answer that is said to cost more has no known cost."""


def nanos(usd: float | None) -> int:
    """An answer's cost in billionths of a US dollar; 0 if it is unknown."""
    return round(usd * NANOS) if usd is not None and 0 < usd < MOST_USD else 0
