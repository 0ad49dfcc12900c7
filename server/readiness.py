"""Whether commands can be carried out: anybody is told which part is not ready, an administrator also why."""

import logging
import time
from collections.abc import Callable
from enum import StrEnum

from holdfast.client import AsyncClient
from holdfast.errors import ClusterError, HoldfastError
from holdfast.redaction import PLAIN
from holdfast.single_flight import SingleFlight

from .problems import headers_of, problem_of
from .refusal import Refusal

LOGGED_S = 60.0
"""After how many seconds the same error is logged again."""
WITHHELD = "the server's log says why"
_OF_ALL = ("type", "code", "title", "status", "detail")

logger = logging.getLogger("holdfast.server")


class Part(StrEnum):
    """What is known of one part of what stands behind the server."""

    OK = "ok"  # it answers, and is of use
    FAILED = "failed"  # it is not, and commands cannot be carried out because of it
    UNKNOWN = "unknown"  # it was not asked, since another part failed


class Readiness:
    """Whether a client can carry commands out; all who ask at once share one look. `clock` gives seconds."""

    def __init__(self, client: AsyncClient, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._looking = SingleFlight(client.ready)
        self._clock = clock
        self._logged: dict[type[HoldfastError], float] = {}

    async def check(self) -> None:
        """Return if commands can be carried out.

        Raises:
            HoldfastError: They cannot; `AsyncClient.ready` has the errors. The log has it too.
        """
        try:
            await self._looking.result()
        except HoldfastError as error:
            self.note(error)
            raise

    def note(self, error: HoldfastError) -> None:
        """Write an error to the log whose reason is withheld from a caller; the same class once in a while."""
        now, kind = self._clock(), type(error)
        if now - self._logged.get(kind, -LOGGED_S) >= LOGGED_S:
            self._logged[kind] = now
            logger.warning("not ready: %s", PLAIN.said(error, 500))


def unready(error: HoldfastError, *, whole: bool) -> Refusal:
    """The refusal that says which part is not ready; its class is that of the error, and its texts too where `whole`.

    The texts hold addresses, names and what Redis or Ray said. Whoever may not know these reads where they stand instead.
    """
    problem = problem_of(error)
    detail, title = problem["detail"], problem["title"]
    fields = {name: value for name, value in problem.items() if name not in _OF_ALL}
    if not whole:
        fields = {name: WITHHELD if isinstance(value, str) else value for name, value in fields.items()}
        detail = f"the server is not ready ({title}): {WITHHELD}"
    told = {**fields, "title": title, **parts_of(error)}
    return Refusal(problem["status"], problem["code"], detail, told, dict(headers_of(error)))


def parts_of(error: HoldfastError) -> dict[str, str]:
    """What an error says of Redis, and of the cluster: Ray with the sweeper of the store."""
    if isinstance(error, ClusterError):
        return {"redis": Part.OK.value, "cluster": Part.FAILED.value}
    return {"redis": Part.FAILED.value, "cluster": Part.UNKNOWN.value}
