"""Which tests are to notice that a module is wrong: the narrowest that answer for it, quick ones first."""

from pathlib import Path

PACKAGES = ("conversation", "actors", "registry")
DEEP = {"conversation": "**/*.py"}
"""The packages whose rooms are mutated, too."""
SEEDS = "1-60"
"""The seeds of the simulation that stand for all of it here."""
SLOWEST = "test_properties.py"
OUT_OF_REACH = {
    "actors/conversation_actor.py": "a Ray actor around `Host`: the acceptance tests run it",
    "actors/worker/model.py": "calls litellm: the acceptance tests run it against a model server",
    "actors/steps.py": "names steps, for tests/faults and the simulation",
    "actors/worker/app_runtime.py": "imports an app by path: the acceptance tests and tests/integration run it",
    "actors/memory.py": "reads what the machine says of a process",
    "registry/cluster.py": "asks Ray and Redis: the acceptance tests and tests/faults/test_cluster.py run it",
    "registry/ray_actors.py": "Ray actors behind `Actors`: the acceptance tests run it",
    "registry/sweeper.py": "a Ray actor around `Sweep`: the acceptance tests run it",
    "registry/watchdog.py": "ends Ray actors: tests/faults runs it",
}
"""Modules that no test without processes of its own can run, with what runs them instead."""


def modules(root):
    """The modules that are mutated, as paths in the tree."""
    files = (path for package in PACKAGES for path in sorted((root / package).glob(DEEP.get(package, "*.py"))))
    found = [path.relative_to(root).as_posix() for path in files]
    return [path for path in found if path not in OUT_OF_REACH and not path.endswith("__init__.py")]


def commands(root, path, python):
    """The commands of which one must fail if that module is wrong."""
    package, stem = Path(path).parts[0], Path(path).stem
    folder = Path("tests/unit", package)
    first = {f"test_{stem}.py": 0, SLOWEST: 2}
    tests = sorted((root / folder).rglob("test_*.py"), key=lambda test: (first.get(test.name, 1), test.name))
    named = [test.relative_to(root).as_posix() for test in tests]
    named[-1:-1] = ["tests/histories"] if package == "conversation" else []
    plugins = ["-p", "no:cacheprovider", "-p", "no:holdfast", "-p", "no:schemathesis", "-p", "unshrunk"]
    options = ["-x", "-q", *plugins, "--timeout=120"]
    pytest = [python, "-m", "pytest", *options, *named]
    if package == "conversation":
        return [pytest]
    return [pytest, [python, "tests/simulation", SEEDS]]
