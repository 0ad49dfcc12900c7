"""The Python blocks of a page of the documentation."""

import re
from pathlib import Path

BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
NAME = re.compile(r"# (\w+\.py)\n")


def blocks_of(page: Path) -> dict[str, str]:
    """A page's Python blocks in order, by file name: a first line like `# app.py` gives it."""
    found = {}
    for number, source in enumerate(BLOCK.findall(page.read_text()), 1):
        name = NAME.match(source)
        found[name[1] if name else f"block_{number}.py"] = source
    return found
