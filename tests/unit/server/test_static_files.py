"""The vendored files are those that the manifest names, and nothing of the folder but scripts and styles is served."""

import hashlib
import json
from importlib.resources import files

import httpx
import pytest
from stores import InMemory

from holdfast.client import AsyncClient
from holdfast.client.stack_gateway import StackGateway
from holdfast.persistence import MemoryStore
from holdfast.server import create_app
from holdfast.server.static_files import static_url

FOLDER = files("holdfast.server") / "static"
VENDORED = json.loads((FOLDER / "vendored.json").read_text())


@pytest.fixture
async def http():
    app = create_app(AsyncClient(StackGateway(InMemory(MemoryStore()), timeout_s=5)))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as found:
        yield found


@pytest.mark.parametrize("name", VENDORED)
def test_a_vendored_file_is_the_one_that_the_manifest_names(name):
    said = VENDORED[name]

    assert hashlib.sha256((FOLDER / name).read_bytes()).hexdigest() == said["sha256"]
    assert {"package", "version", "file", "licence"} <= set(said)


def test_each_minified_file_stands_in_the_manifest():
    assert {file.name for file in FOLDER.iterdir() if ".min." in file.name} == set(VENDORED)


async def test_a_file_is_kept_under_the_url_of_its_content_and_looked_at_again_under_another(http):
    kept = await http.get(static_url("htmx.min.js"))
    bare = await http.get("/static/htmx.min.js")
    again = await http.get("/static/htmx.min.js", headers={"If-None-Match": bare.headers["etag"]})

    assert (kept.status_code, kept.content) == (200, (FOLDER / "htmx.min.js").read_bytes())
    assert "immutable" in kept.headers["cache-control"]
    assert (bare.headers["cache-control"], again.status_code, again.content) == ("no-cache", 304, b"")


@pytest.mark.parametrize(
    "name", ["vendored.json", "nothing.js", "package.json", "holdfast.d.ts", "..%2fapp.py", "%2e%2e%2fapp.py", "__init__.py"]
)
async def test_nothing_else_is_served(http, name):
    found = await http.get(f"/static/{name}")

    assert found.status_code == 404
