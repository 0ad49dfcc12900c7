"""Writing what was measured into `docs/performance.md`, between its markers, and the charts beside it."""

import re
from typing import Any

from benchmarks import charts, stack
from benchmarks.result import GOALS, Part

PAGE = stack.ROOT / "docs" / "performance.md"
CHARTS = stack.ROOT / "docs" / "charts"
MARKED = re.compile(r"(<!-- (?P<name>[a-z_]+) -->\n)(?P<text>.*?)(<!-- /(?P=name) -->)", re.DOTALL)

PEERS = "- Peers and what they stand on: "
ENDED = "- When each ended: "
LOADS = "- Processes that wanted to run in the minute before each (load average): "
QUICK = "- **Made with `--quick`, so not to be quoted: "
ENTRY = re.compile(r"`(\w+)` (.+?)(?=, `|\.$)")


def write(results: dict[str, Any]) -> None:
    """Fill the page's marked places: `goals`, `run`, and one for each benchmark; what was not measured stays as it was."""
    parts = {name: Part.from_json(result) for name, result in results.items()}
    CHARTS.mkdir(exist_ok=True)
    for part in parts.values():
        for chart in part.charts:
            (CHARTS / f"{chart.file}.svg").write_text(charts.svg(chart))

    def filled(match: re.Match[str]) -> str:
        name = match["name"]
        if name == "goals":
            text = _goals([row.cells() for part in parts.values() for row in part.rows], before=match["text"])
        elif name == "run":
            text = _run(results, parts, before=match["text"])
        elif name in parts:
            text = _section(parts[name])
        else:
            return match[0]
        return f"<!-- {name} -->\n{text}\n<!-- /{name} -->"

    PAGE.write_text(MARKED.sub(filled, PAGE.read_text()))
    stack.console.print(f"written: {PAGE.relative_to(stack.ROOT)}, {CHARTS.relative_to(stack.ROOT)}/*.svg")


def markdown(columns: list[str], rows: list[list[str]]) -> str:
    """A table in Markdown."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def _goals(rows: list[list[str]], *, before: str) -> str:
    measured = {row[0] for row in rows}
    earlier = [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in before.splitlines()[2:]]
    return markdown(GOALS, rows + [row for row in earlier if len(row) == len(GOALS) and row[0] not in measured])


def _section(part: Part) -> str:
    blocks = [f"**{table.title}**\n\n{markdown(table.columns, table.rows)}" for table in part.tables]
    blocks += [f"![{chart.title}](charts/{chart.file}.svg)" for chart in part.charts]
    return "\n\n".join(blocks)


def _run(results: dict[str, Any], parts: dict[str, Part], *, before: str) -> str:
    """Where, with what and when each was measured; of what was not measured, as `before` says it."""
    lines = before.splitlines()
    machines = [line for line in lines if line.startswith("- Machine:")]
    texts = (", ".join(f"{name} {text}" for name, text in sorted(result["machine"].items())) for result in results.values())
    machines += [f"- Machine: {text}." for text in texts]
    peers = dict(re.findall(r"([\w-]+) ([^\s,]+?)(?=, |\.$)", _after(lines, PEERS)))
    peers |= {name: text for part in parts.values() for name, text in part.versions.items()}
    ended, loads = (dict(ENTRY.findall(_after(lines, label))) for label in (ENDED, LOADS))
    ended |= {name: f"{result['at']} ({result['took_s']} s)" for name, result in results.items()}
    loads |= {name: f"{result['load_before']}" for name, result in results.items() if "load_before" in result}
    earlier = _after(lines, QUICK).rstrip("*. ")
    quick = [name for name in earlier.split(", ") if name and name not in results]
    quick += [name for name, result in results.items() if result["quick"]]
    return "\n".join(
        [
            *dict.fromkeys(machines),
            f"{PEERS}{', '.join(f'{name} {text}' for name, text in sorted(peers.items()))}.",
            *(
                f"{label}{', '.join(f'`{name}` {text}' for name, text in of.items())}."
                for label, of in ((ENDED, ended), (LOADS, loads))
                if of
            ),
            *([f"{QUICK}{', '.join(quick)}.**"] if quick else []),
        ]
    )


def _after(lines: list[str], label: str) -> str:
    return next((line.removeprefix(label) for line in lines if line.startswith(label)), "")
