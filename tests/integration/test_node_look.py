"""What a node's process finds out for `holdfast doctor`, without the cluster around it: Redis, the clock, the app's import."""

import os
import sys

import pytest
from lacking import lacking
from redis_server import RedisServer, binaries

from holdfast.actors.actor_settings import StoreAddress
from holdfast.registry.node_look import AppToImport
from holdfast.registry.nodes import SAID, _last_line, _secrets, look

APP = "from holdfast.agent import Agent, App\napp = App(agents=[Agent(name='near', instructions='x')])\n"


@pytest.fixture
def process(monkeypatch):
    """This process, with its search path, environment and modules as they were afterwards."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(os, "environ", os.environ.copy())
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        del sys.modules[name]


def test_a_node_says_how_its_clock_goes_and_that_it_reaches_no_redis():
    if not binaries():
        lacking("there is no Redis server on this machine")
    with RedisServer() as server:
        address = StoreAddress(redis_url=server.url, namespace="holdfast", store_id="")
        here = look("10.0.0.1", address, None)
    gone = look("10.0.0.1", address, None)

    assert (here.node, here.store, here.app, here.failed) == ("10.0.0.1", None, None, None)
    assert abs(here.ahead_ms) <= here.uncertain_ms + 5
    assert (gone.ahead_ms, "no Redis answers there" in gone.store) == (None, True)


def test_a_node_imports_the_app_from_where_workers_do(process, tmp_path):
    (tmp_path / "near_app.py").write_text(APP)

    assert look("n", None, AppToImport("near_app:app", (*sys.path, str(tmp_path)))).app is None
    assert "no module 'far_app'" in look("n", None, AppToImport("far_app:app")).app


def test_what_an_import_says_of_the_environment_is_not_told(process, tmp_path):
    (tmp_path / "telling_app.py").write_text("import os\nraise RuntimeError(f\"refused {os.environ['SHOP_API_KEY']}\")\n")
    app = AppToImport("telling_app:app", (str(tmp_path),), environment={"SHOP_API_KEY": "sk-secret"})

    said = look("n", None, app).app

    assert "refused [SHOP_API_KEY]" in said
    assert "sk-secret" not in f"{said} {app!r}"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("to'ken\n", "{os.environ['SHOP_AUTH']!r}"),
        ("tok/en==", "{__import__('urllib.parse').parse.quote(os.environ['SHOP_AUTH'], safe='')}"),
        ("redis://me:pass-of-it@h:1/0", "pass-of-it"),
    ],
)
def test_nor_is_it_in_another_form(process, tmp_path, value, shown):
    (tmp_path / "telling_app.py").write_text(f'import os\nraise RuntimeError(f"refused {shown} there")\n')
    app = AppToImport("telling_app:app", (str(tmp_path),), environment={"SHOP_AUTH": value})
    said = look("n", None, app).app
    assert "[SHOP_AUTH]" in said
    assert not any(part in said for part in ("to'ken", "to\\'ken", "tok", "pass-of-it"))


def test_an_error_of_a_node_is_cut_after_it_is_without_secrets(monkeypatch):
    monkeypatch.setenv("RAY_AUTH_TOKEN", "the-token-of-this-cluster")
    app = AppToImport("a:app", environment={"SHOP_AUTH": "one that only the app has"})
    secrets = _secrets(app, StoreAddress(redis_url="redis://:pass-word@h:1", namespace="holdfast", store_id=""))
    for secret, label in {
        "the-token-of-this-cluster": "[RAY_AUTH_TOKEN]",
        "one that only the app has": "[SHOP_AUTH]",
        "pass-word": "***",
    }.items():
        for before in range(260, 300):
            said = _last_line(ValueError(f"first\n{'x' * before}{secret}"), secrets)
            assert said == f"ValueError: {'x' * before}{label}"[:SAID]
    assert _last_line(ValueError(), secrets) == "ValueError: "
