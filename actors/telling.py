"""Telling the store what a process has counted, along with its housekeeping."""

import logging

from holdfast.counting import Counts
from holdfast.errors import StoreError
from holdfast.persistence import Tallies

logger = logging.getLogger("holdfast.actor")


async def tell(store: Tallies, counts: Counts) -> None:
    """Add the counts since the last call to the store's; if it does not answer, they are added the next time."""
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
