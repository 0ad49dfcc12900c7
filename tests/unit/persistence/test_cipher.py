"""Where a cipher is found, what it may be, and what is said of one that does not do what it should."""

import sys
import threading

import pytest
from toy_cipher import ToyCipher

from holdfast.cipher import CipherAt
from holdfast.errors import CipherFailed, CipherMissing, ConfigurationError, CorruptStore, NewerRecord
from holdfast.persistence import codec
from holdfast.persistence.codec import Payloads

KEY_TEXT = "c2VjcmV0LWtleQ"


@pytest.fixture
def module(tmp_path):
    """Makes a module that nothing on the path leads to; its name."""
    made = []

    def make(source):
        name = f"module_of_a_cipher_{len(made)}_{tmp_path.name.replace('-', '_')}"
        (tmp_path / f"{name}.py").write_text(source)
        made.append(name)
        return name

    yield make
    for name in made:
        sys.modules.pop(name, None)
    sys.path[:] = [entry for entry in sys.path if entry != str(tmp_path)]


def payloads(cipher=None, *, namespace="here", store_id="store-1"):
    return Payloads(namespace, lambda: store_id, cipher)


@pytest.mark.parametrize(
    "path", ["keys", "keys:", ":cipher", "keys.py:cipher", "a/b:cipher", "keys:a.b", "", 7, None, b"keys:cipher"]
)
def test_what_is_no_import_path_is_refused_with_the_fix(path):
    with pytest.raises(ConfigurationError, match=r"cipher: .*package\.module:name"):
        CipherAt.of(path)


def test_a_cipher_of_the_running_script_is_refused_since_no_other_process_finds_it():
    with pytest.raises(ConfigurationError, match="a module of its own"):
        CipherAt.of("__main__:cipher")


def test_a_cipher_is_found_in_the_working_directory_and_then_by_its_folder_from_everywhere(module, tmp_path, monkeypatch):
    name = module("from toy_cipher import ToyCipher\ncipher = ToyCipher()")
    monkeypatch.chdir(tmp_path)
    found = CipherAt.of(f"{name}:cipher").found()
    assert found.folder == str(tmp_path)
    del sys.modules[name]
    monkeypatch.chdir("/")
    sys.path.remove(str(tmp_path))

    assert isinstance(found.load(), ToyCipher)
    assert sys.path[-1] == str(tmp_path)  # after all that is installed


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("", "has no 'cipher'"),
        ("cipher = 7", "int lacks the functions encrypt and decrypt"),
        ("import no_such_module", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("import os; os.environ['NO_SUCH_KEY']", "KeyError: 'NO_SUCH_KEY'"),
        (f"raise ValueError('{KEY_TEXT} is no key')", r"\(ValueError\)"),
        ("raise SystemExit(3)", "SystemExit"),
    ],
)
def test_a_module_that_has_no_cipher_is_named_and_no_key_is_told(module, tmp_path, source, said):
    name = module(source)
    with pytest.raises(CipherFailed, match=said) as failed:
        CipherAt(f"{name}:cipher", str(tmp_path)).load()
    assert KEY_TEXT not in str(failed.value)
    assert failed.value.__cause__ is None


def test_without_a_cipher_a_payload_is_the_very_same_bytes():
    data = codec.pack([codec.VERSION, "event", {"text": "hello"}])
    assert payloads().seal(data, "log", "c-1", "1") is data
    assert payloads().open(data, "log", "c-1", "1") is data


def test_a_cipher_is_looked_for_only_when_a_payload_needs_it():
    store = payloads(CipherAt("no_such_module:cipher"))
    assert store.open(b"\x93 plain", "log", "c-1", "1") == b"\x93 plain"
    with pytest.raises(CipherFailed, match="no_such_module"):
        store.seal(b"plain", "log", "c-1", "1")


def test_what_is_sealed_opens_in_its_place_and_in_no_other():
    sealed = payloads(ToyCipher()).seal(b"a word", "log", "c-1", "1")

    assert payloads(ToyCipher()).open(sealed, "log", "c-1", "1") == b"a word"
    for other, place in (
        (payloads(ToyCipher()), ("log", "c-1", "2")),
        (
            payloads(ToyCipher()),
            (
                "log",
                "c-11",
            ),
        ),
        (payloads(ToyCipher()), ("outcome", "c-1", "1")),
        (payloads(ToyCipher(), namespace="there"), ("log", "c-1", "1")),
        (payloads(ToyCipher(), store_id="store-2"), ("log", "c-1", "1")),
    ):
        with pytest.raises(CipherFailed, match="Tampered"):
            other.open(sealed, *place)


def test_no_payload_is_sealed_before_the_store_is_known():
    with pytest.raises(CipherFailed, match="open the store"):
        payloads(ToyCipher(), store_id=None).seal(b"a word", "log", "c-1", "1")


def test_a_sealed_record_that_nobody_opened_is_no_corruption():
    with pytest.raises(CipherMissing, match="HOLDFAST_CIPHER"):
        codec.decode_event(payloads(ToyCipher()).seal(b"a word", "log", "c-1", "1"))


def test_a_sealed_record_of_a_newer_release_is_refused_as_such():
    newer = bytes([0x93, codec.VERSION + 1]) + codec.encode_sealed(b"a word")[2:]
    with pytest.raises(NewerRecord):
        payloads(ToyCipher()).open(newer, "log", "c-1", "1")


@pytest.mark.parametrize("fields", [b"\x80", b"\x81\xa4data\x07", b"\x07", b""])
def test_a_sealed_record_without_a_ciphertext_is_corrupt(fields):
    with pytest.raises(CorruptStore):
        payloads(ToyCipher()).open(bytes([0x93, codec.VERSION]) + b"\xa6sealed" + fields, "log", "c-1", "1")


class Wrong(ToyCipher):
    """One that has learnt what to return, or to take too little."""

    def __init__(self, **instead):
        super().__init__()
        for name, returned in instead.items():
            setattr(self, name, returned if callable(returned) else lambda _data, _context: returned)  # noqa: B023 - at most one


@pytest.mark.parametrize(
    ("cipher", "said"),
    [
        (Wrong(encrypt=lambda data, _context: data), "encrypt returned what it was given"),
        (Wrong(encrypt=lambda data, _context: b"x" + data), "encrypt returned what it was given"),
        (Wrong(decrypt=b"another"), "does not give back"),
        (Wrong(decrypt="text"), "returned str, not bytes"),
        (
            Wrong(encrypt=lambda data, _context: data[::-1], decrypt=lambda data, _context: data[::-1]),
            "accepts another context",
        ),
        (Wrong(encrypt=lambda data: data), "raised TypeError"),
    ],
)
def test_a_cipher_that_does_not_do_its_work_is_refused_before_anything_relies_on_it(cipher, said):
    with pytest.raises(CipherFailed, match=said):
        payloads(cipher).check()


def test_a_cipher_that_does_its_work_passes_and_so_does_none():
    payloads(ToyCipher()).check()
    payloads().check()


class Panic(BaseException):
    def __str__(self):
        raise RuntimeError("nothing can be said")


def test_a_cipher_that_panics_or_cannot_say_what_is_wrong_has_failed():
    class Panics(ToyCipher):
        def encrypt(self, data, context):
            raise Panic

        def decrypt(self, data, context):
            raise Panic

    sealed = payloads(ToyCipher()).seal(b"a word", "log")
    with pytest.raises(CipherFailed, match="decrypt raised Panic"):
        payloads(Panics()).open(sealed, "log")
    with pytest.raises(CipherFailed, match="encrypt raised Panic"):
        payloads(Panics()).seal(b"a word", "log")


def test_a_module_that_does_not_import_is_not_imported_for_each_payload(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    tried = tmp_path / "tried"
    source = f"from pathlib import Path\npath = Path({str(tried)!r})\npath.write_text(path.read_text() + 'x')"
    tried.write_text("")
    (tmp_path / "cipher_that_fails.py").write_text(f"{source}\nraise KeyError('K')\n")
    sealing = payloads(CipherAt("cipher_that_fails:cipher"))
    for _ in range(3):
        with pytest.raises(CipherFailed, match="does not import"):
            sealing.seal(b"a word", "log")
    assert tried.read_text() == "x"
    monkeypatch.setattr("holdfast.persistence.codec.AGAIN_S", 0)
    with pytest.raises(CipherFailed):
        sealing.seal(b"a word", "log")
    assert tried.read_text() == "xx"


async def test_a_module_whose_import_hangs_holds_up_no_loop_and_whoever_needs_the_cipher_is_told(monkeypatch):
    ended, begun = threading.Event(), []

    def hang(_):
        begun.append(threading.current_thread())
        ended.wait(60)
        return ToyCipher()

    monkeypatch.setattr(CipherAt, "load", hang)
    monkeypatch.setattr("holdfast.persistence.codec.IMPORT_S", 0.05)
    sealing = payloads(CipherAt("slow:cipher"))
    await sealing.prepare()
    await sealing.prepare()
    with pytest.raises(CipherFailed, match="still being imported"):
        sealing.seal(b"a word", "log")
    assert [one.daemon for one in begun] == [True]  # no exit waits for it

    ended.set()
    begun[0].join(60)
    assert sealing.open(sealing.seal(b"a word", "log"), "log") == b"a word"


async def test_where_no_thread_can_be_started_the_first_use_imports_the_cipher(monkeypatch):
    async def refuse(_work):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("holdfast.persistence.codec.in_daemon", refuse)
    monkeypatch.setattr(CipherAt, "load", lambda _: ToyCipher())
    sealing = payloads(CipherAt("slow:cipher"))
    await sealing.prepare()
    assert sealing.open(sealing.seal(b"a word", "log"), "log") == b"a word"
