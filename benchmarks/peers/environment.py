"""The virtual environments of the peers, made once and kept beside the results."""

import hashlib
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

from benchmarks.stack import OUT, console

HERE = Path(__file__).parent


def python_of(peer: str) -> str:
    """The interpreter of a peer's environment, with what its requirements file pins and the litellm that Holdfast has."""
    requirements = [*(HERE / f"{peer}.txt").read_text().split(), f"litellm=={version('litellm')}"]
    name = hashlib.sha256("\n".join([sys.version, *requirements]).encode()).hexdigest()[:12]
    folder = OUT / "environments" / f"{peer}-{name}"
    ready = folder / "ready"
    if not ready.exists():
        shutil.rmtree(folder, ignore_errors=True)
        with console.status(f"making an environment for {peer}: {', '.join(requirements)}"):
            subprocess.run([sys.executable, "-m", "venv", folder], check=True)
            pip = [folder / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            subprocess.run([*pip, *requirements], check=True)
        ready.touch()
    return str(folder / "bin" / "python")
