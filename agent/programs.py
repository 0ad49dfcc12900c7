"""What programs do with the words of their command, and with what they read."""

import re
from collections.abc import Sequence

SHELLS = frozenset(
    {"sh", "bash", "rbash", "dash", "zsh", "ksh", "mksh", "ash", "fish", "csh", "tcsh", "pwsh", "powershell", "cmd"}
)
LIKE_BASH = frozenset({"sh", "bash", "dash", "ash", "ksh"})
"""Shells whose plain texts mean what bash takes them for."""
OF_THE_SHELL = frozenset({"command", "builtin", "time", "exec"})
"""What runs builtins of a shell among its words."""
SOURCES = frozenset({".", "source"})
INTERPRETERS = frozenset({"python", "pypy", "ipython", "perl", "ruby", "node", "nodejs", "deno", "bun", "php", "lua", "tclsh"})
FEEDING = SHELLS | {"xargs", "parallel", "hash", "alias"}
FED = frozenset(
    {
        *("xargs", "parallel", "at", "batch", "crontab", "run-parts", "split", "csplit", "script", "flock", "watch", "entr"),
        *("su", "runuser", "newgrp", "sg", "chroot", "nsenter", "unshare", "setarch", "capsh", "firejail", "fakeroot", "ssh"),
        *("ed", "ex", "vi", "vim", "nvim", "emacs", "m4", "gdb", "dc", "bc", "expect", "strace", "ltrace"),
    }
)
"""What runs words that the text need not have."""
BUILTINS = frozenset(
    {
        *("eval", "trap", "alias", "unalias", "enable", "hash", "jobs", "fc", "bind", "complete", "compgen", "compopt"),
        *("history", "read", "mapfile", "readarray", "getopts", "let", "declare", "typeset", "local", "readonly", "export"),
        *("unset", "set", "shopt", "function", "coproc", "for", "select", "case", "while", "until"),
    }
)
"""What of a shell runs words later, or changes what names mean."""
WRAPPERS = SHELLS | {
    *("for", "select", "case", "builtin", "command", "exec", "eval", "trap", "time", "env", "nohup", "nice"),
    *("timeout", "stdbuf", "setsid", "xargs", "parallel", "find", "fd", "flock", "script", "watch", "busybox", "docker"),
    *("sudo", "doas", "su", "runuser", "ssh"),
}
"""What runs commands among its words: a rule finds them there. Of another program a rule is not sure that it does."""
READING = (
    WRAPPERS
    | INTERPRETERS
    | {
        *("declare", "typeset", "local", "readonly", "export", "test", "read", "unset", "compgen", "complete"),
        *("split", "tar", "tmux", "screen", "entr"),
    }
)
"""What may take a quoted word for commands, or for a program."""
INERT = {
    **dict.fromkeys(
        (
            *("cat", "head", "tail", "wc", "grep", "egrep", "fgrep", "cut", "tr", "ls", "echo", "true", "false", "pwd", "cd"),
            *("jq", "diff", "cmp", "stat", "du", "df", "which", "type", "basename", "dirname", "realpath", "readlink", "date"),
            *("whoami", "id", "uname", "seq", "rev", "nl", "comm", "paste", "fold", "md5sum", "sha1sum", "sha256sum", "od"),
            *("ps", "free", "sleep", "mkdir", "pushd", "popd", "exit", "tac", "column", "hexdump"),
        ),
        re.compile(r"(?!)"),
    ),
    "printf": re.compile("-"),
    "test": re.compile(r"-\w*v|.*[^\w./=-]", re.DOTALL),
    "sort": re.compile(r"-\w*o|--[oc]"),
    "base64": re.compile("-o|--o"),
    "sed": re.compile(r"-\w*i"),
    "awk": re.compile(".*>", re.DOTALL),
    "uniq": re.compile("[^-]"),
    "rg": re.compile("--(?:pre|hostname)"),
    "find": re.compile("-exec|-ok|-f[pl]|-delete"),
}
"""What neither runs a program nor writes a file, each with the option by which it might."""
PIPED = INERT.keys() | {"tee"}
"""What runs nothing of what it reads."""
TOOLS = frozenset(
    {
        *("npm", "npx", "yarn", "pnpm", "pip", "uv", "poetry", "cargo", "go", "cmake", "git", "pytest", "docker", "apt"),
        *("apt-get", "make", "mvn", "gradle", "dotnet", "bundle", "composer", "ruff", "mypy", "black", "eslint", "tsc"),
    }
)
"""What writes files of its own, and none that its words say."""
KEEPING = frozenset({"cp", "mv", "ln", "chmod", "chown", "touch", "rm", "rmdir", "tee", "dd", "uniq", "sed", "awk", "gzip"})
"""What runs no file that its words name."""
POURING = frozenset({"tee", "dd", "awk", "sort", "uniq"})
"""What writes into a file what it reads or is told."""
HANDLING = frozenset({"add", "commit", "rm", "mv", "diff", "status", "log", "show", "checkout", "restore", "push", "pull"})
"""What git does with files that it does not run."""
_SEARCHES = frozenset({"find", "fd"})
_RUNNING = frozenset({"-exec", "-execdir", "-ok", "-okdir", "-x", "--exec", "--exec-batch"})
_VERSION = re.compile(r"[\d.-]+$")


def name_of(word: str) -> str:
    """The name of the program that a word runs."""
    return word.rpartition("/")[2].removesuffix(".exe")


def kind_of(word: str) -> str:
    """The program that a word runs, in whichever version."""
    name = name_of(word).lower()
    kind = name if name in INERT else _VERSION.sub("", name) or name
    return "awk" if kind in ("gawk", "mawk", "nawk") else "make" if kind == "gmake" else kind


def reads_words(words: Sequence[str]) -> bool:
    """Whether a command may take quoted words for commands, or for a program."""
    name = name_of(words[0])
    return name in READING and (name not in _SEARCHES or not _RUNNING.isdisjoint(words))
