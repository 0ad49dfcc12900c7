"""What the benchmarks make of their numbers: goals, JSON that comes back, charts that are SVG."""

import importlib
import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest


@pytest.fixture
def result(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2]))
    return importlib.import_module("benchmarks.result")


def test_a_goal_is_reached_from_the_side_that_it_names(result):
    assert result.Row("at most", 3.0, "ms", 2.0, 1.5, 1.5, 10).met
    assert not result.Row("at most", 4.0, "ms", 2.0, 2.0, 1.5, 10).met
    assert result.Row("at least", 2.0, "/s", 2.0, 1.0, 1.0, 10, at_least=True).met
    assert not result.Row("at least", 1.0, "/s", 2.0, 0.5, 1.0, 10, at_least=True).met


def test_what_was_found_comes_back_from_json(result):
    part = result.Part(
        rows=[result.Row("x", 1.0, "ms", 2.0, 0.5, 1.5, 3)],
        tables=[result.Table("t", ["a"], [["b"]])],
        charts=[result.Chart("c", "title", "x", "y", [result.Series("s", [(1.0, 2.0)])])],
    )
    assert result.Part.from_json(json.loads(json.dumps(part.to_json()))) == part


RUN = """- Machine: cores 2, ray 2.60.0.
- Peers and what they stand on: dbos 3.4.0, ray 2.60.0.
- When each ended: `core` 2026-11-22T19:39:50+00:00 (34 s), `pages` 2026-11-21T20:35:24+00:00 (211 s).
- Processes that wanted to run in the minute before each (load average): `core` 2.6, `pages` 1.3.
- **Made with `--quick`, so not to be quoted: core, pages.**"""


def test_what_was_not_measured_is_still_said_of_the_run(result):
    docs = importlib.import_module("benchmarks.docs")
    assert docs._run({}, {}, before=RUN) == RUN
    again = {"at": "2026-11-27T19:00:00+00:00", "took_s": 5, "load_before": 0.5, "quick": False}
    results = {"pages": {**again, "machine": {"ray": "2.60.0", "cores": "2"}}, "turn": {**again, "machine": {"cores": "4"}}}
    said = docs._run(results, {"turn": result.Part(versions={"ray": "2.61.0"})}, before=RUN)
    ended = "2026-11-27T19:00:00+00:00 (5 s)"
    assert said.splitlines() == [
        "- Machine: cores 2, ray 2.60.0.",
        "- Machine: cores 4.",
        "- Peers and what they stand on: dbos 3.4.0, ray 2.61.0.",
        f"- When each ended: `core` 2026-11-22T19:39:50+00:00 (34 s), `pages` {ended}, `turn` {ended}.",
        "- Processes that wanted to run in the minute before each (load average): `core` 2.6, `pages` 0.5, `turn` 0.5.",
        "- **Made with `--quick`, so not to be quoted: core.**",
    ]
    assert docs._run(results, {}, before="").splitlines()[0] == "- Machine: cores 2, ray 2.60.0."


@pytest.mark.parametrize("bars", [True, False])
@pytest.mark.parametrize("log", [True, False])
def test_a_chart_is_an_svg_that_names_its_title_axes_and_series(result, bars, log):
    charts = importlib.import_module("benchmarks.charts")
    series = [result.Series("a < b", [(1.0, 0.5)] if bars else [(1.0, 0.5), (1000.0, 70.0)])]
    drawn = charts.svg(result.Chart("c", "Title", "turns", "ms", series, x_log=log and not bars, y_log=log, bars=bars))
    texts = " ".join(ET.fromstring(drawn).itertext())  # noqa: S314 - our own
    assert all(word in texts for word in ("Title", "turns", "ms", "a < b"))
