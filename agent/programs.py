"""What programs do with the words of their command: which run some of them, and which run what no word says.

These lists make a question a denial, or a silence a question. What they leave out is asked about where a word behind a program
that no rule names is the name of a denied command.
"""

import re
from collections.abc import Sequence

_SHELLS = frozenset(
    {"sh", "bash", "rbash", "dash", "zsh", "ksh", "mksh", "ash", "fish", "csh", "tcsh", "pwsh", "powershell", "cmd"}
)
_STARTING = frozenset({"linux64", "linux32", "x86_64", "i386", "unshare", "fakeroot", "tmux", "screen"})
"""What starts a shell where no program is said."""
_SOURCES = frozenset({".", "source"})
_INTERPRETERS = frozenset({"python", "python2", "python3", "perl", "ruby", "node", "php", "lua", "tclsh"})
FEEDING = _SHELLS | {"xargs", "parallel", "hash", "alias"}
_FED = (FEEDING - _SHELLS) | {
    *(
        "at",
        "batch",
        "crontab",
        "mapfile",
        "readarray",
        "fc",
        "enable",
        "bind",
        "let",
        "run-parts",
        "split",
        "csplit",
        "script",
    ),
    *("su", "runuser", "newgrp", "sg", "chroot", "nsenter", "setarch", "ssh", "ed", "ex", "vi", "vim", "m4", "gdb", "dc"),
}
"""What runs words that the text need not have."""
WRAPPERS = _SHELLS | {
    *("for", "select", "case", "builtin", "command", "exec", "eval", "trap", "time", "env", "nohup", "nice"),
    *("timeout", "stdbuf", "setsid", "xargs", "parallel", "find", "fd", "flock", "script", "watch", "busybox", "docker"),
    *("sudo", "doas", "su", "runuser", "ssh"),
}
"""What runs commands among its words: a rule finds them there. Of another program a rule is not sure that it does."""
READING = (
    WRAPPERS
    | _INTERPRETERS
    | {
        *("declare", "typeset", "local", "readonly", "export", "test", "read", "unset", "compgen", "complete"),
        *("split", "tar", "tmux", "screen", "entr"),
    }
)
"""What may take a quoted word for commands, or for a program."""
_INLINE = re.compile(r"-\w*[cepr]|--(?:eval|print|run)")
"""An option by which an interpreter takes a word for a program."""
_VALUED = re.compile(r"[-+]\w*o|--(?:rcfile|init-file)")
"""An option of a shell that has a value."""
_RULING_NAME = r"(?:path|home|bash_env|env|ps4|prompt_command|ld_\w+|shellopts|bashopts)"
_RULED = re.compile(_RULING_NAME)
RULING = re.compile(rf"{_RULING_NAME}\+?=|.*[$`?*\[{{\\]", re.DOTALL)
"""An assignment by which a shell runs other programs than the words say, or one that is a command."""
_STREAMS = ("/dev/stdin", "/dev/fd/", "/proc/self/fd/")
_AWK = re.compile(r"system|getline|(?<!\|)\|(?!\|)")
_EXECUTING = {
    "sed": re.compile(r"(?:^|[^a-z0-9\s-])[gpim0-9]*e(?:$|[\s;}])"),
    **dict.fromkeys(("awk", "gawk", "mawk", "nawk"), _AWK),
    "printf": re.compile("-v"),
    **dict.fromkeys(("declare", "typeset", "local", "export", "readonly"), re.compile(r"-\w*[in]")),
    **dict.fromkeys(("sudo", "doas"), re.compile(r"-\w*[si]|--(?:shell|login)")),
    "make": re.compile("-f|--eval|--file|--makefile"),
}
"""Of programs that run nothing mostly, what says that they do, or that they set a variable which a shell runs."""
_PROGRAMMED = _INTERPRETERS | ({"sed", "awk", "gawk", "mawk", "nawk"})
_SEARCHES = frozenset({"find", "fd"})
_RUNNING = frozenset({"-exec", "-execdir", "-ok", "-okdir", "-x", "--exec", "--exec-batch"})
_MOST_STARTS = 64


def name_of(word: str) -> str:
    """The name of the program that a word runs."""
    return word.rpartition("/")[2].removesuffix(".exe")


def runs_more(words: Sequence[str]) -> bool:
    """Whether a command runs what its words do not say, itself or by a program that it is known to run."""
    starts = range(len(words) if name_of(words[0]) in WRAPPERS else 1)
    return len(starts) > _MOST_STARTS or any(_is_fed(words[start:]) for start in starts)


def may_run_more(words: Sequence[str]) -> bool:
    """Whether a command does, if its program runs some of its words."""
    rest = words[1:_MOST_STARTS]
    return any(_is_fed(words[place:]) for place, word in enumerate(rest, 1) if name_of(word) in _PROGRAMMED)


def reads_words(words: Sequence[str]) -> bool:
    """Whether a command may take quoted words for commands, or for a program."""
    name = name_of(words[0])
    return name in READING and (name not in _SEARCHES or not _RUNNING.isdisjoint(words))


def _is_fed(words: Sequence[str]) -> bool:
    """Whether a command runs what its words do not say."""
    name, script = name_of(words[0]), script_of(words)
    return (
        name in _FED
        or (name in _EXECUTING and any(map(_EXECUTING[name].search, words[1:])))
        or (name in READING and any(map(_RULED.fullmatch, words[1:])))
        or (script is not None and ((not script and name not in _SOURCES) or script.startswith(_STREAMS)))
    )


def script_of(words: Sequence[str]) -> str | None:
    """The file that a shell or an interpreter reads, empty if it reads none; None for other programs."""
    if (name := name_of(words[0])) not in _SHELLS | _SOURCES | _INTERPRETERS | _STARTING:
        return None
    rest = iter(words[1:])
    for word in rest:
        if not word.startswith(("-", "+")):
            return word
        if name in _INTERPRETERS and _INLINE.match(word):
            return ""
        if name in _SHELLS and _VALUED.fullmatch(word):
            next(rest, "")
    return ""
