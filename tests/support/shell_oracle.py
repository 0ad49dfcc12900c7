"""What bash runs of commands: in a folder of its own, where harmless programs stand in for those that do harm."""

import contextlib
import os
import shutil
import signal
import subprocess
from pathlib import Path

STAND_INS = ("rm", "git", "npm")
REAL = (
    *("bash", "sh", "env", "nice", "nohup", "timeout", "stdbuf", "setsid", "xargs", "linux64", "linux32", "setarch", "x86_64"),
    *("flock", "ionice", "chrt", "taskset", "prlimit", "choom", "setpriv", "unshare", "find", "script", "cat", "tee", "split"),
    *(
        "echo",
        "printf",
        "true",
        "false",
        "test",
        "sort",
        "tr",
        "rev",
        "base64",
        "head",
        "sed",
        "ln",
        "cp",
        "chmod",
        "mkdir",
        "dd",
        "perl",
        "awk",
        "dash",
    ),
)
TIME_S = 60

# A stand-in says to the folder of its spelling, wherever in it it runs, what it was called by.
STAND_IN = """#!/bin/sh
PATH=
n=${{PWD#{work}/}}
n=${{n%%/*}}
{{ printf '%s\\t' "${{0##*/}}" "$@"; printf '\\n'; }} >> {work}/ran/"$n"
"""
DRIVER = """
ulimit -n 64 -t 30 -f 1024
while read -r n; do
    cd "$WORK/$n" || exit
    timeout -s KILL 2 bash -c "$(<../$n.text)" < /dev/null > /dev/null 2>&1 || [ $? != 137 ] || echo "$n" >> "$WORK/slow"
done
"""


def ran(work: Path, texts: list[str]) -> list[list[list[str]]]:
    """Of each text, the words of each program that bash ran of it and that has a stand-in."""
    programs = work / "bin"
    programs.mkdir(parents=True)
    (work / "ran").mkdir()
    for name in STAND_INS:
        (programs / name).write_text(STAND_IN.format(work=work))
        (programs / name).chmod(0o755)
    for name in REAL:
        if found := shutil.which(name):
            shutil.copy(found, programs / name)  # no link: a text may write through it
    for number, text in enumerate(texts):
        folder = work / str(number)
        folder.mkdir()
        (folder / "bin").symlink_to(programs)
        (folder / "f1").touch()
        (work / f"{number}.text").write_text(text)
    halves = [[str(number) for number in range(first, len(texts), 2)] for first in (0, 1)]
    surroundings = {"PATH": str(programs), "WORK": str(work), "LC_ALL": "C.UTF-8", "HOME": str(work)}
    shells = [
        subprocess.Popen(
            [shutil.which("bash") or "bash", "-c", DRIVER],
            stdin=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=surroundings,
            cwd=work,
            text=True,
            start_new_session=True,
        )
        for _ in halves
    ]
    for shell, half in zip(shells, halves, strict=True):
        shell.stdin.write("\n".join(half) + "\n")
        shell.stdin.close()
    for shell in shells:
        try:
            shell.wait(TIME_S)
        finally:
            with contextlib.suppress(ProcessLookupError):  # nothing of it goes on
                os.killpg(shell.pid, signal.SIGKILL)
    return [_said(work / "ran" / str(number)) for number in range(len(texts))]


def _said(file: Path) -> list[list[str]]:
    if not file.exists():
        return []
    return [line.split("\t")[:-1] for line in file.read_text(errors="replace").splitlines()]
