"""How much of one sort a process has open at once."""

from collections import Counter
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from .refusal import Refusal


class Share(NamedTuple):
    """A part of all places, and whose it is: what is counted together, and how a refusal begins."""

    name: Hashable
    part: float
    whose: str = "you have"


class Slots:
    """So many places, each held for a while; who comes when all are taken is asked to come back.

    Args:
        limit: How many there are.
        code: The code of the refusal.
        what: What takes a place, in the plural, for the refusal.
        retry_s: When to come back.
    """

    def __init__(self, limit: int, *, code: str, what: str, retry_s: int) -> None:
        self._limit = limit
        self._code = code
        self._what = what
        self._retry_s = retry_s
        self._taken = 0
        self._held: Counter[Hashable] = Counter()

    def __len__(self) -> int:
        return self._taken

    def check(self) -> None:
        """Refuse one more where all places are taken.

        Raises:
            Refusal: All places are taken.
        """
        if self._taken >= self._limit:
            detail = f"this server has {self._taken} {self._what}, and no more at once"
            raise Refusal(429, self._code, detail, headers={"Retry-After": str(self._retry_s)})

    def check_shares(self, *shares: Share) -> None:
        """Refuse one more of somebody who holds as many places as each of these shares may.

        Raises:
            Refusal: One of the shares is used up.
        """
        for share in shares:
            most = max(round(self._limit * share.part), 1)
            if self._held[share.name] >= most:
                detail = f"{share.whose} {most} {self._what}, and no more at once"
                raise Refusal(429, self._code, detail, headers={"Retry-After": str(self._retry_s)})

    @contextmanager
    def share(self, *shares: Share) -> Iterator[None]:
        """Count one place in each of these shares.

        Raises:
            Refusal: One of them is used up.
        """
        self.check_shares(*shares)
        with self.counted(*shares):
            yield

    @contextmanager
    def counted(self, *shares: Share) -> Iterator[None]:
        """Count one place in each of these shares, used up or not: `check_shares` was before."""
        self._held.update(share.name for share in shares)
        try:
            yield
        finally:
            for share in shares:
                self._held[share.name] -= 1
                if not self._held[share.name]:
                    del self._held[share.name]

    @contextmanager
    def one(self) -> Iterator[None]:
        """Hold a place."""
        self._taken += 1
        try:
            yield
        finally:
            self._taken -= 1
