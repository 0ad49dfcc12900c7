"""The compose file: each service comes back, says how it is, and is pinned; the secrets are in a file of their own."""

import re
from pathlib import Path

import pytest
import yaml

from holdfast.cli.known_holes import holes_of
from holdfast.server.listening import DRAIN_S
from holdfast.settings import Settings

DEPLOY = Path(__file__).parents[3] / "deploy"
TEXT = (DEPLOY / "compose.yaml").read_text()
FILE = yaml.safe_load(TEXT)
SERVICES = FILE["services"]
ENDING = {"publish"}
PORTS = 1024
"""The first number after a host's colon that is a port and no version."""
TOGETHER = ["ray", "publish", "server"]
EXAMPLE = dict(
    line.partition("=")[::2] for line in (DEPLOY / "env.example").read_text().splitlines() if line and not line.startswith("#")
)


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_comes_back_and_says_how_it_is(name):
    service = SERVICES[name]

    assert service["restart"] == ("on-failure" if name in ENDING else "unless-stopped")
    assert service["healthcheck"].get("disable", False) == (name in ENDING)
    assert name in ENDING or service["healthcheck"]["test"][0] in {"CMD", "CMD-SHELL"}


@pytest.mark.parametrize("name", SERVICES)
def test_an_image_is_pinned_to_a_version_or_named_by_the_one_who_deploys(name):
    image = SERVICES[name]["image"]

    assert re.fullmatch(r"redis:\d+\.\d+\.\d+-[a-z]+", image) if name == "redis" else image.startswith("${HOLDFAST_IMAGE:?")


def test_every_redis_and_valkey_that_is_deployed_is_one_that_the_doctor_finds_whole():
    texts = {file.name: file.read_text() for file in DEPLOY.rglob("*") if file.is_file()}
    texts |= {file.name: file.read_text() for file in (DEPLOY.parent / "docs").glob("*.md")}
    named = [
        (name, server.title(), version)
        for name, text in texts.items()
        for server, version in re.findall(r"\b(redis|valkey)(?:-server)?[:=@]v?(\d[\w.]*)", text, re.IGNORECASE)
        if not re.fullmatch(r"\d+", version) or int(version) < PORTS  # a port of a host is no version
    ]

    assert ("compose.yaml", "Redis") in {(name, server) for name, server, _ in named}
    for name, server, version in named:
        assert re.fullmatch(r"\d+\.\d+\.\d+", version), f"{name} names {server} {version}, which is no release"
        assert holes_of(server, version) == [], f"{name} names {server} {version}"


@pytest.mark.parametrize("name", SERVICES)
def test_what_a_service_waits_for_is_there(name):
    for other, waited in SERVICES[name].get("depends_on", {}).items():
        assert (waited["condition"] == "service_completed_successfully") == (other in ENDING)
        assert other in SERVICES


@pytest.mark.parametrize("name", TOGETHER)
def test_who_joins_the_ray_is_one_machine_with_it(name):
    service = SERVICES[name]

    assert {service[kind] for kind in ("network_mode", "ipc", "pid")} == {"service:pod"}
    assert service["volumes"] == ["ray:/tmp/ray"]
    assert service["environment"]["RAY_AUTH_MODE"] == "token"


def test_redis_acknowledges_what_is_on_disk_and_evicts_nothing():
    lines = FILE["configs"]["redis"]["content"].splitlines()

    assert {"appendonly yes", "appendfsync always", "maxmemory-policy noeviction", "dir /data"} <= set(lines)
    assert SERVICES["redis"]["volumes"] == ["redis:/data"]
    assert set(FILE["volumes"]) == {"redis", "ray"}


def test_only_the_server_is_reached_from_outside_and_only_from_this_machine():
    published = [port for service in SERVICES.values() for port in service.get("ports", [])]

    assert published == ["127.0.0.1:${HOLDFAST_PORT:-8484}:8484"]


def test_the_server_has_the_time_to_drain():
    assert int(SERVICES["server"]["stop_grace_period"].removesuffix("s")) > DRAIN_S


def test_every_secret_and_the_image_are_asked_for_and_the_example_has_none():
    asked = {name for name, _ in re.findall(r"\$\{([A-Z_]+):\?([^}]+)\}", TEXT)}

    assert asked <= EXAMPLE.keys()
    assert not [value for name, value in EXAMPLE.items() if re.search(r"KEY|TOKEN|PASSWORD", name) and value]


def test_every_setting_that_is_given_is_one():
    known = {f"HOLDFAST_{name.upper()}" for name in Settings.model_fields} | {"HOLDFAST_IMAGE", "HOLDFAST_PORT"}

    assert set(re.findall(r"HOLDFAST_[A-Z_]+", TEXT)) | {name for name in EXAMPLE if name.startswith("HOLDFAST_")} <= known


def test_ray_does_not_wait_for_actors_that_never_end():
    unit = (DEPLOY / "systemd" / "holdfast-ray.service").read_text()

    assert SERVICES["ray"]["environment"]["RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S"] == "0"
    assert "\nEnvironment=RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S=0\n" in unit
