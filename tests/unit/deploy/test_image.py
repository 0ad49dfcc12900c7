"""The image: what its Dockerfile promises, and that what it copies is there."""

import json
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
LINES = re.sub(r"\\\n\s*", "", (ROOT / "deploy" / "Dockerfile").read_text()).splitlines()
STEPS = [line.partition(" ")[::2] for line in LINES if line and not line.startswith("#")]
ADMITTED = [line for line in (ROOT / "deploy" / "Dockerfile.dockerignore").read_text().splitlines() if not line.startswith("#")]
COPIED = [
    source
    for name, arguments in STEPS
    if name == "COPY" and not arguments.startswith("--from=")
    for source in arguments.split()[:-1]
]
FOLDERS = sorted(tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-dir"].values())
LAST = STEPS[max(number for number, (name, _) in enumerate(STEPS) if name == "FROM") :]


def only(name):
    """The one step of this name in the last stage."""
    (found,) = [arguments for step, arguments in LAST if step == name]
    return found


def test_each_stage_begins_with_an_image_that_is_pinned_to_a_patch_release():
    begun = [arguments.split()[0] for name, arguments in STEPS if name == "FROM"]

    assert len(begun) == 2
    assert all(re.fullmatch(r"python:3\.\d+\.\d+-slim-[a-z]+", image) for image in begun)
    assert len(set(begun)) == 1


@pytest.mark.parametrize("path", COPIED)
def test_what_is_copied_is_there_and_reaches_the_builder(path):
    assert (ROOT / path).exists()
    assert f"!{path.removeprefix('./')}" in ADMITTED


def test_every_package_is_copied():
    assert sorted(path.removeprefix("./") for path in COPIED if (ROOT / path).is_dir()) == FOLDERS


def test_nothing_reaches_the_builder_that_is_not_named():
    assert ADMITTED[0] == "*"
    assert "**/.env" in ADMITTED


def test_what_is_installed_is_installed_by_hash():
    installs = [
        json.loads(arguments) for name, arguments in STEPS if name == "RUN" and "install" in arguments and "pip" in arguments
    ]

    assert ["--require-hashes" in one or {"--no-deps", "--no-build-isolation"} <= set(one) for one in installs] == [True, True]


def test_it_runs_as_nobody_that_the_host_knows():
    uid, gid = map(int, only("USER").split(":"))

    assert min(uid, gid) >= 10_000
    assert [name for name, _ in LAST].index("USER") > [name for name, _ in LAST].index("COPY")


def test_the_process_itself_gets_the_signals_and_is_asked_for_its_health():
    from holdfast.server import operating  # noqa: PLC0415 - here alone

    assert json.loads(only("CMD"))[:2] == ["holdfast", "serve"]
    assert only("STOPSIGNAL") == "SIGTERM"
    _, _, probe = only("HEALTHCHECK").partition("CMD ")
    (path,) = re.findall(r"127\.0\.0\.1:8484(/[a-z]+)", " ".join(json.loads(probe)))
    assert path in {operation.path for operation in operating.OPERATIONS}


def test_no_secret_is_in_a_layer():
    assert not [one for one in STEPS if one[0] in {"ARG", "ADD"}]
    assert not [arguments for name, arguments in STEPS if name == "ENV" and re.search(r"KEY|TOKEN|SECRET|PASSWORD", arguments)]
