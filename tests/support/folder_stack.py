"""A stack that ends with the last test of its folder: what idles in it takes processor time from the tests that follow."""

from contextlib import ExitStack

import pytest

_OPENED = pytest.StashKey[dict]()


def ends_with_folder(request, folder):
    """What is entered here ends after the last test of the folder, at the latest with the session; a context manager."""
    opened = request.session.stash.setdefault(_OPENED, {})[folder] = ExitStack()
    return opened


def is_open(session, folder):
    """Whether the folder's stack has begun, and has not ended."""
    return folder in session.stash.get(_OPENED, {})


def after(item, nextitem):
    """End the stack of an item's folder if it was the last test there. Files come folder by folder, so none follows."""
    folder = item.path.parent
    if is_open(item.session, folder) and (nextitem is None or nextitem.path.parent != folder):
        item.session.stash[_OPENED].pop(folder).close()
