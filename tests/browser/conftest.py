import pytest
from browser import Mishaps, browsing


@pytest.fixture
async def browser():
    """A browser, for one test: its playwright belongs to the test's loop."""
    async with browsing() as found:
        yield found


@pytest.fixture
async def page(browser):
    """A page of a new browser context, whose scripts must not have said an error by the end of the test (`page.mishaps`)."""
    context = await browser.new_context()
    found = await context.new_page()
    found.mishaps = Mishaps(found)
    found.set_default_timeout(15_000)
    yield found
    assert found.mishaps == []
    await context.close()
