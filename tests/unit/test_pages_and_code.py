"""What pages list and the code decides: events of the audit chain, record versions, keys in Redis, attributes of spans."""

import re
from pathlib import Path

from holdfast import traces
from holdfast.agent import ToolContext, TurnContext
from holdfast.client.problems import Kind
from holdfast.conversation.records.event_base import ChainLink
from holdfast.conversation.records.events import EVENTS
from holdfast.persistence import codec
from holdfast.persistence.keys import Keys

ROOT = Path(__file__).parents[2]


def page(name):
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def section(name, heading):
    """The text of a page below a heading, up to the next one."""
    return page(name).partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def words(text):
    """What stands in backticks."""
    return set(re.findall(r"`([^`\n]+)`", text))


def test_the_audit_page_names_the_events_of_the_chain_and_no_others():
    rows = [line.split("|")[1] for line in section("audit.md", "What is a link").splitlines() if line.startswith("| `")]
    assert words(" ".join(rows)) == {kind.model_fields["kind"].default for kind in EVENTS if issubclass(kind, ChainLink)}


def test_the_runbook_says_which_record_versions_are_written_and_read():
    said = re.sub(r"\s+", " ", section("runbook.md", "Upgrading"))
    assert f"Records have version {codec.VERSION} now, and versions 1 to {codec.VERSION - 1} are read" in said


def test_the_runbook_names_every_kind_of_problem():
    assert {kind.value for kind in Kind} <= words(section("runbook.md", "Production"))


def test_the_page_of_settings_names_every_key_that_belongs_to_no_conversation():
    sources = [*(ROOT / "persistence").glob("*.py")]
    used = {name for one in sources for name in re.findall(r'\.meta\(f?"([a-z-]+)[":]', one.read_text(encoding="utf-8"))}
    listed = {name.partition(":")[0] for name in words(section("settings.md", "Keys in Redis"))}
    assert {"apps", "rules", "ticket"} <= used
    assert used - listed == set()


def test_the_page_of_settings_names_every_key_of_a_conversation():
    keys = Keys("holdfast")
    suffixes = {getattr(keys, name)("c").rpartition(":")[2] for name in ("head", "log", "known", "runs", "late", "abandoned")}
    suffixes |= {getattr(keys, name)("c").rpartition(":")[2] for name in ("progress", "live")}
    assert {f"c:<id>:{one}" for one in suffixes} <= words(section("settings.md", "Keys in Redis"))


def test_the_page_on_tracing_names_every_attribute():
    known = {
        value for value in vars(traces).values() if isinstance(value, str) and re.fullmatch(r"(gen_ai|holdfast)\.\S+", value)
    }
    assert known - {traces.__name__} - words(page("tracing.md")) == set()


def test_pages_name_what_the_contexts_of_tools_and_rules_have():
    def fields(kind):
        return {name for name in (*kind.__dataclass_fields__, *vars(kind)) if not name.startswith("_")}

    ours = {"report", "cancellation"}
    assert fields(ToolContext) - ours <= {one.partition("(")[0] for one in words(section("tools.md", "What the body knows"))}
    assert fields(TurnContext) <= words(section("rules.md", "Approval as a function")) | {"requester"}
