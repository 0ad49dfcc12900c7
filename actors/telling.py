"""Telling the store what a process has counted: when it keeps house anyway, and only if it has counted anything."""

import logging

from holdfast.counting import Counts
from holdfast.errors import StoreError
from holdfast.persistence import Tallies

logger = logging.getLogger("holdfast.actor")


async def tell(store: Tallies, counts: Counts) -> None:
    """Add to the store's counts what was counted here since the last time; what cannot be told is told the next time."""
    taken = counts.taken()
    if not taken:
        return
    try:
        await store.count(taken)
    except StoreError as error:
        counts.put_back(taken)
        logger.debug("counts are told later: %s", error)
    except BaseException:
        counts.put_back(taken)
        raise
