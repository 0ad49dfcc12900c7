"""The quotas of an API key: the most that its requests, and those of pages that it lets in, may use in a day."""

from collections.abc import Sequence

from pydantic import ValidationError

from holdfast.errors import InvalidInput, QuotaUsedUp
from holdfast.persistence.api_keys import Quotas
from holdfast.persistence.quotas import CONVERSATIONS, COST, NANOS, STARTS, TOKENS, Exceeded, Used, Want

__all__ = ["Used", "amounts_of", "quotas_of", "used_up", "wants_of"]


def quotas_of(**most: float | None) -> Quotas:
    """The quotas of these values, checked: a bad one raises `InvalidInput`."""
    try:
        return Quotas.model_validate(most)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        problem = f"{first['input']!r:.40} is no quota: {first['msg']}"
        raise InvalidInput(str(first["loc"][0]), problem, "give a number above 0, or leave it out") from None


def wants_of(quotas: Quotas, *, starts: bool) -> Sequence[Want]:
    """How much of these quotas a message uses; `starts`: it starts a conversation, which counts too."""
    every = (
        (STARTS, 1, quotas.starts_per_day),
        (CONVERSATIONS, 1, quotas.conversations_per_day if starts else None),
        (TOKENS, 0, quotas.tokens_per_day),
        (COST, 0, _nanos(quotas.cost_usd_per_day)),
    )
    return [Want(quota, amount, most) for quota, amount, most in every if most is not None]


def amounts_of(quotas: Quotas, used: Used) -> dict[str, float]:
    """How much of each existing quota was used; a cost in US dollars."""
    return {name: _shown(name, used.amounts.get(name, 0)) for name, most in quotas.model_dump().items() if most is not None}


def used_up(exceeded: Exceeded, wants: Sequence[Want]) -> QuotaUsedUp:
    """The error of a message that a quota refuses."""
    name = exceeded.quota
    most = next(want.most for want in wants if want.quota == name)
    return QuotaUsedUp(name, _shown(name, exceeded.used), _shown(name, most), exceeded.until)


def _nanos(usd: float | None) -> int | None:
    return None if usd is None else max(round(usd * NANOS), 1)


def _shown(quota: str, amount: int) -> float:
    return amount / NANOS if quota == COST else amount
