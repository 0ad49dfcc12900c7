"""The units of systemd: the two fit together, have the time that they need, and systemd itself takes them."""

import configparser
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from holdfast.server.listening import DRAIN_S

FOLDER = Path(__file__).parents[3] / "deploy" / "systemd"
FILES = sorted(FOLDER.iterdir())
HARDENED = ("NoNewPrivileges", "ProtectHome", "PrivateDevices", "RestrictNamespaces", "LockPersonality", "PrivateTmp")


class Values(dict):
    """Options that stand more than once keep all their values."""

    def __setitem__(self, key, value):
        super().__setitem__(key, [*self.get(key, []), *value] if isinstance(value, list) and key in self else value)


def read(name):
    parser = configparser.RawConfigParser(strict=False, dict_type=Values)
    parser.optionxform = str
    parser.read(FOLDER / f"{name}.service")
    return parser


RAY, SERVER = read("holdfast-ray"), read("holdfast-server")


def test_the_server_comes_after_the_ray_and_starts_anew_with_it():
    assert "holdfast-ray.service" in SERVER["Unit"]["After"]
    assert SERVER["Unit"]["Requires"] == SERVER["Unit"]["PartOf"] == "holdfast-ray.service"


def test_the_server_has_the_time_to_drain_and_runs_to_finish():
    assert int(SERVER["Service"]["TimeoutStopSec"]) > DRAIN_S
    (grace,) = re.findall(r"--grace (\d+)", RAY["Service"]["ExecStop"])
    assert int(RAY["Service"]["TimeoutStopSec"]) > int(grace) + 60


def test_both_join_the_same_ray_as_the_same_user():
    for option in ("User", "Group", "WorkingDirectory", "EnvironmentFile", "StateDirectory"):
        assert RAY["Service"][option] == SERVER["Service"][option]
    address = "HOLDFAST_RAY_ADDRESS=127.0.0.1:6380"
    assert all(address in (FOLDER / file.name).read_text() for file in FILES)
    assert "--node-ip-address=127.0.0.1 --port=6380" in RAY["Service"]["ExecStart"]


@pytest.mark.parametrize("unit", [RAY, SERVER], ids=["ray", "server"])
def test_a_unit_comes_back_holds_no_secret_and_is_hardened(unit):
    service = unit["Service"]

    assert service["Restart"] == "always"
    assert service["EnvironmentFile"] == "/etc/holdfast/holdfast.env"
    assert not re.search(r"(KEY|PASSWORD|TOKEN)=", str(dict(service)))
    assert {service[option] for option in HARDENED} == {"yes"}
    assert (service["ProtectSystem"], service["CapabilityBoundingSet"]) == ("strict", "")


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze on this machine")
def test_systemd_takes_the_units(tmp_path):
    for file in FILES:  # what they start is not installed here
        (tmp_path / file.name).write_text(re.sub(r"/opt/holdfast/bin/\w+", "/bin/true", file.read_text()))

    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *(str(tmp_path / file.name) for file in FILES)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")
