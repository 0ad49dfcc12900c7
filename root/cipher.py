"""The cipher of payloads: an object of the user's, imported by its path in every process that opens the store."""

import asyncio
import importlib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import NoReturn, Protocol

from .errors import CipherFailed, ConfigurationError
from .redaction import said

_SHOWN = 200


class Cipher(Protocol):
    """An object that encrypts payloads before they reach the store, and decrypts them again.

    Event loops call both functions several times for each write, so they must not do I/O. If one raises, the write or read that
    needs it is refused.
    """

    def encrypt(self, data: bytes, context: bytes) -> bytes:
        """The ciphertext of a payload.

        `context`, the kind and the owner of the payload, is to be authenticated with it; it is not stored beside it.
        """

    def decrypt(self, data: bytes, context: bytes) -> bytes:
        """The payload of a ciphertext. An unknown key or another context raises an exception."""


@dataclass(frozen=True, slots=True)
class CipherAt:
    """The place of a cipher: its import path, `package.module:name`.

    `folder` is an additional folder to import the module from; '' for none.
    """

    path: str
    folder: str = ""

    @classmethod
    def of(cls, path: object) -> "CipherAt":
        """The place that a path names, in the working directory too; nothing is imported yet. Raises `ConfigurationError`."""
        fix = 'write "package.module:name", where the name is a global with encrypt and decrypt'
        if not isinstance(path, str):
            raise ConfigurationError("cipher", f"{type(path).__name__} is no import path", fix)
        module, _, attribute = path.partition(":")
        if module.endswith(".py") or not attribute.isidentifier() or not all(part.isidentifier() for part in module.split(".")):
            raise ConfigurationError("cipher", f"{path!r:.80} is no import path", fix)
        if module == "__main__":
            problem = "it is declared in the script that runs, which no other process can import"
            raise ConfigurationError("cipher", problem, "move it into a module of its own, and import it from there")
        try:
            return cls(path, str(Path.cwd()))
        except FileNotFoundError:  # a background process outlives the directory that it was started in
            return cls(path)

    def load(self) -> Cipher:
        """The cipher; `CipherFailed` if the module does not import, or has no such object with both functions."""
        name, _, attribute = self.path.partition(":")
        module = self._module(name)
        found = getattr(module, attribute, None)
        if found is None:
            raise CipherFailed(self.path, f"module {name!r} has no {attribute!r}")
        if not is_cipher(found):
            raise CipherFailed(self.path, f"{type(found).__name__} lacks the functions encrypt and decrypt")
        cipher: Cipher = found
        return cipher

    def found(self) -> "CipherAt":
        """The same place, with the folder from which this process imports the module; raises like `load`."""
        self.load()
        top = sys.modules[self.path.partition(":")[0].partition(".")[0]]
        places = list(getattr(top, "__path__", ())) or [getattr(top, "__file__", None) or ""]
        return CipherAt(self.path, str(Path(places[0]).resolve().parent) if places[0] else "")

    def _module(self, name: str) -> ModuleType:
        try:
            importlib.invalidate_caches()  # the file may be new
            try:
                return importlib.import_module(name)
            except ModuleNotFoundError as error:
                top = name.partition(".")[0]
                if error.name != top or not self.folder or self.folder in sys.path:
                    raise
                sys.path.append(self.folder)  # at the end, so that no file in it hides an installed module
                importlib.invalidate_caches()
                return importlib.import_module(name)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - importing runs the user's code
            self._refuse(name, error)

    def _refuse(self, name: str, error: BaseException) -> NoReturn:
        # The text of any other error may hold a key that could not be read.
        text = f": {error!s:.{_SHOWN}}" if isinstance(error, ImportError | KeyError) else ""
        raise CipherFailed(self.path, f"module {name!r} does not import ({type(error).__name__}{text})") from None


def is_cipher(value: object) -> bool:
    """Whether a value has the two functions of a cipher."""
    return all(callable(getattr(value, name, None)) for name in ("encrypt", "decrypt"))


def called(function: Callable[[bytes, bytes], bytes], data: bytes, context: bytes, what: str) -> bytes:
    """The bytes that a cipher's function returned for a payload; `CipherFailed` if it raised, or returned no bytes.

    The error's text is left out where it may hold the payload.
    """
    name = getattr(function, "__name__", "it")
    try:
        result = function(data, context)
    except (KeyboardInterrupt, asyncio.CancelledError):
        raise
    except BaseException as error:  # noqa: BLE001 - the user's code, and a library's that panics
        text = said(error) if name == "decrypt" else type(error).__name__
        raise CipherFailed(what, f"{name} raised {text:.{_SHOWN}}") from None
    if not isinstance(result, bytes):
        raise CipherFailed(what, f"{name} returned {type(result).__name__}, not bytes")
    return result
