"""Whether a plain text may run something that its words do not say.

It does not if all of these hold: each command has a known program, with only bare words or others that the program does not
run; pipes lead only into filters; commands that run code of the project (a tool, a shell, an interpreter) stand before all that
may have written such code; no builtin and no variable changes the meaning of names.
"""

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import dropwhile, islice, pairwise, takewhile

from holdfast.conversation.text.matching import PLAIN_PART, is_plain_script

from . import programs
from .known_programs import BARE, BUILTINS, FED, KEEPING, KNOWN, MODULES, ODD, SILENT, TOOLS
from .programs import is_interpreter, is_text_inert, kind_of, name_of

TOKEN = re.compile(rf"(\n|;|&&|\|\|?)|((?:{PLAIN_PART})++)")
ASSIGNMENT = re.compile(r"[a-z_]\w*\+?=", re.IGNORECASE)
_QUOTED = re.compile(r"'([^']*)'|\"((?:\\.|[^\"\\])*)\"|\\(.)", re.DOTALL)
_HARMLESS = re.compile(
    r"(?:(?:[A-Z]|CI|DEBUG|TZ|LANG|LC_[A-Z]+|TERM|NO_COLOR|FORCE_COLOR|PORT|HOST|MSG|DESTDIR|VERBOSE|NODE_ENV|GOOS|GOARCH"
    r"|PYTHON(?:PATH|UNBUFFERED|DONTWRITEBYTECODE|HASHSEED)|DJANGO_SETTINGS_MODULE|CGO_ENABLED"
    r"|RUST_(?:BACKTRACE|LOG)|DOCKER_BUILDKIT|AWS_PROFILE"
    r"|(?!(?:BASH|GIT|NPM|NODE|LD|PERL|RUBY|JAVA|PYTHON|MAKE|GNU|TAR|PIP|DOCKER)[A-Z\d]*_)[A-Z][A-Z\d]*(?:_[A-Z\d]+)*"
    r"_(?:ENV|URL|HOST|PORT|KEY|TOKEN|ID|NAME|LEVEL|MODE|DEBUG|VERSION|USER|PASSWORD|REGION|TAG))"
    r"(?:=[\w./:=@,+-]*)?|FLASK_APP=[\w./]*|NODE_OPTIONS=--max-old-space-size=\d+|C(?:XX|PP)?FLAGS=-(?:[Og]\w*|std=[\w+]+|W[a-z-]+|D\w+))"
)
"""A variable that changes neither what shells run nor what programs run."""
_QUIET = programs.INERT.keys() | SILENT
_OPENING = frozenset({"if", "then", "else", "elif", "fi", "do", "done", "time", "!"})
_AWK = re.compile(r"system|getline|(?<!\|)\|(?!\|)|@")
_ADDRESS = r"(?:\d+|\$|/(?:[^/\\\n\[]|\\[^\n]|\[\^?[^/\[\]\\\n^]+\])*/)"
_SUBSTITUTION = r"s([/,|#:@])(?:(?!\1)[^\\\n\[]|\\[^\n]|\[\^?(?:(?!\1)[^\[\]\\\n^])+\])*\1(?:(?!\1)[^\\\n]|\\[^\n])*\1[gip\d]*"
_SED_STEP = re.compile(rf"\s*+(?:{_ADDRESS}(?:,{_ADDRESS})?)?\s*+!?\s*+(?:[pdqn=]|{_SUBSTITUTION})?\s*+", re.IGNORECASE)
_SED_OPTION = re.compile(r"-[nErsuz]*i?|-e")
_SHELL_OPTION, _SHELL_TEXT = re.compile(r"-[eux]+"), re.compile(r"-[leux]*c")
_PYTHON_OPTION = re.compile(r"-[uBOsEI]+")
_VERSION = frozenset({"--version", "--help", "-V", "-v"})
_TEST = re.compile(r"discover|-[vfbcqspt]+|tests?(?:[_./]\w*)*|\.")
"""A word that `unittest` takes for a test of the project; it imports and calls what any other word names."""
_FOR_ANY_MODULE = re.compile(r"-(?![cm]).*|\d+|.*[./].*")
"""A word that is no subcommand of a module, and no program that it may run."""
_NAMES = re.compile(r"[\s=,:;]+")
_SYSTEM_PROGRAM = re.compile(r"/(?:usr/)?(?:local/)?s?bin/[\w.+-]+")
_ARGUMENT = re.compile(
    r"(?!-[a-z]{0,3}[eE]|--e(?:val|xp)|.*__main__)(?:--?[\w.-]+=|[A-Z][A-Z\d_]*=)?(?!s/|[\d.]+e[a-z])(?::?(?:[\w./@-]+::?)*+[\w./@-]+)?"
)
"""A word that is no program text, if a script of the project passes it on to an interpreter or to `sed`."""
_SCRIPTED = frozenset({"npm", "pnpm", "yarn", "bun", "just", "task", "make"})
"""Tools that hand their words to scripts of the project."""
_OWN = re.compile(
    r"(?i)_editmsg$|(?:^|/)\.(?!\.?(?:/|$)|(?:venv|env[\w.-]*|github|gitlab|circleci|husky|ci|devcontainer|yarn|vscode|tox"
    r"|claude|bin|next|build)(?:/|$))"
)
"""A path to files that programs may write by themselves: most have a name that begins with a dot."""
_SCRIPT = re.compile(r"\.(?:sh|bash|py|[cm]?[jt]sx?|rb|pl|php|lua)$|(?:^|/)(?:activate|artisan|console|rails|rake)$")
"""A path to a script; no tool creates such a file from its words."""
_SYSTEM = r"(?:usr|s?bin|lib\w*|etc|snap|nix|run|sys|boot|var(?!/(?:www|log|tmp|folders)/))(?:/|$)"
_SYSTEM_FOLDER = re.compile(rf"(?:^|[=,:@])/+(?:$|{_SYSTEM})|(?:^|/)usr/|(?:^|/)\.\./{_SYSTEM}")
_FROM_ABOVE = re.compile(rf"(?:\./)*{_SYSTEM}")
"""A path that may lead into a system folder if the current folder is above the one in which the text begins."""
_LIBRARY = re.compile(r"(?:^|/)(?:python[\d.]*|site-packages|dist-packages|node_modules/npm|gems)/")
"""A path into the files of an interpreter or of installed packages, which are no scripts of the project."""
_ROUNDABOUT = re.compile(r"./\.{0,2}/|/\.\.?$")
_LOG = re.compile(r"-a|(?!\.)(?:[\w-][\w.-]*/)*(?:[\w-]+\.log|(?:log|out|output)\.txt)|/dev/null")
_GLUED_OUTPUT = re.compile("-[bdfghiMnRrVcCmsuz]*o.")
_IDLE = re.compile(r"/(?:\.?/)+")
_OF_THE_SYSTEM = re.compile(r"(?:^|[=,:@]|^-\w+|\.\.)/(?:proc|dev(?!/(?:null|zero)$))(?:/|$)|(?:^|/)proc/", re.IGNORECASE)
"""A path to a process's own files: its program, its variables, its inputs."""
_LEXED = re.compile(r"\.[ly]m?(?!\w)", re.IGNORECASE)
"""The end of a file's name from which a built-in rule of `make` runs `rm` or `mv`, whatever the file is."""
_PIPED_BLOCK = re.compile(r"(?:^|[\s;])fi\s*+\|(?!\|)")
_OUTPUT = re.compile("-o|--out").match
_LONG_CLUSTER = re.compile(r"-[\w./@+][\w./@+-]{63,}")
_OPERAND = re.compile("[a-z]+=")
_OF_BUILTINS = {"export": _HARMLESS, "set": re.compile(r"[-+][euxo]+|pipefail"), "wait": re.compile(r"-n|\d+")}
_MOST_WORDS = 64


def unquoted(word: str) -> str:
    """A word without its quotes."""
    return _QUOTED.sub(lambda found: found[1] or re.sub(r'\\(["\\$`])', r"\1", found[2] or "") or found[3] or "", word)


@lru_cache(maxsize=64)
def hides(text: str, known: frozenset[str] = frozenset()) -> bool:
    """Whether a text, in the letters in which it runs, may run something that its words do not say.

    `known`: the names of programs that rules name; any other program must be in a table.
    """
    return not is_plain_script(text) or _Text(known).hides(text)


@dataclass
class _Text:
    known: frozenset[str]
    writers: set[str] = field(default_factory=set)  # the programs that may have put words or output into a file
    named: set[str] = field(default_factory=set)  # the names of the files that they may have written
    logs: set[str] = field(default_factory=set)  # the names of files that have what a tool printed
    is_poured: bool = False  # the pipe has words of the text
    looks: int = 0  # how often words were read as a command, since the current command began
    is_above: bool = False  # a folder above the first one may be the current one
    is_timed: bool = False  # a limit of time ends the current command
    has_sourced: bool = False  # a script of the project may have changed PATH
    has_used_tool: bool = False  # a tool may have made files with names of its own
    is_lexed: bool = False  # a command may have made a file for a built-in rule of `make`

    def hides(self, text: str) -> bool:
        commands = list(_commands(text))
        for place, (before, words, piped) in enumerate(commands):
            if not piped:  # the readers of a pipe write while its first command runs
                readers = [reading for _, reading, _ in takewhile(lambda one: one[2], islice(commands, place + 1, None))]
                kinds = [kind_of(reading[0]) for reading in (words, *readers) if reading]
                self.is_poured = (
                    kinds[:1] == []
                    or kinds[0] in _QUIET
                    or not programs.CHOOSING.issuperset(kinds[1:])
                    or not all(map(BARE.fullmatch, words))
                )
                for reading in filter(None, readers):
                    self._wrote(reading)
            if self._hides(before, words, piped=piped):
                return True
        return _PIPED_BLOCK.search(text) is not None

    def _hides(self, before: list[str], words: list[str], *, piped: bool) -> bool:
        if piped and (not words or kind_of(words[0]) not in programs.PIPED or _is_of_the_project(words[0]) or before):
            return True
        if not all(one in _OPENING or one == "-p" or (_HARMLESS.fullmatch(one) and not ODD.search(one)) for one in before):
            return True
        self.looks = 0
        told = () if words and kind_of(words[0]) in _QUIET else words
        self.is_lexed |= _LEXED.search(" ".join((*before, *told))) is not None
        return (self.is_lexed and "make" in map(kind_of, told)) or (bool(words) and self._command(words))

    def _command(self, words: Sequence[str]) -> bool:
        """Whether a command, or the one that it wraps, may run something that its words do not say."""
        kind = kind_of(words[0])
        self.looks += 1
        if self.looks > _MOST_WORDS or not BARE.fullmatch(words[0]) or words[0][:1] in ("-", "+", "") or _leads_out(words[0]):
            return True
        if name_of(words[0]).lower() in self.named or (self.has_sourced and self.named):
            return True
        self.has_sourced |= kind in programs.SOURCES
        if kind in ("cd", "pushd") and any(
            _leads_out(f"{word}/") or _OWN.search(word) or _LIBRARY.search(f"{word}/") or self._leads_into_the_system(word)
            for word in words[1:]
        ):
            return True
        self.is_above |= kind in ("cd", "pushd") and any(".." in word for word in words[1:])
        if not _is_of_the_project(words[0]) and (_is_inert(kind, words[1:]) or (kind == "command" and words[1:2] == ["-v"])):
            return False
        if len(words) > _MOST_WORDS:
            return True
        if not _is_of_the_project(words[0]) and (behind := _behind(words)) is not None:
            if (kind in TOOLS and self.writers) or (self.is_timed and kind in ("timeout", "sudo")):
                return True  # the tool reads a configuration of its own; the limit of time does not end this command
            was_timed, self.is_timed = self.is_timed, self.is_timed or kind == "timeout"
            before = ((_HARMLESS if ASSIGNMENT.match(one) else BARE).fullmatch(one) for one in words[: -len(behind)])
            hidden = not all(before) or self._command(behind)
            self.is_timed = was_timed
            return hidden
        reads_log = kind not in KEEPING and any(
            log in word.lower() for log in self.logs for word in words[2 if kind == "git" else 0 :]
        )
        hidden = reads_log or any(map(_leads_out, words)) or self._runs(kind, words)
        self._wrote(words)
        return hidden

    def _runs(self, kind: str, words: Sequence[str]) -> bool:
        if kind in programs.SHELLS or kind in programs.SOURCES or (is_interpreter(words[0]) and kind not in KNOWN):
            return (_is_of_the_project(words[0]) and bool(self.writers)) or self._script(kind, words[1:])
        if _is_of_the_project(words[0]):
            name = kind_of(words[0])
            is_foreign = name in programs.INERT.keys() | KEEPING | (programs.PREFIXES.keys() - TOOLS) | FED
            is_foreign |= name not in KNOWN - _SCRIPTED and not self._may_pass(words[1:])
            return is_foreign or self._is_unsure_of(words[0]) or not is_text_inert(name, words[1:]) or self._wraps(name, words)
        if kind in KEEPING:
            return kind in _UNDERSTOOD and not _UNDERSTOOD[kind](words[1:])
        if kind in BUILTINS or kind in FED:
            return kind not in _OF_BUILTINS or not all(map(_OF_BUILTINS[kind].fullmatch, words[1:]))
        if kind == "find":
            return not _is_inert(kind, [word for word in words[1:] if word != "-delete"])
        if kind not in KNOWN and name_of(words[0]).lower() not in self.known:
            return True
        if self.writers and not (kind == "git" and self.writers == {"git"} and programs.goes_on(words[1:])):
            return True
        passed = words[1:] if kind in _SCRIPTED else list(dropwhile("--".__ne__, words)) if kind != "git" else ()
        if not programs.installs(kind, words[1:]) and not self._may_pass(passed):
            return True
        return not is_text_inert(kind, words[1:]) or self._wraps(kind, words)

    def _may_pass(self, words: Sequence[str]) -> bool:
        """Whether these words are no program text, in case a script of the project passes them on."""
        return all(map(_ARGUMENT.fullmatch, words)) and not any(map(self._leads_into_the_system, words))

    def _wraps(self, kind: str, words: Sequence[str]) -> bool:
        """Whether a word behind a program may begin a command that is not clear, or sets a variable."""
        if any(_LONG_CLUSTER.fullmatch(word) or _sets(word) for word in words[1:]):
            return True
        if len(words) == 1:
            return False
        if (run := programs.run_by(kind, words[1:])) and self._command(run):
            return True
        if kind in ("git", "gh") or programs.installs(kind, words[1:]):
            return False  # their rows list no option that runs other words
        is_run = kind not in TOOLS or is_interpreter(words[1])
        is_script = words[1] in ("run", "run-script") and words[2:3] != ["env"]  # npm has that script for every project
        first = 1 if is_run else 3 if is_script else 2
        return any(self._may_run(kind, words[start:]) for start in range(first, len(words)) if BARE.fullmatch(words[start]))

    def _may_run(self, kind: str, words: Sequence[str]) -> bool:
        """Whether a program's words, the first of them bare, may run something that they do not say."""
        word, rest = words[0], words[1:]
        if is_interpreter(word) or kind_of(word) in programs.SHELLS:
            return kind not in programs.CONTAINERS or (bool(rest) and self._script(kind_of(word), rest))
        running = FED | KEEPING | programs.PREFIXES.keys() | _UNDERSTOOD.keys()
        if kind in programs.CONTAINERS and rest and kind_of(word) in KNOWN and not is_text_inert(kind_of(word), rest):
            return True
        if kind_of(word) in running:
            return bool(rest) and self._command(words)
        parts = re.split("[=,:]", word)
        return any(
            kind_of(part) in running | programs.SHELLS or is_interpreter(part)
            for part in (*parts, *parts[0].split("-", 1)[1:])
            if part != word
        )

    def _script(self, kind: str, rest: Sequence[str]) -> bool:
        """Whether it is unknown what a shell or an interpreter runs."""
        if len(rest) == 1 and rest[0] in _VERSION:
            return bool(self.writers)
        option = _SHELL_OPTION if kind in programs.SHELLS else _PYTHON_OPTION if kind == "python" else None
        while rest and option and option.fullmatch(rest[0]):
            rest = rest[1:]
        if not rest or not all(map(BARE.fullmatch, rest[2 if _SHELL_TEXT.fullmatch(rest[0]) else 0 :])):
            return True
        if kind in programs.LIKE_BASH and _SHELL_TEXT.fullmatch(rest[0]) and len(rest) > 1:
            has_login_file = "l" in rest[0] and bool(self.writers or self.has_used_tool)
            return has_login_file or not is_plain_script(rest[1]) or self.hides(rest[1])
        if kind == "python" and rest[0] == "-m" and len(rest) > 1:
            package = rest[1].partition(".")[0]
            is_own = package in sys.stdlib_module_names or package == "test"
            if package in TOOLS:
                return rest[1] != package or self._command([package, *rest[2:]])
            if rest[1] == "unittest" and not all(map(_TEST.fullmatch, rest[2:])):
                return True
            is_clear = (
                rest[1] in MODULES
                if is_own
                else not is_interpreter(package)
                and self._may_pass(rest[2:])
                and all(_FOR_ANY_MODULE.fullmatch(word) and not self._is_unsure_of(f"./{word}") for word in rest[2:])
            )
            return not is_clear or bool(self.writers) or self._wraps("", rest[1:])
        if kind_of(rest[0]) in KNOWN | FED | programs.PREFIXES.keys() | KEEPING and "/" in rest[0]:
            return self._command(rest)
        if not self._may_pass(rest[1:]) or self._wraps("", rest):
            return True
        is_word = "/" not in rest[0] and "." not in rest[0]  # a shell looks in PATH for it, and others have subcommands
        return (
            (is_word and (kind in programs.SHELLS | programs.SOURCES or _SCRIPT.search(rest[0]) is None))
            or self._is_unsure_of(rest[0])
            or (self.has_used_tool and _SCRIPT.search(rest[0]) is None)
        )

    def _is_unsure_of(self, path: str) -> bool:
        """Whether a file that runs may have been written by the text, or may be one that programs write by themselves."""
        return (
            bool(self.writers)
            or path[:1] in ("-", "+", "")
            or _leads_out(path)
            or self._leads_into_the_system(path)
            or any(one.search(path) for one in (_OWN, _ROUNDABOUT, _LIBRARY))
        )

    def _leads_into_the_system(self, path: str) -> bool:
        path = _IDLE.sub("/", f"{path}/")
        return _SYSTEM_FOLDER.search(path) is not None or (self.is_above and _FROM_ABOVE.match(path) is not None)

    def _wrote(self, words: Sequence[str]) -> None:
        """Note what a command may have written."""
        kind = kind_of(words[0])
        if (
            kind in SILENT | BUILTINS | programs.SHELLS | programs.SOURCES
            or (is_interpreter(kind) and not _writes_for(words[1:]))
            or (_is_of_the_project(words[0]) and kind not in KNOWN)
            or _is_inert(kind, words[1:])
        ):
            return
        is_log = kind == "tee" and not self.is_poured and all(map(_LOG.fullmatch, words[1:]))
        is_tool = kind in TOOLS or not (kind in KNOWN | KEEPING or is_interpreter(kind))  # or only a rule names it
        if is_tool or is_log:
            self.has_used_tool = True
            self.logs.update(name for word in words[1:] for name in _names(word) if is_log and word != "-a")
            if programs.is_obeyed(kind, words[1:]):
                self.writers.add("")
            elif programs.tells(kind, words[1:]) or any(map(_OUTPUT, words)):
                self.writers.add(kind)
            return
        self.writers.add(kind)
        self.named.update(name for word in words[1:] for name in _names(word))


def _commands(text: str) -> Iterator[tuple[list[str], list[str], bool]]:
    """Each command: the assignments and keywords before it, its words, and whether it reads a pipe."""
    before: list[str] = []
    words: list[str] = []
    piped = False
    for token in TOKEN.finditer(text + ";"):
        if token[2]:
            is_timed = token[2] == "-p" and before[-1:] == ["time"]
            is_first = not words and (token[2] in _OPENING or is_timed or ASSIGNMENT.match(token[2]))
            (before if is_first else words).append(unquoted(token[2]))
        elif before or words:
            yield before, words, piped
            before, words, piped = [], [], token[1] == "|"
        else:
            piped &= token[1] == "\n"


def _writes_for(words: Sequence[str]) -> bool:
    """Whether an interpreter runs a module that may put words into a file."""
    module = next(islice((word for before, word in pairwise(words) if before == "-m"), 1), "")
    package = module.partition(".")[0]
    return module.startswith("json") or bool(module and words[-1] != module and {module, package}.isdisjoint(MODULES | TOOLS))


def _names(word: str) -> Iterator[str]:
    return (name for part in _NAMES.split(word) if (name := name_of(part).lstrip("-").lower()) and name.strip("."))


def _is_of_the_project(program: str) -> bool:
    """Whether a program is given by a path outside the system's program directories."""
    return "/" in program and not _SYSTEM_PROGRAM.fullmatch(program)


def _sets(word: str) -> bool:
    """Whether a word sets a variable by which a program may run something else."""
    return ASSIGNMENT.match(word) is not None and not _HARMLESS.fullmatch(word) and not _OPERAND.match(word)


def _leads_out(word: str) -> bool:
    return "/" in word and _OF_THE_SYSTEM.search(_IDLE.sub("/", word)) is not None


def _is_inert(kind: str, rest: Sequence[str]) -> bool:
    understood = kind not in _UNDERSTOOD or _UNDERSTOOD[kind](rest)
    return kind in programs.INERT and understood and all(map(programs.INERT[kind].fullmatch, rest))


def unwrapped(words: Sequence[str]) -> Sequence[str]:
    """The words of the command that is behind all programs that wrap it."""
    while words and (behind := _behind(words)) is not None:
        words = list(dropwhile(lambda word: word[:1] == "-", behind))
    return words


def told_to_scripts(words: Sequence[str]) -> tuple[Sequence[str], bool]:
    """The words of a command that scripts of the project may be given or find as names, and whether it runs such a script."""
    kind = kind_of(words[0]) if words else ""
    if kind in _SCRIPTED and not programs.installs(kind, words[1:]):
        return words[2 + next((place for place, word in enumerate(words) if word in ("run", "run-script")), 0) :], True
    if kind in programs.SHELLS | programs.SOURCES or is_interpreter(kind) or (words and _is_of_the_project(words[0])):
        return words[1:], True
    if words[1:] and (run := programs.run_by(kind, words[1:])):
        return told_to_scripts(run)
    return words[1 if kind in ("mkdir", "cd", "pushd") else 2 if kind in TOOLS else len(words) :], False


def _behind(words: Sequence[str]) -> Sequence[str] | None:
    """The words of the command that a program wraps; None if there is none, or it is unknown."""
    kind = kind_of(words[0])
    if kind not in programs.PREFIXES or (found := programs.PREFIXES[kind].match(" ".join(words[1:]) + " ")) is None:
        return None
    behind = words[1 + found[0].count(" ") :]
    return (
        ["python", *behind] if kind == "uv" and behind and (behind[0] == "-m" or behind[0].endswith(".py")) else behind or None
    )


def _is_plain_sed(rest: Sequence[str]) -> bool:
    options = [word for word in rest if word.startswith("-")]
    scripts = [word for option, word in pairwise(rest) if option == "-e"]
    scripts += [word for word in rest if not word.startswith("-")][:1]
    return all(map(_SED_OPTION.fullmatch, options)) and all(
        all(map(_SED_STEP.fullmatch, script.split(";"))) for script in scripts
    )


def _is_plain_awk(rest: Sequence[str]) -> bool:
    words = [word for word in rest if word not in ("|", "-F|")]
    return not any(_AWK.search(word) or (word[:1] == "-" and word[1:2] not in ("F", "v")) for word in words)


_UNDERSTOOD: dict[str, Callable[[Sequence[str]], bool]] = {
    "sed": _is_plain_sed,
    "awk": _is_plain_awk,
    "sort": lambda rest: not any((word[:2] == "--" and word[2:9] != "output=") or _GLUED_OUTPUT.match(word) for word in rest),
}
