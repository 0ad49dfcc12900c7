"""The conformance suite of stores: the rules for every `holdfast.persistence.Store`.

    import pytest

    from store_suite import StoreConformance

    class TestMyStore(StoreConformance):
        @pytest.fixture
        async def stores(self):
            first, second = MyStore(...), MyStore(...)  # two objects over the same data, which no other test uses
            await first.open()
            await second.open()
            yield first, second
            await first.close()
            await second.close()

It needs pytest and pytest-asyncio with `asyncio_mode = auto`. A store that lives in one process gives the same object twice.
No case counts time: leases are short, and an expected change is waited for.
"""

# ruff: noqa: E402 -- pytest must hear of the modules before they are imported, to show a failed assertion's values

import pytest

pytest.register_assert_rewrite(
    *(
        f"{__package__}.{part}"
        for part in (
            "acquire",
            "api_keys",
            "append",
            "attention",
            "audit",
            "budgets",
            "changes",
            "fencing",
            "directory",
            "grants",
            "guests",
            "index",
            "inspection",
            "large",
            "outbox",
            "pages",
            "parking",
            "pausing",
            "presence",
            "quotas",
            "reads",
            "refusals",
            "runs",
            "selecting",
            "supervision",
            "tallies",
            "tickets",
            "troubles",
        )
    )
)

from holdfast.persistence import Store

from .acquire import Acquiring
from .api_keys import Keeping
from .append import Appending
from .attention import Attending
from .audit import Auditing
from .budgets import Budgeting
from .changes import Changing
from .directory import Finding
from .fencing import Fencing
from .grants import Granting
from .guests import Visiting
from .index import Indexing
from .inspection import Inspecting
from .large import Large
from .outbox import Owing
from .pages import Paging, Unreadable
from .parking import Parking
from .pausing import Pausing
from .presence import Attaching
from .quotas import Rationing
from .reads import Reading
from .refusals import Refusing
from .runs import Running
from .selecting import Selecting
from .supervision import Supervising
from .tallies import Tallying
from .tickets import Ticketing
from .troubles import Troubling

__all__ = ["StoreConformance"]


class StoreConformance(
    Fencing,
    Acquiring,
    Appending,
    Reading,
    Running,
    Selecting,
    Refusing,
    Granting,
    Auditing,
    Parking,
    Visiting,
    Attending,
    Changing,
    Paging,
    Large,
    Unreadable,
    Indexing,
    Inspecting,
    Supervising,
    Tallying,
    Troubling,
    Owing,
    Finding,
    Pausing,
    Attaching,
    Keeping,
    Ticketing,
    Rationing,
    Budgeting,
):
    """All cases of the suite. Subclass it, and override the fixture `stores`."""

    @pytest.fixture
    async def stores(self) -> tuple[Store, Store]:
        """Two opened stores over the same empty data; close them afterwards."""
        raise NotImplementedError("override the fixture `stores`")

    @pytest.fixture
    def store(self, stores: tuple[Store, Store]) -> Store:
        """The store under test."""
        return stores[0]

    @pytest.fixture
    def other(self, stores: tuple[Store, Store]) -> Store:
        """Another object over the same data, as another process has it."""
        return stores[1]
