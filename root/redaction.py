"""The removal of secrets from texts of exceptions, providers and servers, before they are stored, logged or sent.

A secret is recognised by its value (of a variable that an app names, of a URL's password), however it was escaped; or by its
place and shape: the user part of a URL, the value of a header or of `password=`, a key with a known prefix.
"""

import binascii
import functools
import html
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

SHORTEST = 6
"""The fewest characters of a secret; a shorter value would match inside ordinary words."""
MOST_VALUES = 1000
"""How many variables' values are searched for; variables whose names say "secret" come first."""
MOST_CHARACTERS = 1 << 18
"""How many characters of a text are searched; the rest is cut off."""
HIDDEN = "***"
PIECE = 8
"""How many characters of a value must stand beside an ellipsis to be recognised as its beginning or end."""
CUTS, WHOLE = 50, 100
"""How many ellipses of a text are searched for pieces of values, and how many values' pieces are searched for."""
SIDE = 256
"""How many characters on each side of an ellipsis are searched; programs that shorten a value show fewer."""

_MARGIN = 4096
_LINE = 16
_OCTETS = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-~")
_BASE64_SKIPPED = (0, 2, 3)
"""How many characters of base64 depend on the preceding octets, by the number of those octets (0, 1 or 2)."""

_Span: TypeAlias = tuple[int, int, str]

_VARIABLE = (
    r"(?i)((API|APP|ACCESS|SECRET|PRIVATE|SIGNING|ENCRYPTION|LINK)_?KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE"
    r"|OTLP_(TRACES_)?HEADER)S?$"
)

_VALUE = r"(?:[^\s\"'`&;,)\]}]|[&;,](?!\s|$|[\w.-]{1,40}=)|[)\]}\"'`](?=\w))+"
"""A value without quotes: it ends where the next value begins, or where a quote or bracket around it closes."""
_NOTHING = r"(?!(?:none|null|true|false)\b|\*{3}(?![^\s\"'`&;,)\]}\\])|\[[A-Z_])"
_QUOTED = (
    r"""(?:"(?P<dq>(?:[^"\\]|\\.)+)"|'(?P<sq>(?:[^'\\]|\\.)+)'|(?P<open>\\{1,8}["'])(?P<eq>(?:(?!(?P=open)).)+)(?P=open))"""
)
_NAMES = (
    r"(?:api[-_ ]?key|access[-_]?key|secret[-_]?key|private[-_]?key|client[-_]?secret|password|passwd|passphrase"
    r"|(?<![a-z])(?:secret|pass|pwd|token|credentials?)|(?:access|auth|session|bearer|refresh|security|id)[-_]?token)"
)
_HEADERS = r"(?:authorization|x-api-key|x-goog-api-key|api-key|x-auth-token|x-access-token)"
_CLOSED = r"\\{0,8}[\"']"
_GROUPS = ("value", "dq", "sq", "eq")

_SCHEME = r"(?i)(?<=[a-z0-9+.-])(?P<plain>:(?:\\{0,4}/){2})|(?<=[a-z0-9+.-])%3A%2F%2F"
_URL_ENDS = r"\s|[\"'`](?=[\s,:;}\])>\\]|$)"
_HTTP = r"(?i)(?:https?|wss?)\Z"
_HOST = r"[^:@]*(?::\d{0,5})?|\[[0-9a-fA-F:.]*\](?::\d{0,5})?"


class Redaction:
    """The secrets that are removed from texts, besides those known by place or shape. Immutable; `repr` shows no values.

    `named` are values by the name of their variable: `[NAME]` replaces each. `***` replaces the passwords of `urls`, and a
    secret known by place or shape.
    """

    def __init__(self, named: Mapping[str, str] | None = None, *, urls: Iterable[str] = ()) -> None:
        forms: dict[str, str] = {}
        whole: dict[str, str] = {}
        first = sorted((named or {}).items(), key=lambda item: (not re.compile(_VARIABLE).search(item[0]), item[0]))
        for name, value in first[:MOST_VALUES]:
            secret = re.compile(_VARIABLE).search(name) is not None
            for part in (value, *_passwords(value), *_lines(value), *(_words(value) if secret else ())):
                _add(forms, part, f"[{name}]")
                if len(part) >= 2 * PIECE and len(whole) < WHOLE:
                    whole.setdefault(part, f"[{name}]")
        for url in urls:
            for part in _passwords(url):
                _add(forms, part, HIDDEN)
        self._forms = tuple(forms.items())
        self._whole = tuple(whole.items())
        self._margin = max([_MARGIN, *map(len, forms)])

    @classmethod
    def of_process(cls, environ: Mapping[str, str], named: Iterable[str] = (), *, urls: Iterable[str] = ()) -> "Redaction":
        """The redaction of a process: of the named variables, and of those whose own names mark them as secret."""
        wanted = {*named, *filter(re.compile(_VARIABLE).search, environ)}
        return cls({name: environ[name] for name in wanted if name in environ}, urls=urls)

    def redacted(self, text: str, limit: int | None = None) -> str:
        """The text without secrets, then cut to `limit` characters, so that no half of a secret is left.

        Linear in the text, of which at most `MOST_CHARACTERS` characters are searched and returned.
        """
        most = MOST_CHARACTERS if limit is None else min(MOST_CHARACTERS, limit + 4 * self._margin)
        seen = text[: most + self._margin]
        # The last characters are not shown: a secret may begin there and continue beyond the searched part.
        ends = len(seen) if len(seen) == len(text) else most
        parts, at = list[str](), 0
        for start, end, label in _merged(self._spans(seen)):
            if start >= ends:
                break
            parts += (seen[at:start], label)
            at = end
        return "".join((*parts, seen[at : max(at, ends)]))[:limit]

    def within(self, value: Any) -> Any:
        """The value, redacted if it is a text; of a list, each of its values."""
        if isinstance(value, list | tuple):
            return [self.within(one) for one in value]
        return self.redacted(value) if isinstance(value, str) else value

    def said(self, error: BaseException, limit: int | None = None) -> str:
        """The class and text of an error without secrets, at most `limit` characters."""
        return self.redacted(said(error), limit)

    def _spans(self, text: str) -> Iterator[_Span]:
        for form, label in self._forms:
            at = text.find(form)
            while at >= 0:
                yield at, at + len(form), label
                at = text.find(form, at + len(form))
        yield from self._cut(text)
        yield from _in_urls(text)
        for pattern in _patterns():
            for found in pattern.finditer(text):
                for group, value in found.groupdict().items():
                    if value is not None and group in _GROUPS:
                        yield *found.span(group), HIDDEN

    def _cut(self, text: str) -> Iterator[_Span]:
        """The pieces of values beside an ellipsis: some programs shorten a value in its middle."""
        cuts = re.finditer(r"[\s\[(]{0,2}(?:\.{3,}|[…⋯])[\s\])]{0,2}", text) if self._whole else ()
        for found, _ in zip(cuts, range(CUTS), strict=False):
            before, after = text[max(0, found.start() - SIDE) : found.start()], text[found.end() : found.end() + SIDE]
            for value, label in self._whole:
                at = before.find(value[:PIECE])
                while at >= 0 and not value.startswith(before[at:]):
                    at = before.find(value[:PIECE], at + 1)
                if at >= 0:
                    yield found.start() - len(before) + at, found.start(), label
                at = after.rfind(value[-PIECE:])
                while at >= 0 and not value.endswith(after[: at + PIECE]):
                    at = after.rfind(value[-PIECE:], 0, at + PIECE - 1)
                if at >= 0:
                    yield found.end(), found.end() + at + PIECE, label


@functools.cache
def _patterns() -> tuple[re.Pattern[str], ...]:
    """The places and shapes of secrets, compiled at first use: a command without an error needs none."""
    return tuple(
        re.compile(pattern, re.IGNORECASE | re.DOTALL)
        for pattern in (
            # A header: `Authorization: Bearer x`, `'x-api-key': 'x'`, `(b'authorization', b'Bearer x')`.
            (
                rf"{_HEADERS}(?:\s{{0,3}}[:=]|{_CLOSED}\s{{0,3}}[:=,])\s{{0,3}}(?:b?{_CLOSED})?+"
                rf"(?P<value>(?:(?:bearer|basic|token|digest|apikey)\s{{1,3}})?{_NOTHING}{_VALUE})"
            ),
            rf"cookie(?:\s{{0,3}}:|{_CLOSED}\s{{0,3}}[:=,])\s{{0,3}}(?:b?{_CLOSED})?+(?P<value>[^\r\n\"']+)",
            # `password=x`, also within quotes, and so in JSON and in the `repr` of a dict.
            rf"{_NAMES}(?:\s{{0,3}}=>?|{_CLOSED}\s{{0,3}}(?:[:=]|=>))\s{{0,3}}b?(?:{_QUOTED}|(?P<value>{_NOTHING}{_VALUE}))",
            # `password: x`: a value if it is quoted, or looks more like a secret than like a word.
            rf"{_NAMES}\s{{0,3}}:\s{{0,3}}(?:{_QUOTED}|(?P<value>{_NOTHING}(?=[^\s]{{0,64}}?[\d!#$%&*+/=@^_~]){_VALUE}))",
            r"\b(?:bearer|basic)\s{1,3}(?P<value>(?=[^\s\"',;]{0,64}?[\d=]|[^\s\"',;]{20}|(?-i:[A-Za-z]?[a-z]+[A-Z]))[^\s\"',;]{6,})",
            r"(?P<value>-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----.*?(?:-----END [A-Z ]{0,30}PRIVATE KEY-----|\Z))",
            # Known prefixes: OpenAI and Anthropic, GitHub, GitLab, Slack, AWS, Google, Hugging Face, Groq; a JSON Web Token.
            (
                r"(?<![a-z0-9])(?P<value>(?-i:sk-[\w-]{16,}|gh[pousr]_\w{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|xox[a-z]-[\w-]{10,}"
                r"|A(?:KIA|SIA)[0-9A-Z]{16}|AIza[\w-]{30,}|hfp?_\w{20,}|gsk_\w{20,}))"
            ),
            r"(?<![\w-])(?P<value>(?-i:[A-Za-z0-9]{1,16}\.WyJ[\w-]{40,}+\.[\w-]{43}))(?![\w-])",  # the token of a link of ours
            r"(?<![\w-])(?P<value>(?-i:e(?:y[AJ]|w[0ko])[\w-]{8,}+\.(?:[\w-]{8,}+)?\.[\w-]*(?:\.[\w-]+){0,2}))",
        )
    )


def said(error: BaseException) -> str:
    """The class and text of an error; the class alone if its `str` fails."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001 - `__str__` may be the app's code
        return type(error).__name__


def _merged(spans: Iterable[_Span]) -> Iterator[_Span]:
    """The spans in order, overlapping ones joined. The longest gives the label; among equally long ones, a variable's name."""
    start, end, label, longest = 0, 0, "", 0
    for span in sorted(spans, key=lambda found: (found[0], -found[1], found[2] == HIDDEN)):
        if span[0] >= end:
            if label:
                yield start, end, label
            start, end, label = span
            longest = end - start
        else:
            end = max(end, span[1])
            if span[1] - span[0] > longest:
                label, longest = span[2], span[1] - span[0]
    if label:
        yield start, end, label


def _in_urls(text: str) -> Iterator[_Span]:
    """The user parts of URLs. A password may hold `/` and `@`, so the part ends at the last `@`."""
    ends = 0
    following = re.compile(_SCHEME).finditer(text)
    found = next(following, None)
    while found is not None:
        then = next(following, None)
        if found.end() >= ends:
            closing = re.compile(_URL_ENDS).search(text, found.end())
            ends = len(text) if closing is None else closing.start()
        stop = min(ends, len(text) if then is None else then.start())
        plain = found["plain"] is not None
        at = _user_ends(text, found, stop) if plain else text.rfind("%40", found.end(), stop)
        if at > found.end():
            yield found.end(), at, HIDDEN
        found = then


def _user_ends(text: str, scheme: "re.Match[str]", stop: int) -> int:
    start, at = scheme.end(), text.rfind("@", scheme.end(), stop)
    slash = min((place for sign in "/?#" if (place := text.find(sign, start, max(at, start))) >= 0), default=-1)
    if at < 0 or slash < 0:
        return at
    before = text[start:slash]
    if re.compile(_HTTP).search(
        text, max(0, scheme.start() - 5), scheme.start()
    ):  # in HTTP an authority ends with the first slash
        inner = text.rfind("@", start, slash)
        return inner if inner >= 0 else -1 if re.compile(_HOST).fullmatch(before) else at
    return at if ":" in before or "@" in before else -1


def _passwords(url: str) -> Iterator[str]:
    """The passwords in a URL, both as written and unquoted."""
    for start, end, _ in _in_urls(url):
        password = url[start:end].partition(":")[2] or url[start:end]
        yield password
        yield _unquoted(password)
    for found in re.finditer(r"(?i)[?&;][a-z_]{0,20}(?:password|passwd|pwd)=([^&;#\s]+)", url):
        yield found[1]
        yield _unquoted(found[1])


def _lines(value: str) -> list[str]:
    """The long lines of a multi-line value, such as a private key: a text may show them one by one."""
    lines = value.splitlines()
    return [line for line in lines if len(line) >= _LINE] if len(lines) > 1 else []


def _words(value: str) -> list[str]:
    words = re.split(r"[\s,;:]+|=(?=[^=])", value)
    return [word for word in words if len(word) >= _LINE] if len(words) > 1 else []


def _add(forms: dict[str, str], value: str, label: str) -> None:
    if len(value.strip()) < SHORTEST:
        return
    for form in _escaped(value.strip()):
        if len(form) >= SHORTEST:
            forms.setdefault(form, label)


def _escaped(value: str) -> set[str]:
    """A value as it may stand in a text: as it is, or escaped for JSON, Python or a URL, or in base64."""
    texts = {value}
    for _ in range(2):  # JSON within JSON, and the `repr` of JSON
        texts |= {escape(text) for text in tuple(texts) for escape in _ESCAPES}
    octets = value.encode("utf-8", "surrogatepass")
    for kept in (_OCTETS, _OCTETS | {ord("/")}):
        quoted = "".join(chr(octet) if octet in kept else f"%{octet:02X}" for octet in octets)
        texts |= {quoted, quoted.replace("%20", "+"), re.sub("%[0-9A-F]{2}", lambda found: found[0].lower(), quoted)}
    for before, skipped in enumerate(_BASE64_SKIPPED):
        whole = (before + len(octets)) * 8 // 6  # the last character may depend on the following octets
        encoded = binascii.b2a_base64(bytes(before) + octets, newline=False).decode()[skipped:whole]
        texts |= {encoded, encoded.replace("+", "-").replace("/", "_")}
    return texts


_ESCAPES: tuple[Callable[[str], str], ...] = (
    lambda text: json.dumps(text)[1:-1],
    lambda text: json.dumps(text, ensure_ascii=False)[1:-1],
    lambda text: json.dumps(text, ensure_ascii=False)[1:-1].replace("/", "\\/"),
    lambda text: repr(text)[1:-1],
    lambda text: repr(text + "'\"")[1:-4],
    lambda text: repr(text.encode("utf-8", "surrogatepass"))[2:-1],
    lambda text: text.replace("\\", "\\\\").replace("'", "\\'"),
    html.escape,
)


def _unquoted(text: str) -> str:
    octets = re.sub(rb"%([0-9a-fA-F]{2})", lambda found: bytes([int(found[1], 16)]), text.encode("utf-8", "surrogatepass"))
    return octets.decode("utf-8", "replace")


PLAIN = Redaction()
"""The redaction without known values: it removes secrets by place and shape only."""
