"""What programs do with the words of their commands: which programs run no text, and which write no file."""

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import dropwhile

from .known_programs import BARE, FED, KEEPING, KNOWN, TOOLS, takes

SHELLS = frozenset(
    ("sh", "bash", "rbash", "dash", "zsh", "ksh", "mksh", "ash", "fish", "csh", "tcsh", "pwsh", "powershell", "cmd")
)
LIKE_BASH = frozenset({"sh", "bash", "dash", "ash", "ksh"})
"""Shells that read plain texts as bash does."""
SOURCES = frozenset({".", "source"})
_INTERPRETER = re.compile(r"(python|pypy|ipython|perl|raku|ruby|node|deno|bun|php|lua|tclsh|wish|guile|pdb)(?:js|jit)?")
WRAPPERS = SHELLS | {
    *("for", "select", "case", "builtin", "command", "exec", "eval", "trap", "time", "env", "nohup", "nice"),
    *("timeout", "stdbuf", "setsid", "xargs", "parallel", "find", "fd", "flock", "script", "watch", "busybox", "docker"),
    *("sudo", "doas", "su", "runuser", "ssh"),
}
"""Programs whose words include commands that they run: a rule finds those certainly, in words of other programs possibly."""
_READING = WRAPPERS | {
    *("declare", "typeset", "local", "readonly", "export", "test", "read", "unset", "compgen", "complete"),
    *("split", "tar", "tmux", "screen", "entr"),
}
"""Programs that may take a quoted word for commands or a program, where a rule finds them."""
PREFIXES = {
    "timeout": re.compile(r"(?:-k \S+ |-s (?:TERM|KILL) )*[\d.]+[smhd]? "),
    "nice": re.compile(r"(?:-n -?\d+ |-n-?\d+ |-\d+ )?"),
    "env": re.compile(r"(?:-i |-u \w+ )*(?:\w+=\S* )*"),
    "sudo": re.compile(r"(?:-[nEH]+ |-u \w+ |\w+=\S* )*"),
    "stdbuf": re.compile(r"(?:-[ioe][0Ll] )+"),
    "time": re.compile(r"(?:-p )?"),
    **dict.fromkeys(("nohup", "command", "exec"), re.compile("")),
    **dict.fromkeys(("uv", "poetry", "pipenv"), re.compile("run ")),
    "bundle": re.compile("exec "),
    "docker": re.compile(r"(?:compose )?exec (?:-[itT]+ )*[\w.-]+ "),
    "kubectl": re.compile(r"exec (?:-[it]+ )*(?:-n [\w.-]+ )?[\w./-]+ -- "),
}
"""Programs that run the words behind them as a command, each with the expression of what may stand before that."""

_FIND = (
    r"i?name|i?path|wholename|type|maxdepth|mindepth|size|[acm]time|[acm]min|newer\w*|not|o|a|or|and|print0?|printf|empty|prune"
    r"|i?regex|regextype|perm|user|group|[LPH]|xdev|mount|ls|quit|depth|executable|readable|writable|\d.*"
)
INERT = {
    **dict.fromkeys(
        (
            *("cat", "head", "tail", "wc", "grep", "egrep", "fgrep", "cut", "tr", "ls", "echo", "true", "false", "pwd", "cd"),
            *("jq", "diff", "cmp", "stat", "du", "df", "which", "type", "basename", "dirname", "realpath", "readlink", "date"),
            *("whoami", "id", "uname", "seq", "rev", "nl", "comm", "paste", "fold", "md5sum", "sha1sum", "sha256sum", "od"),
            *("ps", "free", "sleep", "pushd", "popd", "exit", "tac", "column", "hexdump"),
        ),
        re.compile(".*", re.DOTALL),
    ),
    "printf": re.compile(r"(?!.*%[-+ #\d.*'hlLjztq]*n)[^-].*", re.DOTALL),
    "mkdir": re.compile(rf"(?!.*\.[a-z]m?(?:/|$)){BARE.pattern}"),
    "test": re.compile(r"(?!-\w*v)[\w./=-]*"),
    "sort": re.compile(r"-[bdfghiMnRrVcCmsuz]+|-[kt].*|[^-].*"),
    "base64": re.compile(r"-[dDi]+|-w\d*|--decode|--wrap=\d+|[^-].*"),
    "sed": re.compile(r"(?!-\w*i|--).*", re.DOTALL),
    "awk": re.compile("[^>]*"),
    "uniq": re.compile(r"-[cdDuiz]+|-[fsw]\d+"),
    "rg": re.compile(r"-[^-z]*|--(?:files|hidden|no-ignore|i?glob|type|count|context|max-count|sort|json).*|[^-].*", re.DOTALL),
    "find": re.compile(rf"-(?:{_FIND})|[^-].*", re.DOTALL),
}
"""Programs that neither run a program nor write a file, with the words for which that holds."""
PIPED = INERT.keys() | {"tee"}
"""Programs that run nothing of what they read."""
CHOOSING = frozenset({"cat", "head", "tail", "grep", "tee"})
"""Programs that print only what they read."""
_AFTER_COMMIT = frozenset({"push", "status", "log", "show", "diff", "branch", "tag", "rev-parse", "describe"})
"""git's subcommands that do not read a stored message."""
_RUNNING = frozenset({"exec", "explore", "dlx", "foreach", "unshare", "devenv"})
_RUN_OPTIONS = frozenset({"--", "-y", "--yes", "-i", "-t", "-it", "-ti", "-T", "-d"})
_RUNNERS = frozenset({"uv", "poetry", "pdm", "hatch", "conda"})
CONTAINERS = frozenset({"docker", "docker-compose", "podman", "kubectl"})
"""Tools behind which an interpreter runs elsewhere."""
_PACKAGERS = frozenset({"apt", "apt-get", "yum", "dnf", "apk", "brew", "conda"})
_INSTALLING = frozenset({"install", "i", "add", "remove", "uninstall", "upgrade", "update", "search", "info", "show", "get"})
_PRINTING = frozenset({"log", "show", "diff", "status", "grep", "ls-files", "blame", "shortlog", "describe", "rev-parse"})
_UNTOLD = frozenset(
    {
        *("add", "rm", "fetch", "pull", "push", "checkout", "switch", "restore", "reset", "clone", "submodule", "config"),
        *("remote", "branch", "stash", "merge", "rebase", "cherry-pick", "revert", "init", "worktree", "bisect", "clean", "gc"),
    }
)
_SETTING = frozenset({"pkg", "set-script", "env", "alias", "g", "generate", "version", "init", "new", "edit", "extension"}) | {
    *("set-credentials", "set-context", "set-cluster"),
}
"""Subcommands that write settings, which the tool or others obey."""
_COVERAGE_OPTIONS = frozenset({"-a", "--append", "--branch", "-q"})
_COPYING = frozenset({"cp", "mv", "sync", "download"})
"""Subcommands that copy files."""
_TELLING = frozenset({"config", "configure", "set"})


_VERSION = re.compile(r"[\d.-]+$")
_NUMBERED = frozenset(name for name in KNOWN | FED | INERT.keys() if name[-1].isdigit())
_SAME = {"gawk": "awk", "mawk": "awk", "nawk": "awk", "gmake": "make", "gsed": "sed", "gfind": "find"}


def name_of(word: str) -> str:
    """The name of the program that a word runs."""
    return word.rpartition("/")[2].removesuffix(".exe")


@lru_cache(maxsize=64)
def kind_of(word: str) -> str:
    """The program that a word runs, without its version."""
    name = name_of(word).lower()
    kind = _VERSION.sub("", name) or name
    return _SAME.get(kind, name if name in _NUMBERED or kind in INERT.keys() | KEEPING else kind)


@lru_cache(maxsize=64)
def is_interpreter(word: str) -> bool:
    """Whether a word names an interpreter, perhaps with a version, as in `perl5-x`."""
    found = _INTERPRETER.match(name := name_of(word).lower())
    return found is not None and re.fullmatch(r"[\d.]*-?|[\d.]+-[\w-]*", name[found.end() :]) is not None


def reads_text(name: str) -> bool:
    """Whether a program may take a quoted word for commands or a program."""
    return name in _READING or is_interpreter(name)


def run_by(kind: str, words: Sequence[str]) -> Sequence[str]:
    """The command that a tool's subcommand runs, given the words behind the tool, with any unknown option before it."""
    if kind == "coverage" and words[0] == "run":
        said = list(dropwhile(lambda word: word in _COVERAGE_OPTIONS or (word[:2] == "--" and "=" in word), words[1:]))
        return ["python", *(said[2:] if said[:1] == ["--source"] else said)]
    running = _RUNNING | {"run"} if kind in _RUNNERS else _RUNNING
    place = next((place for place, word in enumerate(words) if word in running), None) if kind in TOOLS else None
    place = -1 if kind in ("npx", "uvx") else place
    rest = [] if place is None else words[place + 1 :]
    run = list(dropwhile(_RUN_OPTIONS.__contains__, rest))
    return ["-", *run] if run[:1] in (["true"], ["false"]) else run  # npm takes these for the value of an option


def goes_on(words: Sequence[str]) -> bool:
    """Whether git, given these words, uses no message that an earlier command has stored."""
    return not _AFTER_COMMIT.isdisjoint(words[:1]) and all(map(BARE.fullmatch, words))


def installs(kind: str, words: Sequence[str]) -> bool:
    """Whether a tool takes its words for names, such as those of packages."""
    rest = dropwhile(lambda word: word[:1] == "-", words) if kind in _PACKAGERS else iter(words)
    return kind in TOOLS and next(rest, "") in _INSTALLING


def is_obeyed(kind: str, words: Sequence[str]) -> bool:
    """Whether a tool may write settings, which it or another tool later obeys."""
    return not ({"apply", "am"} if kind == "git" else _SETTING).isdisjoint(words)


def tells(kind: str, words: Sequence[str]) -> bool:
    """Whether a tool may write words of its command into a file."""
    if kind == "git":
        return _PRINTING.isdisjoint(words[:1]) and (_UNTOLD.isdisjoint(words[:1]) or not all(map(BARE.fullmatch, words)))
    if not _COPYING.isdisjoint(words):
        return True
    if kind == "kubectl" and (words[:1] == ["set"] or words[:2] == ["config", "use-context"]):
        return False
    return not _TELLING.isdisjoint(words) or not all(map(BARE.fullmatch, words))


def is_text_inert(kind: str, words: Sequence[str]) -> bool:
    """Whether a program is known to run none of its words, except perhaps bare ones."""
    if kind in KNOWN:
        return takes(kind, words)
    return kind in KEEPING or all(map(BARE.fullmatch, words))
