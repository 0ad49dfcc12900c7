"""The forms of the pages, as a browser without scripts sends them."""

import re
from html import unescape

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>\u202e"


def fields(page):
    """The hidden fields of a page's forms."""
    found = re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', page)
    return {name: unescape(value) for name, value in found}


def path_of(suspension_id, name):
    """The path of a call's page."""
    return f"/inbox/{suspension_id}?conversation_id={name}"


def decide(http, name, suspension_id, **said):
    """Send a form of a call's page, filled in so."""
    page = http.get(path_of(suspension_id, name))
    assert page.status_code == 200, page.text
    return http.post(f"/inbox/{suspension_id}", data={**fields(page.text), **said})
