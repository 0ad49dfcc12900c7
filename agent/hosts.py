"""Hosts as those who resolve them read them: an address has one form, a name has letters, and what has neither is unclear.

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
"""How many characters an address of IPv6 has at most: six groups, and IPv4."""
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
    re.compile(r"(?:(?<=:)|(?<![^\s'\"(<=]))//([^\s/?#\\]*+\\[^\s/?#]*)([^\s?#]*)"),  # to whom a backslash ends no host
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
    """The text with the characters for which IDNA has others: it knows some that this Python's Unicode does not have yet."""
    return text if text.isascii() else "".join(map(_mapped, text))


def host_of(label: str) -> str:
    """A host as its owner reads it: folded, `xn--` decoded, without dots at its end."""
    said = skeleton(label).strip(".")
    if "xn--" in said:
        said = ".".join(map(_decoded, said.split(".")))
    return said


def canonical(host: str) -> str:
    """A host in the form of the address that it is, if it is one; else as `host_of` has it."""
    said = host_of(host)
    long = _long(said.strip("[]"))
    return _address(said) or said if long is None else _embedded(long) or str(long)


def is_of_addresses(glob: str) -> bool:
    """Whether a glob in small letters is about addresses: `10.*`, `fd00:*`, `::1`, `0x7f000001`."""
    return _ADDRESSES.fullmatch(glob) is not None or (_NUMERIC.fullmatch(glob) is not None and _may_stand_alone(glob))


def spelled(text: str) -> Iterator[str]:
    """The readings of a text in small letters in which each address has its usual form; then IPv4 within IPv6 its own, too."""
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
    """What may be hosts in a text in small letters: names with letters of any script, addresses in their usual form."""
    for token in dict.fromkeys((*_TOKENS.findall(text), *_TOKENS.findall(_BREAKS.sub("", text)))):
        for said in (token, token[2:]) if _OPTION.match(token) else (token,):
            if host := host_of(said):
                yield from _same(canonical(said) if _may_stand_alone(host) else host)
                yield host
        if token.startswith("."):
            yield f".{host_of(token)}"  # below it, by a label that has a character which no host should have
    if text.count(":") > 1:
        for found in _LONG.finditer(text):
            if (address := _long(found[2])) is not None:
                yield from _same(str(address))


def urls(text: str) -> Iterator[str]:
    """What may be URLs in a text: each as its host and its path, with a port and without it; no scheme, user and query."""
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
    """The hosts of what are surely URLs in a text, which may have names of one word: with a port and without."""
    for authority in _SCHEMED.findall(text) if ":" in text else ():
        name, ports = _placed(authority)
        for host in dict.fromkeys((host_of(name), *_same(canonical(name)))):
            yield from (host, *(host + port for port in ports))


def _placed(authority: str) -> tuple[str, tuple[str, ...]]:
    """The host of a URL, and its port; two where it has none."""
    place = authority.rpartition("@")[2]
    port = _PORT.search(place)
    return _PORT.sub("", place), (port_of(port[1]),) if port and port[1] else (":80", ":443")


def port_of(digits: str) -> str:
    """A port in its usual form, after its colon."""
    return f":{digits.lstrip('0') or '0'}"


def mails(text: str) -> Iterator[str]:
    """What may be addresses of mail in a text: each with its host as `host_of` has it."""
    if "@" in text:
        for token in _MAIL.findall(_COMMENT.sub("", text).replace('"', "")):
            local, _, host = token.rpartition("@")
            yield f"{local}@{canonical(host)}"


def is_unclear(text: str) -> bool:
    """Whether a URL in a text in small letters has a host that may be any: one that is put in later, or that none can read."""
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
    """The host, and what else the machine itself is called where it is that."""
    yield host
    local = host.strip("[]")
    if local in _LOCAL or local.endswith(".localhost") or local in {"0.0.0.0", "::", "::1"} or _is_loopback(local):  # noqa: S104
        yield from ("localhost", "127.0.0.1", "::1", "[::1]")


def _may_stand_alone(host: str) -> bool:
    """Whether a host is an address wherever it stands: small numbers are, only where a host is expected."""
    return "." in host or host.startswith("0x") or (_address(host) or "0.").partition(".")[0] != "0"


def _is_loopback(host: str) -> bool:
    return host.startswith("127.") and _address(host) == host


def _address(host: str, *, decimal: bool = False) -> str | None:
    """The IPv4 address that a system takes numbers for: `127.0.0.1` for `2130706433`, `0x7f.1` and `0177.0.0.1`.

    With `decimal` a number that begins with a zero is none of base 8.
    """
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
    """The IPv4 address that a system, or a gateway on the way, reaches under one of IPv6; None if there is none."""
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
