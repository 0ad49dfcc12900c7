"""What a text says if a shell reads it: each command in it, however it is wrapped, quoted or spelled.

This is for rules that deny or ask. They are to see a command where a shell might, so a text has more readings here than a shell
would give it. It is no shell: what a variable or a program holds is not known, and a reading ends where that begins.
"""

import posixpath
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

_CONTINUED = re.compile(r"\\\r?\n")
_QUOTING = re.compile(r"[\\'\"^]")
_JOINTS = re.compile(r"[;&|(){}`\n\r]|\$\(")
_COARSE = re.compile(r"[;&|\n\r]")
# Each of these takes time in proportion to a text, whatever it is: no two places of a run of one character begin a search.
_REDIRECTION = re.compile(r"(?:(?<!\S)[0-9&]*)?(?<![<>])[<>]++[&|]?\s*+[^\s<>]+")
_ARROWS = re.compile(r"[<>]+")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*(?:\[[^\]]*\])?\+?=")
_EXPANDED = re.compile(r"[$`*?\[{]")
_BESIDE = re.compile(r"-|[0-9]+(?:\.[0-9]+)?[smhd]?$|[A-Za-z_]\w*=|[{}@%+]")
"""What stands between a wrapper and the command that it runs: options, numbers, lengths of time, assignments."""
_KEYWORDS = frozenset({"do", "then", "else", "elif", "if", "while", "until", "!", "{", "(", "coproc", "function"})
_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "ash", "fish", "csh", "tcsh", "pwsh", "powershell", "cmd"})
_WRAPPERS = _SHELLS | {
    *(
        "sudo",
        "doas",
        "env",
        "command",
        "builtin",
        "exec",
        "eval",
        "nohup",
        "time",
        "nice",
        "ionice",
        "chrt",
        "taskset",
        "timeout",
    ),
    *(
        "xargs",
        "parallel",
        "find",
        "fd",
        "watch",
        "busybox",
        "toybox",
        "setsid",
        "stdbuf",
        "unbuffer",
        "script",
        "flock",
        "chroot",
    ),
    *("unshare", "nsenter", "strace", "ltrace", "gdb", "su", "runuser", "ssh", "docker", "podman", "kubectl", "trap", "entr"),
    *(
        "systemd-run",
        "at",
        "batch",
        "start",
        "call",
        "proxychains",
        "torsocks",
        "firejail",
        "bwrap",
        "wsl",
        "git-bash",
        "winpty",
    ),
    *("arch", "setarch", "tmux", "screen", "valgrind", "perf", "fakeroot", "proot", "xvfb-run", "dbus-run-session", "ip"),
    *("sg", "daemonize", "chronic", "cpulimit"),
    *("pkexec", "gosu", "su-exec", "setpriv", "run0", "caffeinate", "prlimit", "numactl", "sshpass", "faketime", "rlwrap"),
}
_LOOPS = frozenset({"for", "select"})
_GLUED = re.compile(r"(?:-[Sc]|--split-string=|--command=)(.+)", re.IGNORECASE)
"""A command in the option of a wrapper that runs it."""
_MOST_GLUED = 4
_FEEDING = frozenset({"xargs", "parallel", "fd"})
"""Wrappers that give the command which they run more arguments than the text says."""
_RUNNING = frozenset(
    {"-exec", "-execdir", "-ok", "-okdir", "-c", "-e", "-x", "--exec", "--command", "--eval", "/c", "-command"}
)
_STREAMS = ("/dev/stdin", "/dev/fd/", "/proc/self/fd/")
_SOURCED = re.compile(r"(?:^|[;&|(){\n\r])[^\S\n\r]*(?:source|\.)\s+(?:<|/dev/stdin|/dev/fd/|/proc/self/fd/)")
_MOST_DEEP, _MOST_SUFFIXES, _MOST_SIZE = 12, 64, 4 << 20
_QUOTED = re.compile(r"\\.|(?:^|(?<=\s))#[^\n]*|\"(?:\\.|[^\"\\])*\"|'[^']*'", re.DOTALL)
_EVALUATES = re.compile(r"<<|\$'|\b(?:eval|(?:ba|da|z|k|a|fi|c|tc|pw)?sh|powershell|cmd|su|ssh|watch|parallel|trap)\b")


@dataclass(slots=True)
class Commands:
    """The commands in a text.

    Attributes:
        lines: Each as a line of words with single spaces.
        cut: What is certain of those lines that go on with what a shell would put in: up to there.
        opaque: Whether something runs that the text does not say, such as a shell that reads from a pipe.
    """

    lines: dict[str, None] = field(default_factory=dict)
    cut: set[str] = field(default_factory=set)
    opaque: bool = False
    _size: int = 0

    def read(self, text: str) -> None:
        """Take in a text, folded or not."""
        whole = _CONTINUED.sub("", text)
        bare = _QUOTING.sub("", whole)
        joined = _QUOTING.sub("", _QUOTED.sub(lambda quoted: "".join(quoted[0].split()), whole))  # a quoted text is one word
        self.opaque |= _SOURCED.search(bare) is not None
        readings = dict.fromkeys((bare, joined, _REDIRECTION.sub(" ", bare), _REDIRECTION.sub(" ", bare.replace("&>", " >"))))
        for piece in dict.fromkeys(piece for said in readings for piece in _pieces(said, _JOINTS)):
            self._command(piece.split(), deep=0)
        exposed = bare if _EVALUATES.search(whole) else _QUOTING.sub("", _QUOTED.sub(_exposed, whole))
        for piece in dict.fromkeys(_pieces(exposed, _COARSE)):
            if _EXPANDED.search(piece):
                self._command(piece.split(), deep=0, cutting=True)

    def _command(self, words: list[str], *, deep: int, cutting: bool = False) -> None:
        if words and (words[0] in _KEYWORDS or "=" in words[0]):
            words = words[_first(words, lambda word: word in _KEYWORDS or _ASSIGNMENT.match(word) is not None) :]
        if not words or words[0] in ("[", "[["):
            return
        if deep > _MOST_DEEP or self._size > _MOST_SIZE:
            self.opaque = True
            return
        name = _named(words[0])
        self._line(words, cutting=cutting)
        if name != words[0]:
            self._line([name, *words[1:]], cutting=cutting)
        if any("/" in word for word in words):
            self._line([word if "://" in word else posixpath.normpath(word) for word in words], cutting=cutting)
        if name in _WRAPPERS:
            for start in range(1, 1 if cutting else min(len(words), _MOST_SUFFIXES)):
                self._line(words[start:], cutting=False)
                if name in _FEEDING:
                    self.cut |= {f"{' '.join((first, *words[start + 1 :]))} " for first in (words[start], _named(words[start]))}
            rest = words[1 + _first(words[1:], lambda word: _BESIDE.match(word) is not None) :]
            self.opaque |= name in _SHELLS and (not rest or rest[0].startswith(_STREAMS))
            self._command(rest, deep=deep + 1, cutting=cutting)
            glued = [(place, found) for place, word in enumerate(words[1:], 1) if (found := _GLUED.fullmatch(word))]
            for place, found in glued[:_MOST_GLUED]:
                self._command([found[1], *words[place + 1 :]], deep=deep + 1, cutting=cutting)
            self.opaque |= len(glued) > _MOST_GLUED
        if name in _LOOPS and "do" in words:
            self._command(words[words.index("do") + 1 :], deep=deep + 1, cutting=cutting)
        if not _RUNNING.isdisjoint(words[1:]):
            place = next(place for place, word in enumerate(words) if place and word in _RUNNING)
            self._command(words[place + 1 :], deep=deep + 1, cutting=cutting)

    def _line(self, words: list[str], *, cutting: bool) -> None:
        line = " ".join(words)
        if self._size > _MOST_SIZE:
            self.opaque = True
            return
        self._size += len(line)
        self.lines[line] = None
        if cutting and (found := _EXPANDED.search(line)):
            self.cut.add(line[: found.start()])


def _named(word: str) -> str:
    """The name of the program that a word runs."""
    return word.replace("\\", "/").rpartition("/")[2].removesuffix(".exe")


def _first(words: list[str], beside: Callable[[str], bool]) -> int:
    """The place of the first word that is no such word."""
    return next((place for place, word in enumerate(words) if not beside(word)), len(words))


def _pieces(text: str, joints: "re.Pattern[str]") -> Iterator[str]:
    for piece in joints.split(text):
        yield piece
        if "<" in piece or ">" in piece:
            yield _REDIRECTION.sub(" ", piece)
            yield from _ARROWS.split(piece)


def _exposed(quoted: "re.Match[str]") -> str:
    """What a shell may still expand of a quoted text: nothing between single marks, values and commands between double ones."""
    text = quoted[0]
    if text.startswith("#"):
        return ""
    if text.startswith('"'):
        return text if "$(" in text or "`" in text else re.sub(r"[;&|(){}\n\r*?\[\]]", "q", text)
    return re.sub(r"[^\w./-]", "q", text[1:] if text.startswith("\\") else text[1:-1])
