"""What programs do with the words of their command: of which it is known that they run no text, and write no file."""

import re
from collections.abc import Sequence

_WORD = r"[\w./:=@,+-]*"
BARE = re.compile(_WORD)
"""A word of which no shell and no program makes several."""
SHELLS = frozenset(
    ("sh", "bash", "rbash", "dash", "zsh", "ksh", "mksh", "ash", "fish", "csh", "tcsh", "pwsh", "powershell", "cmd")
)
LIKE_BASH = frozenset({"sh", "bash", "dash", "ash", "ksh"})
"""Shells whose plain texts mean what bash takes them for."""
SOURCES = frozenset({".", "source"})
_INTERPRETER = re.compile(r"(python|pypy|ipython|perl|raku|ruby|node|deno|bun|php|lua|tclsh|wish|guile|pdb)(?:js|jit)?")
WRAPPERS = SHELLS | {
    *("for", "select", "case", "builtin", "command", "exec", "eval", "trap", "time", "env", "nohup", "nice"),
    *("timeout", "stdbuf", "setsid", "xargs", "parallel", "find", "fd", "flock", "script", "watch", "busybox", "docker"),
    *("sudo", "doas", "su", "runuser", "ssh"),
}
"""What runs commands among its words: a rule finds them there. Of another program a rule is not sure that it does."""
_READING = WRAPPERS | {
    *("declare", "typeset", "local", "readonly", "export", "test", "read", "unset", "compgen", "complete"),
    *("split", "tar", "tmux", "screen", "entr"),
}
"""What may take a quoted word for commands, or for a program: a rule finds them there."""
BUILTINS = frozenset(
    {
        *("eval", "trap", "alias", "unalias", "enable", "hash", "jobs", "fc", "bind", "complete", "compgen", "compopt"),
        *("history", "read", "mapfile", "readarray", "getopts", "let", "declare", "typeset", "local", "readonly", "export"),
        *("unset", "set", "shopt", "function", "coproc", "for", "select", "case", "while", "until", "builtin"),
    }
)
"""What of a shell runs words later, or changes what names mean."""
FED = frozenset(
    {
        *("xargs", "parallel", "at", "batch", "crontab", "run-parts", "split", "csplit", "script", "flock", "watch", "entr"),
        *("su", "runuser", "newgrp", "sg", "chroot", "nsenter", "unshare", "capsh", "ssh", "ed", "ex", "vi", "vim", "emacs"),
        *("m4", "gdb", "dc", "bc", "expect", "strace", "ltrace", "busybox", "rename", "prename"),
    }
)
"""What runs words that the text need not have."""
PREFIXES = {
    "timeout": re.compile(r"(?:-k \S+ |-s \w+ |--preserve-status |--foreground |-v )*[\d.]+[smhd]? "),
    "nice": re.compile(r"(?:-n -?\d+ |-n-?\d+ |-\d+ )?"),
    "env": re.compile(r"(?:-i |-u \w+ )*(?:\w+=\S* )*"),
    "sudo": re.compile(r"(?:-[nEH]+ |-u \w+ |\w+=\S* )*"),
    "stdbuf": re.compile(r"(?:-[ioe][0L] )+"),
    "time": re.compile(r"(?:-p )?"),
    **dict.fromkeys(("nohup", "setsid", "command", "exec"), re.compile("")),
    **dict.fromkeys(("uv", "poetry", "pipenv"), re.compile("run ")),
    "bundle": re.compile("exec "),
    "docker": re.compile(r"(?:compose )?exec (?:-[itT]+ )*[\w.-]+ "),
    "kubectl": re.compile(r"exec (?:-[it]+ )*(?:-n [\w.-]+ )?[\w./-]+ -- "),
}
"""What runs the words behind it as they are, and what may stand before them."""

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
            *("ps", "free", "sleep", "mkdir", "pushd", "popd", "exit", "tac", "column", "hexdump"),
        ),
        re.compile(".*", re.DOTALL),
    ),
    "printf": re.compile(r"(?!.*%[-+ #\d.*']*n)[^-].*", re.DOTALL),
    "test": re.compile(r"(?!-\w*v)[\w./=-]*"),
    "sort": re.compile(r"-[bdfghiMnRrVcCmsuz]+|-[kt].*|[^-].*"),
    "base64": re.compile(r"-[dDi]+|-w\d*|--decode|--wrap=\d+|[^-].*"),
    "sed": re.compile(r"(?!-\w*i|--).*", re.DOTALL),
    "awk": re.compile("[^>]*"),
    "uniq": re.compile(r"-[cdDuiz]+|-[fsw]\d+"),
    "rg": re.compile(r"-[^-z]*|--(?:files|hidden|no-ignore|i?glob|type|count|context|max-count|sort|json).*|[^-].*", re.DOTALL),
    "find": re.compile(rf"-(?:{_FIND})|[^-].*", re.DOTALL),
}
"""What neither runs a program nor writes a file, each with what its words may be for that."""
PIPED = INERT.keys() | {"tee"}
"""What runs nothing of what it reads."""
TOOLS = frozenset(
    {
        *("npm", "npx", "yarn", "pnpm", "pip", "uv", "poetry", "cargo", "go", "cmake", "git", "pytest", "docker", "apt"),
        *("apt-get", "make", "mvn", "gradle", "dotnet", "bundle", "composer", "ruff", "mypy", "black", "eslint", "tsc"),
        *("kubectl", "systemctl", "terraform", "gh", "prettier"),
    }
)
"""What writes files of its own, and none that its words say."""
KEEPING = frozenset(
    ("cp", "mv", "ln", "chmod", "chown", "touch", "rm", "rmdir", "tee", "dd", "uniq", "sort", "sed", "awk", "gzip")
)
"""What runs no word, and no file that its words name."""
POURING = frozenset({"tee", "dd", "awk", "sort", "uniq"})
"""What writes into a file what it reads or is told."""
HANDLING = frozenset(
    (
        "add",
        "commit",
        "rm",
        "mv",
        "diff",
        "status",
        "log",
        "show",
        "checkout",
        "restore",
        "push",
        "pull",
        "tag",
        "branch",
        "stash",
    )
)
"""What git does with files that it does not run."""
KNOWN_FILE = re.compile(
    r"(?:^|/)(?:package\.json|\.npmrc|(?:gnu)?makefile|[^/]+\.(?:mk|gradle)|setup\.(?:py|cfg)|pyproject\.toml|conftest\.py"
    r"|cargo\.toml|build\.rs|pom\.xml|rakefile|gemfile|cmakelists\.txt|dockerfile|[^/]*compose\.ya?ml|\.git/.*|\.git\w+)$",
    re.IGNORECASE,
)
"""A file that programs run by themselves: what the text makes of it, it may have filled."""


def _row(options: str, more: str = "(?!)", begin: str = "") -> re.Pattern[str]:
    """What the words of a program may be that runs no text: bare ones, those of `more`, and whatever these options say."""
    said = rf"(?:(?:-(?:{options.partition(' ')[0]})|--(?:{options.partition(' ')[2]}))"
    return re.compile(rf"{begin}(?:{said}[\t=])[^\t]*\t|(?:{_WORD}|{more})\t)*+", re.DOTALL)


_BARE_WORDS = _row("(?!) (?!)")
_URL = r"https?://[^\s]*"
_CONFIG = r"(?:user|color|advice|pull|push|http)\.\w+|core\.(?:quotepath|autocrlf)|init\.defaultbranch|safe\.directory"
_GLOBAL = rf"(?:(?:-C\t{_WORD}|-c\t(?i:{_CONFIG})=?{_WORD}|-P|-p|--no-pager|--(?:git-dir|work-tree)={_WORD})\t)*"
_GIT_OPTIONS = r"\w*m|[SG] message|author|grep|date|since|until|after|before|format|pretty|trailer"
_REVISION = r"[\w./@:-]+[~^]\d*"
_TEXTS = {
    "git": (
        _row(_GIT_OPTIONS, _REVISION, rf"{_GLOBAL}(?:commit|tag|merge|log|show|stash|diff|shortlog|blame)\t(?!.*\t--ou)"),
        re.compile(rf"{_GLOBAL}(?:grep|ls-files)\t(?:(?:[^\t-][^\t]*|-{_WORD})?\t)*+", re.DOTALL),
        re.compile(rf"{_GLOBAL}config\t(?:(?:(?i:{_CONFIG})|-l|--[\w-]*)\t)*(?:{_WORD}\t)?"),
        re.compile(rf"{_GLOBAL}(?!config\t)\w[\w-]*\t(?:(?:{_WORD}|{_REVISION})\t)*|(?:--version|--help)?\t?"),
    ),
    "curl": (_row(r"\w*[HdFAebuXw] header|data[\w-]*|json|form|user-agent|request|user|write-out", _URL, "(?!.*%output)"),),
    "wget": (_row("(?!) header", _URL),),
    "pytest": (_row("[km] deselect", r"[\w./:\[\], -]+"),),
    "gh": (_row("[tbfqS] title|body|field|jq|notes|search", begin=r"(?:pr|issue|release|api|run|search)\t"),),
    "docker": (_row("f format|filter", begin=r"(?:ps|images|inspect|logs|stats|network|volume)\t"), _BARE_WORDS),
    "kubectl": (_row("[olp] selector|patch|output", begin=r"(?:get|patch|describe|delete|wait)\t"), _BARE_WORDS),
    "psql": (_row("c command", begin=r"(?i:(?!.*(?:\\|program)))"),),
    "pip": (_row("(?!) (?!)", r"\w[\w.\[\],<>=!~-]*", r"install\t"), _BARE_WORDS),
    "make": (re.compile(rf"(?:(?:-[Bksn]*j?\d*|-C\t{_WORD}|(?!-){_WORD})\t)*"),),
    **dict.fromkeys(("prettier", "eslint", "ruff", "black", "mypy"), (_row("(?!) (?!)", r"[\w./*{},@-]+"),)),
}
"""Of programs that run no text, what their words may be; of others, they are bare."""
_VERSION = re.compile(r"[\d.-]+$")
_SAME = {"gawk": "awk", "mawk": "awk", "nawk": "awk", "gmake": "make", "gsed": "sed", "gfind": "find"}


def name_of(word: str) -> str:
    """The name of the program that a word runs."""
    return word.rpartition("/")[2].removesuffix(".exe")


def kind_of(word: str) -> str:
    """The program that a word runs, in whichever version."""
    name = name_of(word).lower()
    kind = name if name in INERT else _VERSION.sub("", name) or name
    return _SAME.get(kind, kind)


def is_interpreter(word: str, *, of_any_name: bool = False) -> bool:
    """Whether a word names a program that runs programs; with `of_any_name` also where more follows, as in `perl5-x`."""
    found = _INTERPRETER.match(name := name_of(word).lower())
    return found is not None and (of_any_name or re.fullmatch(r"[\d.]*-?|[\d.]+-[\w-]*", name[found.end() :]) is not None)


def reads_text(name: str) -> bool:
    """Whether a program may take a quoted word for commands, or for a program: a rule finds them there."""
    return name in _READING or is_interpreter(name)


def is_text_inert(kind: str, words: Sequence[str]) -> bool:
    """Whether a program is known to run none of its words that are not bare."""
    line = "".join(word.replace("\t", " ") + "\t" for word in words)
    return kind in KEEPING or any(row.fullmatch(line) for row in _TEXTS.get(kind, (_BARE_WORDS,)))
