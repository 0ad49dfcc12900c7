"""What the package offers, and what it needs."""

import subprocess
import sys

import pytest

import holdfast.testing
from holdfast.persistence import MemoryStore, RedisStore, Store
from holdfast.testing import FaultyStore

VERBS = sorted(name for name in dir(Store) if not name.startswith("_"))


def test_the_fakes_are_public():
    assert {"FaultyStore", "Faults", "FailBefore", "FailAfter", "Delay", "ModelServer"} <= set(holdfast.testing.__all__)
    for name in holdfast.testing.__all__:
        assert getattr(holdfast.testing, name) is not None


@pytest.mark.parametrize("kind", [MemoryStore, RedisStore])
def test_a_store_has_every_verb_and_no_other(kind):
    public = {name for name in dir(kind) if not name.startswith("_") and callable(getattr(kind, name))}

    assert public == {name for name in VERBS if name != "namespace"}
    for name in public:
        assert getattr(Store, name).__doc__


def test_a_faulty_store_has_every_verb():
    store = FaultyStore(MemoryStore(namespace="here"), lambda _method, _number: None)

    assert store.namespace == "here"
    for name in VERBS:
        assert getattr(store, name) is not None


@pytest.mark.parametrize("unwanted", ["ray", "litellm", "pytest"])
def test_nothing_heavy_is_imported(unwanted):
    code = f"import sys, holdfast.persistence, holdfast.testing.faulty_store as f; sys.exit({unwanted!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
