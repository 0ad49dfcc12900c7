"""What the command line imports: `pending` must start as fast as a person expects a list."""

import subprocess
import sys
import textwrap

import pytest


def imported(cli, text: str) -> set[str]:
    code = f"import sys\n{textwrap.dedent(text)}\nprint('modules', *sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], env=cli.env, capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split())


def test_the_package_itself_imports_next_to_nothing(cli):
    found = imported(cli, "import holdfast.cli")

    assert not {"ray", "litellm", "redis", "pydantic", "typer", "rich"} & found


@pytest.mark.parametrize(("arguments", "codes"), [(["pending"], (0,)), (["list", "--json"], (0,)), (["problems"], (0, 1))])
def test_reading_imports_neither_ray_nor_litellm_nor_what_only_others_need(cli, arguments, codes):
    found = imported(cli, f"sys.argv = ['holdfast', *{arguments}]\nfrom holdfast.cli import main\nassert main() in {codes}")

    assert "typer" in found
    others = {
        "ray",
        "litellm",
        "aiohttp",
        "jsonschema",
        "jsonschema_rs",
        "pydantic_settings",
        "holdfast.agent",
        "holdfast.testing",
    }
    assert not others & found


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], []])
def test_help_lists_the_commands_and_needs_no_stack(inside, monkeypatch, arguments):
    monkeypatch.setenv("HOLDFAST_REDIS_URL", "redis://127.0.0.1:1")

    said = inside(*arguments)

    assert said.code == 0
    names = "demo pending resolve send cancel end retry list show problems submit pause unpause up down doctor reindex"
    for name in names.split():
        assert f" {name} " in said.out


def test_the_version_is_said(inside):
    assert inside("--version").out.startswith("holdfast 0.")
