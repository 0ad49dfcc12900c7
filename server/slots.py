"""Limits on what a process has open at once."""

from collections import Counter
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from .refusal import Refusal, too_often


class Share(NamedTuple):
    """A share of all places: what is counted together, how much of the whole, and how a refusal begins."""

    name: Hashable
    part: float
    whose: str = "you have"


class Slots:
    """A fixed number of places, each held for a while; when all are taken, a caller is refused for now.

    The refusal has this `code`, names `what` takes a place (in the plural), and says to retry after `retry_s` seconds.
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
        """Refuse one more if all places are taken."""
        if self._taken >= self._limit:
            raise self._full(f"this server has {self._taken}")

    def check_shares(self, *shares: Share) -> None:
        """Refuse one more if one of these shares is used up."""
        for share in shares:
            most = max(round(self._limit * share.part), 1)
            if self._held[share.name] >= most:
                raise self._full(f"{share.whose} {most}")

    def _full(self, held: str) -> Refusal:
        return too_often(self._code, f"{held} {self._what}, and no more at once", self._retry_s)

    @contextmanager
    def share(self, *shares: Share) -> Iterator[None]:
        """Count one place in each of these shares while the block runs, or refuse it if one is used up."""
        self.check_shares(*shares)
        with self.counted(*shares):
            yield

    @contextmanager
    def counted(self, *shares: Share) -> Iterator[None]:
        """Count one place in each of these shares, without a check: `check_shares` was called before."""
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
