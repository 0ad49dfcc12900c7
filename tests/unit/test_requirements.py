"""What is installed is bounded, pinned and hashed, and the three files that say so agree."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
DECLARED = [
    *PROJECT["build-system"]["requires"],
    *PROJECT["project"]["dependencies"],
    *(one for extra in PROJECT["project"]["optional-dependencies"].values() for one in extra),
]
FOREIGN = [one for one in map(Requirement, DECLARED) if one.name != "holdfast"]


def pins(name):
    lines = (ROOT / name).read_text().replace("\\\n", " ").splitlines()
    found = [Requirement(re.split(r"\s--hash", line)[0]) for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(one.name): str(one.specifier) for one in found}


@pytest.mark.parametrize("requirement", FOREIGN, ids=lambda one: one.name)
def test_every_requirement_is_bounded_from_both_sides(requirement):
    assert {one.operator for one in requirement.specifier} == {">=", "<"}


@pytest.mark.parametrize("requirement", FOREIGN, ids=lambda one: one.name)
def test_the_pinned_version_is_within_the_bounds(requirement):
    pinned = pins("constraints.txt")[canonicalize_name(requirement.name)]

    assert requirement.specifier.contains(pinned.removeprefix("=="))


def test_production_installs_what_the_gate_has_tested():
    tested, installed = pins("constraints.txt"), pins("requirements.txt")

    assert installed.items() <= tested.items()
    wanted = [*PROJECT["project"]["dependencies"], *PROJECT["project"]["optional-dependencies"]["server"]]
    assert {canonicalize_name(Requirement(one).name) for one in wanted} <= installed.keys()


def test_everything_that_production_installs_has_its_hashes():
    lines = (ROOT / "requirements.txt").read_text().replace("\\\n", " ").splitlines()
    bare = [line for line in lines if line and not line.startswith("#") and "--hash=sha256:" not in line]

    assert bare == []


@pytest.mark.parametrize("name", ["constraints.txt", "requirements.txt"])
def test_no_place_to_download_from_is_named(name):
    assert not re.search(r"://|--(extra-)?index-url|--find-links|file:", (ROOT / name).read_text())
