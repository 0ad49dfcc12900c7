"""The words for which known programs run and write nothing that the words do not name; from `known_programs.txt`."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources

_WORD = r"[\w./:=@,+-]*"
BARE = re.compile(_WORD)
"""A word that no shell and no program splits."""
_URL = r"https?://[^\s]*"
_CONFIG = (
    r"(?:user|color|advice|push|http)\.\w+|pull\.(?:ff|rebase(?!.[mp]))|core\.(?:quotepath|autocrlf)|init\.defaultbranch"
    r"|safe\.directory"
)
_OPERAND = r"(?:-m\t[^\t]*\t|-[^\t]*\t)*+[^-\t][^\t]*"
_CONFIGURING = "global|local|list|unset|get|get-all|add"
_MERGING = rf"(?:merge|pull\t{_OPERAND})\t{_OPERAND}\t{_OPERAND}\t|merge\t.*FETCH_HEAD"
_OCTOPUS = r"rebase\t(?:.*\t)?-(?!x)[a-z]*[rp]|(?:pull|fetch)\t(?:.*\t)?(?:-(?!x)[a-z]*a|(?:--rebase=|-[a-z]*r)[mp])"
_REVISION = r"[\w./@:][\w./@:-]*[~^]\d*"
_DEFINED = (
    "BUILD_TYPE|INSTALL_PREFIX|CXX_STANDARD|C_STANDARD|EXPORT_COMPILE_COMMANDS|BUILD_PARALLEL_LEVEL|POSITION_INDEPENDENT_CODE"
)
_COMPILING = (
    r"-(?:c|g\d?|O[0-3sgz]?|Ofast|W(?![alp],)[\w=+-]*|std=[\w+:]+|o|[IL][\w./-]*|l[\w+-]+|[DU]\w+(?:=[\w.-]*)?|fPI[CE]|fpic"
    r"|fsanitize=[\w,]+|fopenmp|flto|fvisibility=\w+|f(?:no-)?(?:omit-frame-pointer|exceptions|rtti|strict-aliasing)"
    r"|f(?:diagnostics-color|color-diagnostics)(?:=\w+)?|march=[\w-]+|mtune=[\w-]+|pthread|shared|static|S|E|M[DPM]*|pedantic|ansi)"
)
_MORE = {
    **dict.fromkeys(("alembic", "flask"), r"\w[\w ]*"),  # these words end up in a Python file
    "git": rf"{_REVISION}|-X(?:ours|theirs)|-[LSG][\w.,:/]+|-U\d+",
    "curl": _URL,
    "wget": _URL,
    "pytest": r"[\w./][\w./:\[\], -]*|-r\w+",
    "pip": r"[\w.][\w.\[\],<>=!~-]*|-r[\w./-]+",
    "prettier": r"[\w./*{},@][\w./*{},@-]*",
    "eslint": r"[\w./*{},@][\w./*{},@-]*",
    "black": r"[\w./*{},@][\w./*{},@-]*",
    "ruff": r"[\w./*{},@][\w./*{},@-]*",
    "mypy": r"[\w./*{},@][\w./*{},@-]*",
    "cmake": rf"-[BS][\w./-]+|-D(?:CMAKE_(?:{_DEFINED})|(?:BUILD|ENABLE|WITH|USE|NO)_\w+)(?::\w+)?=[\w./-]*",
    "go": r"\./\.\.\.|-ldflags=-[sw]",
    "lsof": r"-t?i(?:TCP|UDP|tcp|udp)?(?::[\d,]+)?|-sTCP:LISTEN",
    "mvn": r"-D(?:skipTests|test|maven\.test\.skip)(?:=[\w.,*#-]*)?",
    "gradle": r"-P\w[\w.]*=[\w./-]*",
    "java": r"-X(?:mx|ms|ss)\w+|-D(?:spring|server|file|user|app)\.[\w.-]+=[\w./:-]*",
    "tar": r"[cxtrzjJvfkpham]+",
    "jar": r"[cxtvfm]+|[cxtv]*f[m]?",
    **dict.fromkeys(("gcc", "g++", "cc", "clang", "clang++"), _COMPILING),
}
"""Further words of a program."""
_UNLIKE = {
    "git": rf"{_MERGING}|{_OCTOPUS}|config\t(?!(?:(?:-l|--(?:{_CONFIGURING}))\t)*(?:(?:{_CONFIG})\t(?:[^\t]*\t)?)?$)",
    "curl": ".*%output",
    "tar": r"(?!-|[cxtrzjJvfkpham]+\t)|.*:",
    "sqlite3": r"(?:.*\t)?\.(?=\w)(?!(?:tables|schema|databases|dump|indexes)\t)",
    "java": r"(?:.*\t)?(?:sun|jdk|java|com[./]sun)[./]",
    "dotnet": r"(?:.*\t)?/\w+:",
    "make": r"(?:.*\t)?(?:(?!(?-i:[A-Z])\w*=)[^=\t]*=|[^\t]*:|(?<!-C\t)[^=\t]*\.\w)",
    **dict.fromkeys(("rspec", "mocha", "jest"), r"(?:.*\t)?(?:/|[^\t]*\bbin/)"),
    "psql": (
        r".*(?:[\\|$&;]|program|pg_|lo_|_to_xml|dblink|uescape|config"
        r"|\b(?:do|execute|call|create|alter|copy|load|import|listen)\b)"
    ),
    "pytest": r".*__main__",
}
"""Words of a program, each with a tab behind it, of which the program may run something."""
_SAFE_SETTING = re.compile(rf"(?i:{_CONFIG})=?{_WORD}")
ODD = re.compile(r"__main__|__[.:,\w]*=|[\w.]\+[A-Za-z/]|[\w/.]\+\+[A-Za-z]")
"""Signs between letters that make a bare word a program text, such as Perl's `system+q.x.`."""
_VERSION = frozenset({"--version", "--help", "-V", "-v", "-h"})
_COMMON = ("letters", "options", "said", "signs")
_CLUSTER, _NUMBER = re.compile(r"-([A-Za-z]+)(\d*)"), re.compile(r"-\d+")


@dataclass(frozen=True)
class Row:
    """The words that a program is known to take.

    Attributes:
        first: The subcommands, one of which must be the first word; any word may be, if there are none.
        second: What must follow the subcommand, if there is any.
        before: The options that may stand before the subcommand, with whether each takes a value.
        letters: The options of one letter.
        options: The other options.
        said: The options whose value may be any text.
        signs: What else is known: `--`, and signs with which a word may begin.
    """

    first: frozenset[str]
    second: frozenset[str]
    before: dict[str, bool] = field(hash=False)
    letters: frozenset[str]
    options: frozenset[str]
    said: frozenset[str]
    signs: frozenset[str]

    @classmethod
    def of(cls, tokens: Sequence[str]) -> "Row":
        """The row of these tokens from a table."""
        marked = {mark: [token[1:] for token in tokens if token[:1] == mark and token[1:]] for mark in "^'>~"}
        return cls(
            first=frozenset(token for token in tokens if token[:1].isalpha()),
            second=frozenset(marked[">"]),
            before={one.removesuffix("="): one.endswith("=") for one in marked["^"]},
            letters=frozenset("".join(token[1:] for token in tokens if re.fullmatch(r"-\w+", token))),
            options=frozenset((*(one for one in tokens if one[:2] == "--"), *(f"-{one}" for one in marked["~"]))),
            said=frozenset(("-" + one[1:]) if one[:1] == "~" else one for one in marked["'"]),
            signs=frozenset({"--", "@", "+", "-", '"', "..."}.intersection(tokens)),
        )

    def beside(self, base: "Row") -> "Row":
        """This row of a subcommand, with all that the program's own row has."""
        return Row(base.first, self.second, base.before, *(getattr(self, one) | getattr(base, one) for one in _COMMON))

    def takes(self, option: str) -> bool:
        """Whether an option, without its value, is known."""
        if option in self.options or option in self.said:
            return True
        found = _CLUSTER.fullmatch(option)
        return found is not None and all(letter in self.letters or f"-{letter}" in self.said for letter in found[1])

    def says(self, option: str) -> bool:
        """Whether the value of an option may be any text."""
        return option in self.said or (option[:2] != "--" and f"-{option[-1:]}" in self.said and self.takes(option))


def _tables() -> Iterator[tuple[str, dict[str, list[str]]]]:
    """The tables of `known_programs.txt`: the name of each, and the tokens by the programs."""
    text = re.sub(r"(?m)^#.*\n", "", (resources.files(__package__) / "known_programs.txt").read_text())
    for table in re.split(r"(?m)^\[", text)[1:]:
        name, _, lines = table.partition("]")
        rows: dict[str, list[str]] = {}
        for names, *tokens in map(str.split, re.split(r"\n(?=\S)", lines.strip())):
            for program in names.split(","):
                rows.setdefault(program, []).extend(tokens)
        yield name, rows


_TABLES = dict(_tables())
_TOKENS = {name: tokens for table in ("tools", "silent", "others") for name, tokens in _TABLES[table].items()}
BUILTINS, FED, KEEPING, MODULES = (frozenset(_TABLES[table]) for table in ("builtins", "fed", "keeping", "modules"))
"""The names of these four tables; their headings in the file say what they have in common."""
TOOLS = frozenset(name for name in _TABLES["tools"] if "/" not in name)
"""Programs that run code of the project or write files of their own, and write no files that their words name."""
SILENT = frozenset(_TABLES["silent"])
"""Programs that write nothing."""
KNOWN = frozenset(name for name in _TOKENS if "/" not in name)
"""Programs whose harmless words are known. A command with any other program asks, unless a rule names the program."""


@cache
def _row(name: str) -> Row:
    program, of_subcommand, _ = name.partition("/")
    row = Row.of(_TOKENS[name])
    return row.beside(_row(program)) if of_subcommand else row


def takes(kind: str, words: Sequence[str]) -> bool:
    """Whether a known program is known to run none of these words."""
    row = _row(kind)
    if len(words) == 1 and words[0] in _VERSION:
        return True
    rest = _behind_the_options(kind, row, words) if row.first else words
    if not rest:
        return rest is not None
    line = "".join(word.replace("\t", " ") + "\t" for word in rest)
    if kind in _UNLIKE and re.match(_UNLIKE[kind], line, re.DOTALL | re.IGNORECASE):
        return False
    if not row.first:
        return _are_taken(kind, row, rest)
    row = _row(name) if (name := f"{kind}/{rest[0]}") in _TOKENS else row
    return (not row.second or len(rest) == 1 or rest[1] in row.second) and _are_taken(kind, row, rest[1:])


def _behind_the_options(kind: str, row: Row, words: Sequence[str]) -> Sequence[str] | None:
    """The words from the subcommand on; None if the subcommand or an option before it is not known."""
    place = 0
    while place < len(words) and words[place][:1] == "-":
        option, glued, value = words[place].partition("=")
        if option not in row.before:
            return None
        if row.before[option] and not glued:
            place += 1
            value = words[place] if place < len(words) else ""
        if not (_SAFE_SETTING if (kind, option) == ("git", "-c") else BARE).fullmatch(value):
            return None
        place += 1
    rest = words[place:]
    return rest if not rest or rest[0] in row.first else None


def _are_taken(kind: str, row: Row, words: Sequence[str]) -> bool:
    more = _MORE.get(kind)
    is_said = False
    for place, word in enumerate(words):
        was_said, is_said = is_said, False
        option, glued, value = word.partition("=")
        if word == "--" and "--" in row.signs:
            return all(map(BARE.fullmatch, words[place:]))
        if "..." in row.signs and word[:1] != "-":
            return True
        if more and re.fullmatch(more, word, re.DOTALL):
            continue
        if word[:1] == "-" and not _NUMBER.fullmatch(word) and (word != "-" or "-" not in row.signs):
            is_said = row.says(option)
            if not row.takes(option) or not (is_said or (BARE.fullmatch(value) and "=" not in value and value[:1] != "-")):
                return False
            is_said &= not glued
        elif was_said or '"' in row.signs:
            continue
        elif (word[:1] in ("@", "+") and word[0] not in row.signs) or not BARE.fullmatch(word) or ODD.search(word):
            return False
    return True
