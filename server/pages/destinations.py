"""Where a browser goes once somebody has signed in: a page of this application, and nowhere else."""

from urllib.parse import unquote

FIRST = "/inbox"
LONGEST = 2000
"""How many characters a destination may have: it stands in URLs."""
ABOUT_SIGNING_IN = ("/signin", "/signout")
"""Pages that lead nowhere: whoever has signed in would stay there."""


def destination(asked: str, root: str) -> str:
    """The path that was asked for, if it is one of the pages of the application under `root`; else the first page."""
    return asked if _leads_to_a_page(asked, root) else f"{root}{FIRST}"


def _leads_to_a_page(asked: str, root: str) -> bool:
    if len(asked) > LONGEST or not asked.startswith(f"{root}/") or not all("!" <= char <= "~" for char in asked):
        return False
    path = unquote(asked.partition("?")[0].partition("#")[0])
    if "//" in path or "\\" in asked or "\\" in path or not path.isprintable():
        return False
    if any(part in (".", "..") for part in path.split("/")):  # browsers take these out: the path would be another one
        return False
    page = path.removeprefix(root)
    return not any(page == place or page.startswith(f"{place}/") for place in ABOUT_SIGNING_IN)
