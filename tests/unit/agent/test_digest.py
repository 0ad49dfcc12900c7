import sys
from types import ModuleType

import pytest

from holdfast.agent import code_digest, load
from holdfast.errors import AppNotFound

APP = """
from holdfast.agent import Agent, App
from .tools import refund
app = App(agents=[Agent(name="support", tools=[refund])])
"""
TOOLS = """
from ..shared import text
def refund(order: str) -> str:
    import late
    return text
"""


@pytest.fixture(autouse=True)
def project(tmp_path, monkeypatch):
    before = dict(sys.modules)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.chdir(tmp_path)
    files = {
        "shop/__init__.py": "",
        "shop/agents/__init__.py": "",
        "shop/agents/main.py": APP,
        "shop/agents/tools.py": TOOLS,
        "shop/shared.py": "text = 'a'",
        "shop/unrelated.py": "",
        "late.py": "",
    }
    for name, source in files.items():
        write(tmp_path, name, source)
    yield tmp_path
    for name in set(sys.modules) - set(before):
        del sys.modules[name]
    sys.modules.update(before)


def write(directory, name, source):
    file = directory / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(source)


PATH = "shop.agents.main:app"


def test_the_same_code_has_the_same_digest():
    assert code_digest(PATH) == code_digest(PATH)
    assert len(code_digest(PATH)) == 64


@pytest.mark.parametrize(
    "name", ["shop/agents/main.py", "shop/agents/tools.py", "shop/shared.py", "shop/__init__.py", "late.py"]
)
def test_an_edit_of_the_apps_own_code_changes_the_digest_in_the_same_process(project, name):
    before = code_digest(PATH)
    write(project, name, "# edited")
    assert code_digest(PATH) != before


def test_a_file_that_is_being_edited_counts_though_it_does_not_parse(project):
    before = code_digest(PATH)
    write(project, "shop/shared.py", "def (")
    assert code_digest(PATH) != before


def test_what_the_app_does_not_import_does_not_count_even_if_it_is_loaded(project):
    before = code_digest(PATH)
    __import__("shop.unrelated")
    write(project, "shop/unrelated.py", "edited = True")
    assert code_digest(PATH) == before


def test_installed_packages_do_not_count(project):
    write(project, "site-packages/installed.py", "")
    sys.path.insert(0, str(project / "site-packages"))
    write(project, "shop/shared.py", "import installed\ntext = installed")
    before = code_digest(PATH)
    write(project, "site-packages/installed.py", "edited = True")
    assert code_digest(PATH) == before


def test_an_installed_app_owns_its_package(project):
    root = project / "site-packages"
    write(root, "product/__init__.py", "")
    write(
        root, "product/app.py", "from holdfast.agent import App\nfrom product import help\nimport other\napp = App(agents=[])"
    )
    write(root, "product/help.py", "")
    write(root, "other.py", "")
    sys.path.insert(0, str(root))
    first = code_digest("product.app:app")
    write(root, "product/help.py", "edited = True")
    second = code_digest("product.app:app")
    write(root, "other.py", "edited = True")
    assert first != second == code_digest("product.app:app")


def test_a_tool_whose_module_was_imported_by_name_counts(project):
    source = "import importlib\nfrom holdfast.agent import Agent, App\n"
    source += "app = App(agents=[Agent(name='a', tools=[importlib.import_module('plug' + 'in').refund])])"
    write(project, "dynamic.py", source)
    write(project, "plugin.py", "def refund(): pass")
    before = code_digest("dynamic:app")
    write(project, "plugin.py", "def refund(): return 1")
    assert code_digest("dynamic:app") != before


def test_a_script_has_the_same_digest_in_its_own_process_and_in_a_worker(project, monkeypatch):
    source = "from holdfast.agent import Agent, App\nimport late\ndef refund(): pass\n"
    source += "app = App(agents=[Agent(name='a', tools=[refund])])"
    write(project, "script.py", source)
    script = ModuleType("__main__")
    script.__file__ = str(project / "script.py")
    sys.path.insert(0, str(project))
    exec(source, vars(script))  # noqa: S102
    monkeypatch.setitem(sys.modules, "__main__", script)
    worker = code_digest("__main__:app", main_file=str(project / "script.py"))
    assert code_digest("__main__:app") == worker
    write(project, "late.py", "edited = True")
    assert code_digest("__main__:app") != worker


def test_the_digest_does_not_depend_on_where_the_project_lies(project, monkeypatch):
    first = code_digest(PATH)
    moved = project / "moved"
    for file in [*project.glob("shop/**/*.py"), project / "late.py"]:
        write(moved, str(file.relative_to(project)), file.read_text())
    for name in [name for name in sys.modules if name.partition(".")[0] in ("shop", "late")]:
        del sys.modules[name]
    monkeypatch.setattr(sys, "path", [str(moved), *sys.path])
    assert load(PATH)
    assert sys.modules["shop"].__file__ == str(moved / "shop/__init__.py")
    assert code_digest(PATH) == first


def test_a_path_that_leads_to_no_app_has_no_digest():
    with pytest.raises(AppNotFound):
        code_digest("shop:nope")
