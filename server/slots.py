"""How much of one sort a process has open at once."""

from collections import Counter
from collections.abc import Hashable, Iterator
from contextlib import contextmanager

from .refusal import Refusal


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

    def check_share(self, name: Hashable, most: int | None = None) -> None:
        """Refuse one more of somebody who holds so many places; without a number, a quarter of all.

        Raises:
            Refusal: They hold as many already.
        """
        most = max(self._limit // 4, 1) if most is None else most
        if self._held[name] >= most:
            detail = f"you have {most} {self._what}, and no more at once"
            raise Refusal(429, self._code, detail, headers={"Retry-After": str(self._retry_s)})

    @contextmanager
    def share(self, name: Hashable, most: int | None = None) -> Iterator[None]:
        """Count one place as somebody's, who may hold so many of them; without a number, a quarter of all.

        Raises:
            Refusal: They hold as many already.
        """
        self.check_share(name, most)
        self._held[name] += 1
        try:
            yield
        finally:
            self._held[name] -= 1
            if not self._held[name]:
                del self._held[name]

    @contextmanager
    def one(self) -> Iterator[None]:
        """Hold a place."""
        self._taken += 1
        try:
            yield
        finally:
            self._taken -= 1
