"""A real browser for tests: Debian's chromium, driven by playwright. Without one they are skipped; in CI they fail."""

import os
import re
import shutil
from contextlib import asynccontextmanager

import pytest
from playwright.async_api import async_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome")


def chromium():
    """The path of the browser."""
    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    if found is None:
        missing = pytest.fail if os.environ.get("CI") == "true" else pytest.skip
        missing("there is no chromium on PATH (Debian: apt-get install chromium)")
    return found


@asynccontextmanager
async def browsing():
    """A browser."""
    path = chromium()
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-dev-shm-usage"])
        try:
            yield browser
        finally:
            await browser.close()


SETTLED = re.compile(r"409.*/v1/pending/[^/]+(/form)?\?")
"""A call was settled while a page asked for it or its form: an answer like others, which the browser reports as an error."""


class Mishaps(list):
    """What a page says that it should not: errors of its scripts, and what its policy (CSP) refused."""

    def __init__(self, page):
        super().__init__()
        page.on("pageerror", lambda error: self.append(f"error: {error}"))
        page.on("console", self._said)

    def _said(self, message):
        if message.type == "error" and not SETTLED.search(said := f"{message.text} {message.location['url']}"):
            self.append(f"error: {said}")
