"""The inbox in a browser with 1,000 calls that wait: its first paint, all of its rows, a filter, scrolling."""

import asyncio
import json
import os
import statistics
from pathlib import Path
from typing import Any

from playwright.async_api import Page, async_playwright
from rich.progress import track
from writer import Writer, begin, call, start

from benchmarks import stack
from benchmarks.result import Part, Row, Table
from benchmarks.server import served, waiting
from holdfast.client import AsyncClient

CHROMIUM = "/usr/bin/chromium"
PAINT_MS = 300.0
SCROLL = """async () => {
    const list = document.querySelector("#list"), gaps = [];
    let last = await new Promise(requestAnimationFrame);
    for (let step = 0; step < 60; step += 1) {
        list.scrollTop += list.clientHeight;
        const now = await new Promise(requestAnimationFrame);
        gaps.push(now - last);
        last = now;
    }
    return gaps;
}"""
FILTER = """async (text) => {
    const search = document.querySelector("#search"), began = performance.now();
    search.value = text;
    search.dispatchEvent(new Event("input", { bubbles: true }));
    await new Promise(requestAnimationFrame);
    await new Promise(requestAnimationFrame);
    return performance.now() - began;
}"""


async def written(direct: AsyncClient, count: int) -> None:
    """So many conversations that wait for an approval."""
    store: Any = await direct.gateway.stack.store()
    now, room = await store.now(), asyncio.Semaphore(16)

    async def one(number: int) -> None:
        async with room:
            writer = await Writer.of(store, f"order-{number}")
            note = "The mug arrived broken, and the customer sent a photo of it."
            arguments = json.dumps({"order": f"A{number}", "amount": 42.5, "note": note})
            await writer.do(start("Refund it, please."), begin(), call(("refund", arguments)), now=now - number)

    for work in track([asyncio.create_task(one(number)) for number in range(count)], console=stack.console, transient=True):
        await work


async def loaded(page: Page, url: str) -> dict[str, float]:
    """The times of one load, in ms since the navigation began."""
    await page.goto(f"{url}/inbox", wait_until="load")
    await page.wait_for_function("performance.getEntriesByName('first-contentful-paint').length === 1")
    return {
        "first paint": await page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime"),
        "all rows": await page.evaluate("performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd"),
        "rows": await page.locator(".row").count(),
    }


async def measured(home: Path, *, quick: bool) -> dict[str, list[float]]:
    os.environ["HOLDFAST_HOME"] = str(home)
    found: dict[str, list[float]] = {"first paint": [], "all rows": [], "filter": [], "frames": [], "rows": []}
    async with AsyncClient.connect(stack.APP, home=home, timeout_s=120) as direct, async_playwright() as playwright:
        await waiting(direct, "warm", 1)
        await written(direct, 1000)
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        async with served(direct) as (url, keys, _):
            for number in range(4 if quick else 16):
                context = await browser.new_context(
                    viewport={"width": 1280, "height": 800}, extra_http_headers={"Authorization": f"Bearer {keys[0]}"}
                )
                page = await context.new_page()
                times = await loaded(page, url)
                times["filter"] = await page.evaluate(FILTER, "A77")
                await page.evaluate(FILTER, "")
                frames = await page.evaluate(SCROLL)
                if number:  # the first one fills caches
                    for name, value in times.items():
                        found[name].append(value)
                    found["frames"] += frames
                await context.close()
        await browser.close()
    return found


def measure(*, quick: bool) -> Part:
    """The rows of the inbox."""
    with stack.home() as home, stack.model():
        raw = asyncio.run(measured(home, quick=quick))
    assert set(raw.pop("rows")) == {1000}
    p50 = {name: statistics.median(samples) for name, samples in raw.items()}
    p95 = {name: statistics.quantiles(samples, n=20)[18] for name, samples in raw.items()}
    paint = p50["first paint"]
    row = Row(
        "first paint of the inbox with 1,000 calls (p50)", paint, "ms", PAINT_MS, paint / PAINT_MS, 1.0, len(raw["first paint"])
    )
    said = {
        "first paint": "first paint",
        "all rows": "all 1,000 rows are there",
        "filter": "a filter, from the key to the frame",
        "frames": "a frame while scrolling",
    }
    table = Table(
        "The inbox with 1,000 calls that wait, in Chromium",
        ["what", "p50", "p95"],
        [[text, f"{p50[name]:.0f} ms", f"{p95[name]:.0f} ms"] for name, text in said.items()],
    )
    return Part(rows=[row], tables=[table], charts=[], raw=raw)
