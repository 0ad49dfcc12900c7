"""A Redis URL as it may be shown."""

from urllib.parse import urlsplit, urlunsplit


def masked(url: str) -> str:
    """The URL without its password."""
    try:
        parts = urlsplit(url)
        if parts.password is None and "password=" not in parts.query:
            return url
        place = f"{parts.username or ''}:***@{parts.hostname or ''}" + (f":{parts.port}" if parts.port else "")
    except ValueError:
        return "a URL that cannot be read"
    return urlunsplit((parts.scheme, place, parts.path, "", ""))
