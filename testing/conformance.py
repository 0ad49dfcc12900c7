"""The conformance suite of stores: the rules for every `holdfast.persistence.Store`, run over yours.

    import pytest

    from holdfast.testing.conformance import StoreConformance

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
        f"{__package__}.conformance_{part}"
        for part in (
            "acquire",
            "api_keys",
            "append",
            "attention",
            "audit",
            "changes",
            "fencing",
            "directory",
            "grants",
            "index",
            "inspection",
            "large",
            "pages",
            "parking",
            "pausing",
            "quotas",
            "reads",
            "refusals",
            "runs",
            "supervision",
            "tallies",
            "tickets",
            "troubles",
        )
    )
)

from holdfast.persistence import Store

from .conformance_acquire import Acquiring
from .conformance_api_keys import Keeping
from .conformance_append import Appending
from .conformance_attention import Attending
from .conformance_audit import Auditing
from .conformance_changes import Changing
from .conformance_directory import Finding
from .conformance_fencing import Fencing
from .conformance_grants import Granting
from .conformance_index import Indexing
from .conformance_inspection import Inspecting
from .conformance_large import Large
from .conformance_pages import Paging, Unreadable
from .conformance_parking import Parking
from .conformance_pausing import Pausing
from .conformance_quotas import Rationing
from .conformance_reads import Reading
from .conformance_refusals import Refusing
from .conformance_runs import Running
from .conformance_supervision import Supervising
from .conformance_tallies import Tallying
from .conformance_tickets import Ticketing
from .conformance_troubles import Troubling

__all__ = ["StoreConformance"]


class StoreConformance(
    Fencing,
    Acquiring,
    Appending,
    Reading,
    Running,
    Refusing,
    Granting,
    Auditing,
    Parking,
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
    Finding,
    Pausing,
    Keeping,
    Ticketing,
    Rationing,
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
