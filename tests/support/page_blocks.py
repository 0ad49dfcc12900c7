"""The blocks of a page of the documentation: Python, files of rules, and what commands print."""

import re
from pathlib import Path

BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
RULES = re.compile(r"^```yaml\n(# (\w+\.yaml)\n.*?)^```$", re.DOTALL | re.MULTILINE)
CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.DOTALL | re.MULTILINE)
COMMAND = re.compile(r"^\$ (.+)\n", re.MULTILINE)
NAME = re.compile(r"# (\w+\.py)\n")


def blocks_of(page: Path) -> dict[str, str]:
    """A page's Python blocks in order, by file name: a first line like `# app.py` gives it."""
    found = {}
    for number, source in enumerate(BLOCK.findall(page.read_text()), 1):
        name = NAME.match(source)
        found[name[1] if name else f"block_{number}.py"] = source
    return found


def files_of(page: Path) -> dict[str, str]:
    """All files that a page has its reader write, by name: its Python blocks, and its files of rules."""
    return blocks_of(page) | {name: source for source, name in RULES.findall(page.read_text())}


def printed_by(page: Path) -> dict[str, re.Pattern[str]]:
    """What the commands of a page print, by command, in order: an ellipsis stands for what differs each time."""
    found = {}
    for block in CONSOLE.findall(page.read_text()):
        _, *parts = COMMAND.split(block)
        for command, printed in zip(parts[::2], parts[1::2], strict=True):
            found[command] = re.compile(".*?".join(re.escape(part) for part in printed.split("…")))
    return found


def shell_of(page: Path) -> list[str]:
    """A page's blocks for a shell, in order."""
    return re.findall(r"^```sh\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE)
