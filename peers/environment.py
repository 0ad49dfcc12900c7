"""The virtual environment of the peers, made once and kept beside their results."""

import hashlib
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

from benchmarks.stack import console

HERE = Path(__file__).parent
OUT = HERE / "out"


def python() -> str:
    """The interpreter of the peers' environment, with what `requirements.txt` pins and the litellm that Holdfast has."""
    requirements = [*(HERE / "requirements.txt").read_text().split(), f"litellm=={version('litellm')}"]
    name = hashlib.sha256("\n".join([sys.version, *requirements]).encode()).hexdigest()[:12]
    folder = OUT / "environments" / name
    ready = folder / "ready"
    if not ready.exists():
        shutil.rmtree(folder, ignore_errors=True)
        with console.status(f"making an environment for the peers: {', '.join(requirements)}"):
            subprocess.run([sys.executable, "-m", "venv", folder], check=True)
            pip = [folder / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            subprocess.run([*pip, *requirements], check=True)
        ready.touch()
    return str(folder / "bin" / "python")
