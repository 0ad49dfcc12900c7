"""Hosts as resolvers read them: an address has one canonical form, a name has letters, and anything else is unclear.

Where resolvers differ, each reading counts: `inet_aton` and browsers read `0177.0.0.1` as 127.0.0.1, others as 177.0.0.1.
"""

import ipaddress
import posixpath
import re
from collections.abc import Iterator
from functools import lru_cache

import idna

from holdfast.conversation.text.confusables import skeleton
from holdfast.conversation.text.matching import ends_in_number

_MOST_DIGITS = 64
_LONGEST = 45
"""The most characters of an IPv6 address: six groups, and IPv4."""
_PART = r"(?:0x[0-9a-f]*+|[0-9]++)"
_NUMERIC = re.compile(rf"{_PART}(?:\.{_PART}){{0,3}}\.?")
_NUMBERS = re.compile(rf"(?:(?<![\w.:-])|(?<=\s-[a-z])){_NUMERIC.pattern}(?![\w-]|\.\w|:[0-9a-f]*:)")
_AT_HOST = re.compile(r"(?://|@)\Z")
_LONG = re.compile(r"(\[?)(?:(?<![\w.:])|(?<=\s-[a-z]))([0-9a-f:.]{2,45})(%[\w.-]+)?(\]?)(?![\w:])")
_EMBEDDING = tuple(
    (ipaddress.IPv6Network(network), shift)
    for network, shift in (
        ("::ffff:0:0/96", 0),  # mapped
        ("::ffff:0:0:0/96", 0),  # translated (SIIT)
        ("::/96", 0),  # compatible
        ("64:ff9b::/96", 0),  # NAT64
        ("64:ff9b:1::/48", 0),  # NAT64 of one's own
        ("2002::/16", 80),  # 6to4
    )
)
_TEREDO, _ISATAP = ipaddress.IPv6Network("2001::/32"), re.compile(r"0[02]005efe")
_LOCAL = frozenset({"localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback"})

_TOKENS = re.compile(r"[^\s/\\?#@:\"'<>(),;=&|%\[\]{}]+")
_OPTION = re.compile(r"-[a-z][^-]")
_BREAKS = re.compile(r"[\t\r\n]")  # which browsers leave out of URLs
_AUTHORITIES = (
    re.compile(r"(?:(?<=:)|(?<![^\s'\"(<=]))[/\\]+([^\s/\\?#]+)([^\s?#]*)"),
    re.compile(r"(?<![^\s'\"(<=])https?:([^\s/\\?#]+)([^\s?#]*)"),  # without slashes, as browsers read it
    re.compile(
        r"(?:(?<=:)|(?<![^\s'\"(<=]))//([^\s/?#\\]*+\\[^\s/?#]*)([^\s?#]*)"
    ),  # as readers for which a backslash does not end the host
)
_BARE_AUTHORITY = re.compile(r"^([^\s/\\?#:]+(?::[0-9]*)?)([/\\][^\s?#]*)?")
_SCHEMED = re.compile(
    r"(?<![a-z0-9+.-])(?!file:)[a-z][a-z0-9+.-]++:(?:[/\\]{2,}|(?<=https:)[/\\]?|(?<=http:)[/\\]?)([^\s/\\?#'\"<>|;,&()]*)"
)
_PUT_IN = re.compile(r"[$`{*]")
_ADDRESSES = re.compile(r"\[?(?=[^0-9]*[0-9])(?=[^.:]*[.:])[0-9a-fx.:*]*\]?")
_PARAMETERS = re.compile(r";[^/]*")
_SLASHES = re.compile(r"^/+")
_PORT = re.compile(r":([0-9]*)$")
_COMMENT = re.compile(r"\([^()]{0,256}\)")
_MAIL = re.compile(r"[^\s<>(),;:\[\]/?&=@]+@\[?[^\s<>(),;:\[\]/?&=@]+")


def mapped(text: str) -> str:
    """The text with the characters that IDNA maps replaced; IDNA knows some that this Python's Unicode lacks."""
    return text if text.isascii() else "".join(map(_mapped, text))


def host_of(label: str) -> str:
    """A host in canonical letters: folded, `xn--` decoded, without trailing dots."""
    said = skeleton(label).strip(".")
    if "xn--" in said:
        said = ".".join(map(_decoded, said.split(".")))
    return said


def canonical(host: str) -> str:
    """A host as a canonical address if it is one; else as `host_of` returns it."""
    said = host_of(host)
    long = _long(said.strip("[]"))
    return _address(said) or said if long is None else _embedded(long) or str(long)


def is_of_addresses(glob: str) -> bool:
    """Whether a lower-case glob is about addresses: `10.*`, `fd00:*`, `::1`, `0x7f000001`."""
    return _ADDRESSES.fullmatch(glob) is not None or (_NUMERIC.fullmatch(glob) is not None and _may_stand_alone(glob))


def spelled(text: str) -> Iterator[str]:
    """Readings of a lower-case text with canonical addresses; the second one also replaces IPv4 within IPv6."""
    whole = _NUMERIC.fullmatch(text.strip()) is not None
    for other in (False, True):

        def short(found: re.Match[str], *, decimal: bool = other) -> str:
            placed = whole or _AT_HOST.search(text, max(0, found.start() - 2), found.start()) is not None
            return (_address(found[0], decimal=decimal) if placed or _may_stand_alone(found[0]) else None) or found[0]

        def long(found: re.Match[str], *, inner: bool = other) -> str:
            address = _long(found[2])
            if address is None:
                return found[0]
            return (inner and _embedded(address)) or f"{found[1]}{address}{found[4]}"

        reading = _NUMBERS.sub(short, text)
        yield _LONG.sub(long, reading) if text.count(":") > 1 else reading


def hosts(text: str) -> Iterator[str]:
    """Possible hosts in a lower-case text: names with letters of any script, and canonical addresses."""
    for token in dict.fromkeys((*_TOKENS.findall(text), *_TOKENS.findall(_BREAKS.sub("", text)))):
        for said in (token, token[2:]) if _OPTION.match(token) else (token,):
            if host := host_of(said):
                yield from _same(canonical(said) if _may_stand_alone(host) else host)
                yield host
        if token.startswith("."):
            yield f".{host_of(token)}"  # a host below it, whose label has an illegal character
    if text.count(":") > 1:
        for found in _LONG.finditer(text):
            if (address := _long(found[2])) is not None:
                yield from _same(str(address))


def urls(text: str) -> Iterator[str]:
    """Possible URLs in a text: each as its host and path, with and without a port, and without scheme, user and query."""
    for said in dict.fromkeys((text, _BREAKS.sub("", text))):
        found = [one for expression in _AUTHORITIES for one in expression.findall(said)]
        for authority, path in (*found, *_BARE_AUTHORITY.findall(said.strip())):
            name, ports = _placed(authority)
            spellings = dict.fromkeys((path, _PARAMETERS.sub("", path)))
            places = {_SLASHES.sub("/", posixpath.normpath(one.replace("\\", "/"))) if one else "" for one in spellings}
            for host in dict.fromkeys((host_of(name), *_same(canonical(name)))):
                for at in ("", *ports):
                    yield from (host + at + one for one in places)


def authorities(text: str) -> Iterator[str]:
    """The hosts of certain URLs in a text, which may be single words: with and without a port."""
    for authority in _SCHEMED.findall(text) if ":" in text else ():
        name, ports = _placed(authority)
        for host in dict.fromkeys((host_of(name), *_same(canonical(name)))):
            yield from (host, *(host + port for port in ports))


def _placed(authority: str) -> tuple[str, tuple[str, ...]]:
    """The host of a URL, and its port; two default ports if it has none."""
    place = authority.rpartition("@")[2]
    port = _PORT.search(place)
    return _PORT.sub("", place), (port_of(port[1]),) if port and port[1] else (":80", ":443")


def port_of(digits: str) -> str:
    """A port in canonical form, after its colon."""
    return f":{digits.lstrip('0') or '0'}"


def mails(text: str) -> Iterator[str]:
    """Possible mail addresses in a text, each with its canonical host."""
    if "@" in text:
        for token in _MAIL.findall(_COMMENT.sub("", text).replace('"', "")):
            local, _, host = token.rpartition("@")
            yield f"{local}@{canonical(host)}"


def is_unclear(text: str) -> bool:
    """Whether a URL in a lower-case text has an unknown host: one that is substituted later, or that no resolver reads."""
    return any(map(_is_unclear, _SCHEMED.findall(text)))


def _is_unclear(authority: str) -> bool:
    place = authority.rpartition("@")[2]
    if _PUT_IN.search(authority):
        return True
    if place.startswith("["):
        return _long(place[1:].partition("]")[0].partition("%")[0]) is None
    host = _PORT.sub("", place).rstrip(".")
    return ends_in_number(host) and _address(host) is None and _address(host, decimal=True) is None


def _same(host: str) -> Iterator[str]:
    """The host, and the other names of this machine if it is one of them."""
    yield host
    local = host.strip("[]")
    loopback = local.startswith("127.") and _address(local) == local
    if loopback or local in _LOCAL or local.endswith(".localhost") or local in {"0.0.0.0", "::", "::1"}:  # noqa: S104
        yield from ("localhost", "127.0.0.1", "::1", "[::1]")


def _may_stand_alone(host: str) -> bool:
    """Whether a host is an address wherever it stands; a small number is one only where a host is expected."""
    return "." in host or host.startswith("0x") or (_address(host) or "0.").partition(".")[0] != "0"


def _address(host: str, *, decimal: bool = False) -> str | None:
    """The IPv4 address that a system reads from numbers such as `0x7f.1`; with `decimal`, a leading 0 does not mean base 8."""
    if not _NUMERIC.fullmatch(host):
        return None
    parts = []
    for said in host.removesuffix(".").split("."):
        digits = said.removeprefix("0x").lstrip("0") or "0"
        base = 16 if said.startswith("0x") else 8 if said.startswith("0") and not decimal else 10
        if len(digits) > _MOST_DIGITS or (base == 8 and not set(digits) <= set("01234567")):  # noqa: PLR2004 - octal
            return None
        parts.append(int(digits, base))
    *first, last = parts
    if any(part > 255 for part in first) or last >= 256 ** (4 - len(first)):  # noqa: PLR2004 - a byte
        return None
    return str(ipaddress.IPv4Address(last + sum(part << (8 * (3 - place)) for place, part in enumerate(first))))


def _long(text: str) -> ipaddress.IPv6Address | None:
    return _parsed(text) if ":" in text and len(text) <= _LONGEST else None


@lru_cache(maxsize=4096)
def _parsed(text: str) -> ipaddress.IPv6Address | None:
    try:
        return ipaddress.IPv6Address(text)
    except ValueError:
        return None


def _embedded(long: ipaddress.IPv6Address) -> str | None:
    """The IPv4 address that a system or gateway reaches under an IPv6 address; None if there is none."""
    number = int(long)
    if number <= 1:
        return None  # `::` and `::1`
    if long in _TEREDO:
        return str(ipaddress.IPv4Address(~number & 0xFFFFFFFF))
    if _ISATAP.fullmatch(f"{number >> 32 & 0xFFFFFFFF:08x}"):
        return str(ipaddress.IPv4Address(number & 0xFFFFFFFF))
    shift = next((shift for network, shift in _EMBEDDING if long in network), None)
    return None if shift is None else str(ipaddress.IPv4Address(number >> shift & 0xFFFFFFFF))


@lru_cache(maxsize=8192)
def _mapped(char: str) -> str:
    try:
        return idna.uts46_remap(char, std3_rules=False)
    except idna.IDNAError:
        return char


def _decoded(label: str) -> str:
    if not label.startswith("xn--"):
        return label
    try:
        return skeleton(label[4:].encode("ascii").decode("punycode"))
    except (UnicodeError, OverflowError, ValueError):
        return label
