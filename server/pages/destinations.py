"""The paths of pages: of a call, and of the page after sign-in, which is one of this application and never another site."""

from urllib.parse import quote, unquote, urlencode

FIRST = "/inbox"
LONGEST = 2000
"""The most characters of a destination: it stands in URLs."""
ABOUT_SIGNING_IN = ("/signin", "/signout")
"""Pages that are no destination: a person who has signed in would be stuck there."""


def path_of(suspension_id: str, conversation_id: str) -> str:
    """The path of a call's page."""
    return f"/inbox/{quote(suspension_id, safe='')}?{urlencode({'conversation_id': conversation_id})}"


def destination(asked: str, root: str) -> str:
    """The requested path, if it is a page of the application under `root`; else the first page."""
    return asked if _leads_to_a_page(asked, root) else f"{root}{FIRST}"


def _leads_to_a_page(asked: str, root: str) -> bool:
    if len(asked) > LONGEST or not asked.startswith(f"{root}/") or not all("!" <= char <= "~" for char in asked):
        return False
    path = unquote(asked.partition("?")[0].partition("#")[0])
    if "//" in path or "\\" in asked or "\\" in path or not path.isprintable():
        return False
    if any(part in (".", "..") for part in path.split("/")):  # browsers resolve these to another path
        return False
    page = path.removeprefix(root)
    return not any(page == place or page.startswith(f"{place}/") for place in ABOUT_SIGNING_IN)
