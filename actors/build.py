"""Which build of Holdfast a process runs.

A version is only a name; a digest of the files identifies the build. Two builds with the version "0.1.0" (a development
install, an image made from a branch) may have other classes under the same names.
"""

import functools
import hashlib
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

BUILD_DIGITS = 12
CIPHER = ".cipher."
"""In a release, the mark between the build and the digest of the cipher's path."""
CIPHER_DIGITS = 8
"""Fewer digits than a build has, so that no build ends in `.cipher.` and so many digits."""
_SUFFIXES = (".py", ".lua")
ROOT = "holdfast"
PACKAGES = (ROOT, *(f"holdfast.{name}" for name in ("conversation", "agent", "persistence", "embedded", "actors", "registry")))


@functools.cache
def this_release() -> str:
    """The release of Holdfast that this process runs: its PEP 440 version, with a digest of its files as the local part."""
    version = metadata.version("holdfast")
    return f"{version}{'.' if '+' in version else '+'}{_digest()[:BUILD_DIGITS]}"


def build_of(release: str) -> str:
    """The build of a release, without its cipher."""
    build, _, cipher = release.rpartition(CIPHER)
    return build if len(cipher) == CIPHER_DIGITS and build else release


def _digest() -> str:
    """The SHA-256 of the files that actors and their callers run, as of the first call, soon after the import."""
    found = hashlib.sha256()
    for package in PACKAGES:
        spec = find_spec(package)
        folder = Path((spec.submodule_search_locations or ["."])[0] if spec is not None else ".")
        for file in sorted(
            folder.glob("*") if package == ROOT else folder.rglob("*")
        ):  # an installed root package holds all the others
            if file.suffix in _SUFFIXES:
                content = hashlib.sha256(file.read_bytes()).hexdigest()
                found.update(f"{package}/{file.relative_to(folder).as_posix()}\0{content}\n".encode())
    return found.hexdigest()
