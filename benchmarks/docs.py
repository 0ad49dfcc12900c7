"""Writing what was measured into `docs/performance.md`, between its markers, and the charts beside it."""

import re
from typing import Any

from benchmarks import charts, stack
from benchmarks.result import GOALS, Part

PAGE = stack.ROOT / "docs" / "performance.md"
CHARTS = stack.ROOT / "docs" / "charts"
MARKED = re.compile(r"(<!-- (?P<name>[a-z_]+) -->\n)(?P<text>.*?)(<!-- /(?P=name) -->)", re.DOTALL)


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
            text = _run(results, parts)
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


def _run(results: dict[str, Any], parts: dict[str, Part]) -> str:
    machines = {tuple(result["machine"].items()) for result in results.values()}
    lines = [f"- Machine: {', '.join(f'{name} {text}' for name, text in sorted(one))}." for one in sorted(machines)]
    peers = {name: text for part in parts.values() for name, text in part.versions.items()}
    lines.append(f"- Peers and what they stand on: {', '.join(f'{name} {text}' for name, text in sorted(peers.items()))}.")
    spans = ", ".join(f"`{name}` {result['at']} ({result['took_s']} s)" for name, result in results.items())
    lines.append(f"- When each ended: {spans}.")
    loads = ", ".join(f"`{name}` {result['load_before']}" for name, result in results.items() if "load_before" in result)
    if loads:
        lines.append(f"- Processes that wanted to run in the minute before each (load average): {loads}.")
    quick = [name for name, result in results.items() if result["quick"]]
    if quick:
        lines.append(f"- **Made with `--quick`, so not to be quoted: {', '.join(quick)}.**")
    return "\n".join(lines)
