"""What `deploy/` holds for Prometheus and Grafana: it names metrics and labels that exist, and Prometheus takes the rules."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from holdfast import metrics
from holdfast.metrics import MetricType

DEPLOY = Path(__file__).parents[2] / "deploy"
ALERTS = DEPLOY / "prometheus" / "alerts.yml"
EVERY = (*metrics.COUNTED, *metrics.READ, *metrics.SERVED)
LABELS = {
    **{metric.name: set(metric.labels) for metric in EVERY},
    **{
        f"{metric.name}_{part}": {*metric.labels, *(["le"] if part == "bucket" else [])}
        for metric in EVERY
        if metric.type is MetricType.HISTOGRAM
        for part in ("bucket", "sum", "count")
    },
}


def expressions():
    """The expressions of the rules and of the dashboard, by where they stand."""
    found = dict(enumerate(re.findall(r"expr: (?:>-\n)?((?:.|\n +[/s])*)", ALERTS.read_text())))
    dashboard = json.loads((DEPLOY / "grafana" / "holdfast.json").read_text())
    return found | {
        (panel["title"], target["refId"]): target["expr"] for panel in dashboard["panels"] for target in panel["targets"]
    }


@pytest.mark.parametrize(("where", "expression"), expressions().items(), ids=str)
def test_every_metric_and_label_that_is_named_exists(where, expression):
    named = set(re.findall(r"\bholdfast_\w+", expression))
    assert named, where
    assert named <= set(LABELS)
    grouped = {label.strip() for group in re.findall(r"by \(([^)]*)\)", expression) for label in group.split(",")}
    chosen = {label for group in re.findall(r"\{([^}]*)\}", expression) for label in re.findall(r"(\w+)!?=", group)}
    assert grouped | chosen <= set.union(*(LABELS[name] for name in named)) | {"instance"}


def test_every_counter_is_read_as_a_rate_and_no_gauge_is():
    types = {metric.name: metric.type for metric in EVERY}
    for where, expression in expressions().items():
        rated = set(re.findall(r"(?:rate|increase)\((holdfast_\w+)", expression))
        for name in re.findall(r"\bholdfast_\w+", expression):
            assert (types.get(name) is not MetricType.GAUGE) == (name in rated), where


def test_every_metric_is_on_the_dashboard_but_for_what_only_adds_to_another():
    shown = {
        name for key, text in expressions().items() if isinstance(key, tuple) for name in re.findall(r"holdfast_\w+", text)
    }
    shown |= {name.removesuffix("_bucket") for name in shown}
    unseen = {metric.name for metric in EVERY} - shown
    assert unseen == {
        *("holdfast_conversations_started_total", "holdfast_messages_total", "holdfast_suspensions_total"),
        "holdfast_turns_stopped_total",
        *("holdfast_pending_calls_older", "holdfast_children_started_total", "holdfast_children_ended_total"),
    }


def test_the_page_names_every_metric():
    page = (DEPLOY.parent / "docs" / "observability.md").read_text()
    assert {metric.name for metric in EVERY} <= set(re.findall(r"`(holdfast_\w+)`", page))


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed here")
def test_prometheus_takes_the_rules():
    done = subprocess.run(["promtool", "check", "rules", str(ALERTS)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
