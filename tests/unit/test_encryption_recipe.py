"""The recipe of docs/encryption.md, as it stands there: it hides, binds, rotates, and a store works with it."""

import base64
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import store_suite  # noqa: F401 - before its parts, whose assertions it has rewritten
from store_suite.reads import Reading
from store_suite.runs import Running

from holdfast.cipher import CipherAt
from holdfast.errors import CipherFailed
from holdfast.persistence import MemoryStore
from holdfast.persistence.codec import Payloads

PAGE = Path(__file__).parents[2] / "docs" / "encryption.md"
(SOURCE,) = re.findall(r"^```python\n(# payload_keys\.py\n.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)
OLD, NEW = (f"{name}:{base64.urlsafe_b64encode(bytes([number]) * 32).decode()}" for number, name in enumerate(("old", "new")))
PLACE = ("log", "c-1", "1")
WORD = b"Marie-Curie"


def keyring(*keys):
    """The recipe's cipher with these keys in the environment."""
    module = ModuleType("payload_keys")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("APP_KEYS", " ".join(keys))
        exec(compile(SOURCE, str(PAGE), "exec"), vars(module))  # noqa: S102 - the page's own
    return module.cipher


def payloads(*keys):
    """Payloads of a namespace with that cipher."""
    return Payloads("here", lambda: "store-1", keyring(*keys))


class TestMemoryStoreWithTheRecipe(Reading, Running):
    @pytest.fixture
    def store(self):
        return MemoryStore(cipher=keyring(NEW, OLD))

    @pytest.fixture
    def other(self, store):
        return store


def test_it_hides_and_never_twice_in_the_same_way():
    one, two = (payloads(NEW).seal(WORD, *PLACE) for _ in range(2))
    payloads(NEW).check()
    assert WORD not in one + two
    assert one != two


def test_the_old_key_goes_on_reading_until_it_is_given_up():
    before = payloads(OLD).seal(WORD, *PLACE)
    after = payloads(NEW, OLD).seal(WORD, *PLACE)

    assert payloads(NEW, OLD).open(before, *PLACE) == WORD
    assert payloads(OLD, NEW).open(after, *PLACE) == WORD
    for sealed, left in ((before, NEW), (after, OLD)):
        with pytest.raises(CipherFailed, match="KeyError"):
            payloads(left).open(sealed, *PLACE)


@pytest.mark.parametrize("at", [-1, -20, 20], ids=["tag", "ciphertext", "head"])
def test_a_changed_byte_does_not_read(at):
    sealed = bytearray(payloads(NEW).seal(WORD, *PLACE))
    sealed[at] ^= 1
    with pytest.raises(CipherFailed):
        payloads(NEW).open(bytes(sealed), *PLACE)


def test_a_payload_reads_in_no_other_place():
    sealed = payloads(NEW).seal(WORD, *PLACE)
    with pytest.raises(CipherFailed, match="InvalidTag"):
        payloads(NEW).open(sealed, "log", "c-2", "1")


@pytest.mark.parametrize(("keys", "said"), [(None, "KeyError: 'APP_KEYS'"), ("", "ValueError")])
def test_without_keys_nothing_is_encrypted_and_what_is_missing_is_named(keys, said, tmp_path, monkeypatch):
    (tmp_path / "payload_keys_of_a_test.py").write_text(SOURCE)
    monkeypatch.delenv("APP_KEYS", raising=False)
    if keys is not None:
        monkeypatch.setenv("APP_KEYS", keys)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(CipherFailed, match=said):
        Payloads("here", lambda: "store-1", CipherAt("payload_keys_of_a_test:cipher")).seal(WORD, *PLACE)


def test_the_key_that_it_makes_is_one(tmp_path):
    (tmp_path / "payload_keys.py").write_text(SOURCE)
    made = subprocess.run([sys.executable, "payload_keys.py"], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    payloads(made.strip()).check()
