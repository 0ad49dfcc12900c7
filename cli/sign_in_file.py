"""Where the sign-in link of `holdfast serve` is said: on a terminal, else in a file that only this person may read."""

import contextlib
import sys
from collections.abc import Iterator
from urllib.parse import urlsplit

from holdfast.embedded.home import Home
from holdfast.errors import HomeUnusable

from .options import Where


@contextlib.contextmanager
def told(link: str, where: Where) -> Iterator[str]:
    """The line that says the link, or the file that has it until the context is left.

    What a service writes is kept, and read by others who may not sign in: so no link goes where no terminal is.
    """
    if sys.stdout.isatty():
        yield f"To sign in with a browser, once: {link}"
        return
    place = urlsplit(link)
    name = f"sign-in-{(place.hostname or '').replace(':', '-')}-{place.port}"
    try:
        home = Home.open(where.settings().home)
        home.write_file(name, f"{link}\n")
    except HomeUnusable as error:
        yield f"To sign in with a browser, start it on a terminal: there is no private place for the link ({error})."
        return
    try:
        yield f"To sign in with a browser, once: the link is in {home.path / name}"
    finally:
        with contextlib.suppress(OSError):
            (home.path / name).unlink(missing_ok=True)
