"""Whether commands can be carried out: everybody is told which part is not ready, an administrator also why."""

import logging
import time
from collections.abc import Callable

from holdfast.client import AsyncClient
from holdfast.errors import ClusterError, HoldfastError
from holdfast.redaction import PLAIN
from holdfast.single_flight import SingleFlight

from .error_responses import headers_of, problem_of
from .refusal import Refusal

LOGGED_S = 60.0
"""Seconds after which the same error is logged again."""
WITHHELD = "the server's log says why"
_OF_ALL = ("type", "code", "title", "status", "detail")

logger = logging.getLogger("holdfast.server")


class Readiness:
    """Whether a client can carry commands out; simultaneous requests share one check. `clock` gives seconds."""

    def __init__(self, client: AsyncClient, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._looking = SingleFlight(client.ready)
        self._clock = clock
        self._logged: dict[type[HoldfastError], float] = {}

    async def check(self) -> None:
        """Return if commands can be carried out; else raise the error of `AsyncClient.ready`, which is also logged."""
        try:
            await self._looking.result()
        except HoldfastError as error:
            self.note(error)
            raise

    def note(self, error: HoldfastError) -> None:
        """Log an error whose reason is withheld from a caller; the same class at most once in `LOGGED_S`."""
        now, kind = self._clock(), type(error)
        if now - self._logged.get(kind, -LOGGED_S) >= LOGGED_S:
            self._logged[kind] = now
            logger.warning("not ready: %s", PLAIN.said(error, 500))


def unready(error: HoldfastError, *, whole: bool) -> Refusal:
    """The refusal that names the part that is not ready and the error's class; with `whole` also the error's texts.

    The texts hold addresses, names, and messages of Redis or Ray. Other callers are told where to find them instead. The
    cluster (Ray with the store's sweeper) is `unknown` where it was not checked, since Redis failed.
    """
    problem = problem_of(error)
    detail, title = problem["detail"], problem["title"]
    fields = {name: value for name, value in problem.items() if name not in _OF_ALL}
    if not whole:
        fields = {name: WITHHELD if isinstance(value, str) else value for name, value in fields.items()}
        detail = f"the server is not ready ({title}): {WITHHELD}"
    parts = ("ok", "failed") if isinstance(error, ClusterError) else ("failed", "unknown")
    told = {**fields, "title": title, "redis": parts[0], "cluster": parts[1]}
    return Refusal(problem["status"], problem["code"], detail, told, dict(headers_of(error)))
