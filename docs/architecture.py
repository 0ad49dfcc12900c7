"""Fill the tables of files in docs/architecture.md from the modules' own docstrings: `python docs/architecture.py`.

A place `<!-- files: FOLDER -->` ... `<!-- /files -->` holds a row for each Python module and Lua script of that folder, without
its subfolders: the first paragraph of the module's docstring, or of the script's header.
"""  # noqa: INP001 - a script beside the pages it writes

import ast
import re
from pathlib import Path

PAGE = Path(__file__).with_name("architecture.md")
ROOT = PAGE.parents[1]
PLACE = re.compile(r"<!-- files: (?P<folder>[\w/]+) -->\n.*?<!-- /files -->", re.DOTALL)


def described(file: Path) -> str:
    """What a file says that it is for."""
    if file.suffix == ".lua":
        return file.read_text().partition("\n")[0].removeprefix("-- ")
    text = ast.get_docstring(ast.parse(file.read_text())) or ""
    return " ".join(text.partition("\n\n")[0].split()).replace("|", "\\|")


def table(folder: Path) -> str:
    """A row for each file of a folder that has something in it."""
    files = sorted([*folder.glob("*.py"), *folder.glob("*.lua")])
    rows = [f"| `{file.name}` | {described(file)} |" for file in files if file.read_text()]
    return "\n".join(["| file | what it is for |", "| --- | --- |", *rows])


def folders() -> set[str]:
    """The folders that the page has a table of."""
    return {match["folder"] for match in PLACE.finditer(PAGE.read_text())}


def render() -> str:
    """The whole page, with the tables as the source is now."""

    def filled(match: re.Match[str]) -> str:
        folder = match["folder"]
        return f"<!-- files: {folder} -->\n{table(ROOT / folder)}\n<!-- /files -->"

    return PLACE.sub(filled, PAGE.read_text())


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
