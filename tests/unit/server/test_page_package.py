"""The npm package of the page's code is the served files themselves, with a type for whatever they export."""

import json
import re
import runpy
import tomllib
from fnmatch import fnmatch
from importlib.resources import files
from pathlib import Path

FOLDER = files("holdfast.server") / "static"
PACKAGE = json.loads((FOLDER / "package.json").read_text())
MODULES = {file.name: file.read_text() for file in FOLDER.iterdir() if fnmatch(file.name, "holdfast*.js")}


def test_the_package_has_the_version_of_the_project_and_all_that_its_modules_import():
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
    imported = {name for source in MODULES.values() for name in re.findall(r'from "([^"]+)"', source) if name.startswith("./")}

    assert PACKAGE["version"] == project["version"]
    assert {name.removeprefix("./") for name in imported} == set(MODULES) - {"holdfast.js"}
    assert all(any(fnmatch(name, wanted) for wanted in PACKAGE["files"]) for name in MODULES)


def test_the_modules_need_nothing_from_elsewhere_and_make_no_html_of_texts():
    for name, source in MODULES.items():
        sources = re.findall(r'^(?:import|export)\b[^;]*? from "([^"]+)";', source, re.MULTILINE)
        assert all(one.startswith("./holdfast-") for one in sources), name
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|setHTML", source), (
            name
        )


def test_whatever_the_module_exports_has_a_type():
    exported = {
        word
        for names in re.findall(r"^export \{([^}]*)\}", MODULES["holdfast.js"], re.MULTILINE)
        for word in names.replace(",", " ").split()
    }
    for whole in re.findall(r'^export \* from "\./([^"]+)"', MODULES["holdfast.js"], re.MULTILINE):
        exported |= set(re.findall(r"^export (?:const|function|class) (\w+)", MODULES[whole], re.MULTILINE))
    types = (FOLDER / "holdfast.d.ts").read_text()
    typed = set(re.findall(r"^export (?:class|function|const) (\w+)", types, re.MULTILINE))

    assert exported == typed


def test_the_types_of_data_are_those_of_the_description_of_the_api():
    script = runpy.run_path(str(Path(__file__).parents[3] / "docs" / "page_types.py"))
    assert (FOLDER / "holdfast.d.ts").read_text() == script["types"](), "run: python docs/page_types.py"
