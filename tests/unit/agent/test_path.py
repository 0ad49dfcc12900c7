import os
import pickle
import sys
from pathlib import Path
from types import ModuleType

import pytest

from holdfast.agent import App, load, main_file, path_of, python_path
from holdfast.agent.path import placed
from holdfast.errors import AppNotFound, ConfigurationError

SOURCE = """
from holdfast.agent import Agent, App
app = App(agents=[Agent(name="support")])
other = App(agents=[])
number = 5
"""


@pytest.fixture(autouse=True)
def project(tmp_path, monkeypatch):
    """A directory of the user's, which is the current one; what is imported from it is forgotten afterwards."""
    before = dict(sys.modules)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    for name in set(sys.modules) - set(before):
        del sys.modules[name]
    sys.modules.update(before)


def write(directory, name, source=SOURCE):
    file = directory / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(source)
    return file


def refused(path, *words, **options):
    with pytest.raises(AppNotFound) as caught:
        load(path, **options)
    error = caught.value
    assert error.field == "app"
    for word in words:
        assert word in f"{error.problem}; {error.fix}"
    return error


def test_an_app_is_found_in_the_current_directory(project):
    write(project, "shop/agents.py")
    found = load("shop.agents:app")
    assert found is sys.modules["shop.agents"].app
    assert sys.path[-1] == str(project)


def test_a_file_of_the_current_directory_stands_in_for_no_installed_package(project):
    write(project, "packaging/__init__.py", "raise RuntimeError('not the one that is installed')")
    write(project, "shop.py", f"import packaging.version\n{SOURCE}")
    for name in [name for name in sys.modules if name.split(".")[0] == "packaging"]:
        del sys.modules[name]

    load("shop:app")

    assert not Path(sys.modules["packaging"].__file__).is_relative_to(project)


def test_who_meant_a_module_of_the_current_directory_and_got_an_installed_one_is_told(project):
    write(project, "packaging.py")
    refused("packaging:app", "no attribute 'app'", "packaging/__init__.py, not what lies in this directory")
    assert "lies in" not in str(refused("json:app", "no attribute 'app'"))


@pytest.mark.parametrize(
    ("theirs", "mine", "expected"),
    [
        (["/s", "/std", "/site"], ["/std", "/site"], ["/s", "/std", "/site"]),
        (["/std", "/site", "/cwd"], ["/w", "/std", "/site"], ["/w", "/std", "/site", "/cwd"]),
        (["/s", "/std", "/site", "/cwd"], ["/std", "/site"], ["/s", "/std", "/site", "/cwd"]),
        (["/a", "/b"], ["/std"], ["/a", "/b", "/std"]),
        ([], ["/std"], ["/std"]),
    ],
)
def test_another_processes_directories_stand_where_they_stood_there(theirs, mine, expected):
    assert placed(theirs, mine) == expected


def test_the_attribute_is_app_by_default(project):
    write(project, "shop.py")
    assert load("shop") is load("shop:app")
    assert load("shop:other") is not load("shop:app")


@pytest.mark.parametrize("path", ["", ":", ":app", "shop:", "shop:a.b", "sh op:app", "shop..x:app", ".shop:app", "a:b:c", 5])
def test_an_ill_formed_path_is_refused_with_the_form(path):
    refused(path, "package.module:app")


@pytest.mark.parametrize(("path", "instead"), [("shop/agents.py", "shop.agents:app"), ("./shop.py:other", "shop:other")])
def test_a_file_is_refused_with_its_import_path(path, instead):
    refused(path, "is a file", repr(instead))


def test_a_module_that_is_not_there_is_named():
    error = refused("nowhere_at_all.agents:app", "no module 'nowhere_at_all'", "PYTHONPATH")
    assert isinstance(error.__cause__, ModuleNotFoundError)


def test_a_module_that_does_not_import_tells_its_own_error(project):
    write(project, "broken.py", "import nowhere_at_all")
    error = refused("broken:app", "'broken' does not import", "ModuleNotFoundError: No module named 'nowhere_at_all'")
    assert isinstance(error.__cause__, ModuleNotFoundError)
    write(project, "leaving.py", "raise SystemExit(3)")
    assert isinstance(refused("leaving", "SystemExit: 3").__cause__, SystemExit)


def test_a_wrong_declaration_comes_out_as_it_is(project):
    write(project, "wrong.py", "from holdfast.agent import Tool\nTool(name='a b')")
    with pytest.raises(ConfigurationError) as caught:
        load("wrong:app")
    assert caught.value.field == "tool 'a b'.name"


def test_a_missing_attribute_is_refused_with_the_apps_there(project):
    write(project, "shop.py")
    refused("shop:nope", "no attribute 'nope'", "'shop:app' or 'shop:other'")
    write(project, "bare.py", "")
    refused("bare", "no attribute 'app'", "app = App(")


def test_an_attribute_that_is_no_app_is_refused_with_the_apps_there(project):
    write(project, "shop.py")
    refused("shop:number", "'shop:number' is int, not an App", "'shop:app'")


def test_the_path_of_an_app_leads_back_to_it(project):
    write(project, "shop/agents.py")
    assert path_of(load("shop.agents:other")) == "shop.agents:other"


def test_an_app_made_by_a_factory_of_another_module_has_the_path_of_the_global(project):
    write(project, "factory.py", "from holdfast.agent import App\ndef make(): return App(agents=[])")
    write(project, "shop.py", "from factory import make\napp = make()")
    assert path_of(load("shop:app")) == "shop:app"


def test_an_app_that_is_no_global_has_no_path():
    with pytest.raises(ConfigurationError, match="no global of a module"):
        path_of(App(agents=[]))
    with pytest.raises(ConfigurationError, match="not an App"):
        path_of("shop:app")


def test_main_is_the_running_script_in_its_own_process(monkeypatch, project):
    script = ModuleType("__main__")
    script.__file__ = str(write(project, "script.py"))
    script.app = App(agents=[])
    script.app.module = "__main__"
    monkeypatch.setitem(sys.modules, "__main__", script)
    assert load("__main__:app") is script.app
    assert path_of(script.app) == "__main__:app"
    assert main_file("__main__:app") == str(project / "script.py")


def test_only_main_has_a_main_file():
    assert main_file("shop:app") is None


def test_a_prompt_or_notebook_has_no_main_file(monkeypatch):
    monkeypatch.setitem(sys.modules, "__main__", ModuleType("__main__"))
    with pytest.raises(AppNotFound, match="move it into a module"):
        main_file("__main__:app")


def test_a_script_run_as_a_module_has_that_modules_path(monkeypatch, project):
    write(project, "shop/agents.py")
    known = load("shop.agents:app")
    script = ModuleType("__main__")
    script.__spec__ = sys.modules["shop.agents"].__spec__
    script.app = App(agents=[])
    script.app.module = "__main__"
    monkeypatch.setitem(sys.modules, "__main__", script)
    assert path_of(script.app) == "shop.agents:app"
    assert load(path_of(script.app)) is known
    with pytest.raises(AppNotFound, match=r"use 'shop\.agents:app'"):
        main_file("__main__:app")


def test_a_worker_loads_the_script_without_running_it_as_a_script(project):
    source = """
from __future__ import annotations
from pydantic import BaseModel
from holdfast.agent import Agent, App, ToolContext, tool
from helper import NAME

class Order(BaseModel):
    number: int

@tool
def refund(order: Order, call: ToolContext): return order

app = App(agents=[Agent(name=NAME, tools=[refund])])
if __name__ == "__main__":
    raise SystemExit("it ran")
"""
    write(project, "scripts/helper.py", "NAME = 'support'")
    script = write(project, "scripts/run", source)
    app = load("__main__:app", main_file=str(script))
    module = sys.modules["__holdfast_main__"]
    assert app is module.app
    assert app is load("__main__:app", main_file=str(script))
    assert "order" in app.agent("support").tool("refund").spec.parameters
    assert pickle.loads(pickle.dumps(module.Order(number=5))) == module.Order(number=5)  # noqa: S301


def test_a_script_that_does_not_load_leaves_no_module_behind(project):
    script = write(project, "run.py", "1 / 0")
    refused("__main__:app", "ZeroDivisionError", main_file=str(script))
    assert "__holdfast_main__" not in sys.modules
    refused("__main__:app", "FileNotFoundError", main_file=str(project / "gone.py"))


def test_the_python_path_is_absolute_and_exists(monkeypatch, project):
    (project / "lib").mkdir()
    monkeypatch.setattr(sys, "path", ["", "lib", str(project / "gone"), str(project), os.path.dirname(os.__file__)])  # noqa: PTH120 - as sys.path has it
    assert python_path()[:2] == [str(project), str(project / "lib")]
    assert len(python_path()) == 3
