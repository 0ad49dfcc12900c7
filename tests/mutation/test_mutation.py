"""The mutation run: what it changes, that a seed draws the same, and that it tells what is noticed from what is not."""

from pathlib import Path

import pytest
from mutation import campaign, suites
from mutation.mutants import mutants_of

ROOT = Path(__file__).resolve().parents[2]

SOURCE = '''"""A module."""

LIMIT = 3


def small(number: int, *, strict: bool = True) -> bool:
    """Whether a number is small."""
    logger.debug("asked for %s", 7)
    if number is None or not strict:
        raise ValueError(f"{number} of {1 + 1}")
    seen.add(number)
    return number < LIMIT and number >= 0
'''


def changed(what, source=SOURCE):
    """The lines that mutants of that sort put in place of what stood there."""
    return [mutant.after for mutant in mutants_of("module.py", source) if mutant.what == what]


@pytest.mark.parametrize(
    ("what", "after"),
    [
        ("constant changed", ["4", "False", "1"]),
        ("comparison changed", ["(number is not None)", "(number <= LIMIT)", "(number > 0)"]),
        ("and/or changed", ["(number is None and (not strict))", "(number < LIMIT or number >= 0)"]),
        ("not or minus dropped", ["(strict)"]),
        ("raise removed", ["pass"]),
        ("statement removed", ["pass"]),
        ("None returned", ["return None"]),
        ("condition negated", ["(not (number is None or not strict))"]),
    ],
)
def test_each_sort_of_mistake_is_made_where_it_can_be(what, after):
    assert changed(what) == after


def test_every_mutant_compiles_differs_and_has_a_name_of_its_own():
    for path in ("conversation/judging/deciding.py", "actors/activation/activation.py"):
        source = (ROOT / path).read_text()
        mutants = mutants_of(path, source)
        assert len(mutants) > 50
        assert len({mutant.name for mutant in mutants}) == len(mutants)
        for mutant in mutants:
            assert mutant.compiles(source)
            assert mutant.applied(source) != source
            assert "\n+" in mutant.diff(source)


def test_a_seed_draws_the_same_mutants_and_another_seed_draws_others():
    first = [mutant.name for mutant in campaign.sample(ROOT, 30, 1)]
    assert [mutant.name for mutant in campaign.sample(ROOT, 30, 1)] == first
    assert [mutant.name for mutant in campaign.sample(ROOT, 30, 2)] != first
    assert [mutant.name for mutant in campaign.sample(ROOT, 60, 1)][:30] == first


def test_every_package_has_its_share_and_what_is_out_of_reach_exists():
    packages = {mutant.path.split("/")[0] for mutant in campaign.sample(ROOT, 9, 1)}
    assert packages == set(suites.PACKAGES)
    assert all((ROOT / path).exists() for path in suites.OUT_OF_REACH)


@pytest.fixture
def project(tmp_path):
    """A project with one module, of which half is tested."""
    (tmp_path / "conversation").mkdir()
    (tmp_path / "root").mkdir()
    for package in ("root", "conversation"):
        (tmp_path / package / "__init__.py").write_text("")  # else an installed package of that name goes before it
    (tmp_path / "conversation" / "two.py").write_text("def tested():\n    return 'x'\n\n\ndef untested():\n    return 'y'\n")
    (tmp_path / "pyproject.toml").write_text(
        '[tool.setuptools.package-dir]\n"holdfast" = "root"\n"holdfast.conversation" = "conversation"\n'
    )
    plugin = tmp_path / "tests" / "mutation" / "plugin"
    plugin.mkdir(parents=True)
    (plugin / "unshrunk.py").write_text((ROOT / "tests/mutation/plugin/unshrunk.py").read_text())
    for folder, what in (("tests/unit/conversation", "tested"), ("tests/histories", "tested")):
        (tmp_path / folder).mkdir(parents=True)
        test = f"from holdfast.conversation.two import {what}\n\n\ndef test_it():\n    assert {what}() == 'x'\n"
        (tmp_path / folder / f"test_{folder.rsplit('/', maxsplit=1)[-1]}.py").write_text(test)
    return tmp_path


def test_what_no_test_notices_survives_and_what_one_notices_does_not(project):
    mutants = [mutant for mutant in campaign.everything(project) if mutant.what == "None returned"]
    results = {result.mutant.line: result for result in campaign.run(project, mutants, told=list)}
    assert {line: result.status for line, result in results.items()} == {2: "killed", 6: "survived"}
    assert (project / "conversation/two.py").read_text().count("None") == 0


def test_a_run_goes_on_from_what_is_known(project, tmp_path):
    mutants = campaign.everything(project)
    rows = {mutants[0].name: {"name": mutants[0].name, "status": "killed"}}
    results = tmp_path / "results.json"
    told = []
    for result in campaign.run(project, mutants[:2], known=rows, told=told.append):
        rows[result.mutant.name] = campaign.row(result)
        campaign.save(results, 1, rows)
    assert len(told) == 1
    assert set(campaign.load(results)) == {mutant.name for mutant in mutants[:2]}


def test_a_product_that_fails_its_tests_unchanged_is_not_mutated(project):
    (project / "conversation/two.py").write_text("def tested():\n    return 2\n")
    with pytest.raises(campaign.BaselineFails):
        list(campaign.run(project, campaign.everything(project), told=list))
