"""Rules about hosts see each form of an address or a name that a resolver or a client takes for it. These are the oracle."""

import contextlib
import ipaddress
import random
import socket
import unicodedata
from functools import cache
from urllib.parse import urlsplit

import httpx
import idna
import pytest
import yarl
from verdicts import denies, effect

from holdfast.agent.hosts import canonical
from holdfast.agent.rule import RuleEffect
from holdfast.agent.rules import Rules

SEED, FORMS = 61, 160
DENIED = ipaddress.IPv4Address("169.254.10.7")
RULES = [
    *("169.254.10.7", "169.254.*", "169.254.10.*", "*169.254.10.7*", "0xa9fe0a07", "::ffff:169.254.10.7", "2002:a9fe:a07::"),
    *(
        "http://169.254.10.7/**",
        "http://169.254.10.7:8080/**",
        "http://169.254.10.7",
        "http://169.254.*",
        "*://169.254.10.7*/**",
    ),
]
EMBEDDED = [
    "::ffff:{}",
    "::{}",
    "64:ff9b::{}",
    "0:0:0:0:0:ffff:{}",
    "::FFFF:{}",
    "::ffff:0:{}",
    "64:ff9b:1::{}",
    "fe80::5efe:{}",
]
NAT64 = [ipaddress.IPv6Network(one) for one in ("64:ff9b::/96", "64:ff9b:1::/48", "::/96", "::ffff:0:0:0/96")]


# -- the oracle -------------------------------------------------------------------------------------------------------------


def resolved(host):
    """The addresses that a system takes a host for, without a network; none if it is a name."""
    found = set()
    for said in dict.fromkeys((host, host.rstrip("."))):
        with contextlib.suppress(OSError, UnicodeError, ValueError):
            found.add(socket.inet_ntoa(socket.inet_aton(said)))
        with contextlib.suppress(OSError, UnicodeError, ValueError):
            found |= {one[4][0] for one in socket.getaddrinfo(said, None, flags=socket.AI_NUMERICHOST)}
    return {address for one in found for address in reached(one.partition("%")[0])}


def reached(address):
    """The address, and those of IPv4 that a system or a gateway makes of it."""
    yield address
    if ":" in address:
        long = ipaddress.IPv6Address(address)
        teredo = long.teredo[1] if long.teredo else None
        inner = ipaddress.IPv4Address(int(long) & 0xFFFFFFFF) if any(long in one for one in NAT64) else None
        isatap = inner_of(long) if int(long) >> 32 & 0xFFFFFFFF == 0x5EFE else None
        yield from (str(one) for one in (long.ipv4_mapped, long.sixtofour, teredo, inner, isatap) if one)


def inner_of(long):
    return ipaddress.IPv4Address(int(long) & 0xFFFFFFFF)


def hosts_of(url):
    """The hosts that clients go to."""
    for parse in (lambda: urlsplit(url).hostname, lambda: httpx.URL(url).host, lambda: yarl.URL(url).host):
        with contextlib.suppress(Exception):  # a client that does not take it goes nowhere
            host = parse()
            if host:
                yield host
                yield host.encode("idna").decode()
                yield idna.encode(host, uts46=True).decode()


# -- forms ------------------------------------------------------------------------------------------------------------------


def part(draw, number):
    zeros = "0" * draw.choice((0, 0, 1, 9))
    return draw.choice((str(number), f"0{zeros}{number:o}", f"0x{zeros}{number:x}", f"0X{zeros}{number:X}"))


def short(draw):
    """The address in one to four numbers of any base."""
    octets, count = DENIED.packed, draw.randint(1, 4)
    last = int.from_bytes(octets[count - 1 :])
    return ".".join([*(part(draw, one) for one in octets[: count - 1]), part(draw, last)])


def long(draw):
    """The address within one of IPv6."""
    number = int(DENIED)
    said = draw.choice((str(DENIED), f"{number >> 16:x}:{number & 0xFFFF:x}"))
    found = draw.choice([*(one.format(said) for one in EMBEDDED), f"2002:{number >> 16:x}:{number & 0xFFFF:x}::1"])
    if draw.random() < 0.2:
        found = f"2001:0:1234::{~number >> 16 & 0xFFFF:x}:{~number & 0xFFFF:x}"
    zone = draw.choice(("", "", "%eth0", "%25eth0"))
    return f"[{draw.choice((found, found.upper(), ipaddress.IPv6Address(found).exploded))}{zone}]"


def disguised(draw, host):
    """The host with characters that a client puts others for."""
    wide = {chr(one): chr(one + 0xFEE0) for one in range(0x21, 0x7F)} | {".": draw.choice("\u3002\uff0e\uff61")}
    match draw.randint(0, 4):
        case 0:
            return "".join(f"%{ord(one):02x}" if draw.random() < 0.4 else one for one in host)
        case 1 if "[" not in host:
            return "".join(wide[one] if draw.random() < 0.4 else one for one in host)
        case 2:
            return host + draw.choice((".", "", "\u3002")) * ("[" not in host)
        case _:
            return host


def made(draw):
    """A URL at the address."""
    host = disguised(draw, draw.choice((short, short, long))(draw))
    scheme = draw.choice(("http://", "HTTP://", "http:/", "http:\\\\", "//", "http:///", "https://"))
    user = draw.choice(("", "", "u:p@", "good.com@", "good.com\\@", "a%40b@"))
    return f"{scheme}{user}{host}:8080{draw.choice(('', '/', '/a/../b', '?x=1', '#y'))}"


def confirmed():
    """Forms that some client or system takes for the address."""
    draw = random.Random(SEED)  # noqa: S311 - a seed that repeats
    found = []
    while len(found) < FORMS:
        url = made(draw)
        if any(str(DENIED) in resolved(host.strip("[]")) for host in hosts_of(url)):
            found.append(url)
    return found


CONFIRMED = confirmed()


@pytest.mark.parametrize("rule", RULES)
def test_a_deny_of_an_address_sees_each_form_that_a_client_takes_for_it(rule):
    rules = Rules(deny=[f"Fetch({rule})"])
    assert [url for url in CONFIRMED if effect(rules, "Fetch", url) is not RuleEffect.DENY] == []


def test_regular_expressions_commands_and_plain_comparisons_see_the_address_too():
    draw = random.Random(SEED)  # noqa: S311 - as above
    hosts = [one for one in (draw.choice((short, long))(draw) for _ in range(60)) if "%" not in one]
    assert all(str(DENIED) in resolved(host.strip("[]")) for host in hosts)
    for host in hosts:
        url = f"http://{host}/a"
        assert denies(r'Fetch(text =~ "^http://169\\.254\\.10\\.7/")'.replace("\\\\", "\\"), "Fetch", url), url
        assert denies('Fetch(text = "http://169.254.10.7/a")', "Fetch", url), url
        assert denies('Fetch(text = "169.254.10.7")', "Fetch", host.strip("[]")), host
        assert denies("Bash(curl http://169.254.10.7/*)", "Bash", f"true; curl {url}"), url
        assert denies("Bash(169.254.10.7)", "Bash", f"mysql -h{host.strip('[]')} x"), host


@pytest.mark.parametrize("host", ["localhost", "a.localhost", "0", "127.1", "0x7f000001", "[::1]", "[::]", "127.9.9.9"])
@pytest.mark.parametrize("rule", ["localhost", "127.0.0.1", "http://127.0.0.1/**", "http://localhost/**", "::1"])
def test_the_machine_itself_has_several_names(rule, host):
    assert denies(f"Fetch({rule})", "Fetch", f"http://{host}/x")


@pytest.mark.parametrize(
    "url",
    [
        *(
            "http://$HOST/",
            "https://`echo evil.com`/x",
            "https://{host}/v1",
            "http://1.2.3.4.5/",
            "http://0x1g.256/",
            "http://[::g]/",
        ),
        *("http://4294967296/", "http://256.1.1.1/", "https://a.$TLD/", "ws://*/", "http:$X"),
    ],
)
@pytest.mark.parametrize("rule", ["169.254.10.7", "*.evil.com", "https://x.com/**", "10.*"])
def test_a_url_whose_host_cannot_be_told_is_denied_where_any_host_is(rule, url):
    assert denies(f"Fetch({rule})", "Fetch", url)
    assert not denies("Fetch(secret-*)", "Fetch", url)


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        *(
            ("127.0.0.1", text)
            for text in ("sleep 0", "pip install x==1.2.3", "http://10.0.0.1/", "12:30:45", "std::vector<a>")
        ),
        *(("10.*", text) for text in ("x.com", "http://x.com:10/", "wait 10", "1.10.0.0", "http://110.1.1.1")),
        ("*.evil.com", "curl https://good.com/$X -o /tmp/$Y"),
        ("http://x.com:8080/**", "http://x.com/a"),
        ("http://x.com:8080/**", "http://x.com:80/a"),
        (r"fd00\:*", "http://[fe80::1]/"),
    ],
)
def test_a_deny_of_a_host_leaves_other_texts_alone(rule, text):
    assert not denies(f"Fetch({rule})", "Fetch", text)


@pytest.mark.parametrize(
    ("rule", "url"),
    [
        ("http://x.com:8080/**", "http://x.com:8080/a"),
        ("http://x.com:80/**", "http://x.com/a"),
        ("https://*.x.com:443/**", "https://a.x.com/a"),
        (r"fd00\:*", "http://[FD00:0:0::1]:80/"),
        ("2001:db8::1", "http://[2001:0db8:0:0::0001]/"),
        (r"http://\[2001:DB8:0::1\]/**", "http://[2001:db8::1]:8080/a"),
    ],
)
def test_ports_and_addresses_of_a_rule_are_compared_in_their_usual_form(rule, url):
    assert denies(f"Fetch({rule})", "Fetch", url)


@pytest.mark.parametrize(
    ("rule", "url"),
    [
        *(
            ("*.internal", "http://a.internal/x"),
            ("intranet", "curl http://u@INTRANET:80/x"),
            ("*evil.com", "http://a.evil.com/x"),
        ),
        *(("evil.*", "https://evil.org/"), ("evil.com.", "http://evil.com/"), ("*.x.com.", "http://a.x.com/")),
        *(("x.com:8080", "http://x.com:8080/a"), ("*.x.com:8080", "http://a.x.com:8080/"), ("x.com:80", "http://x.com./a")),
        *(
            ("evil.com/**", "https://u@evil.com:443/a"),
            ("//evil.com/a/*", "https://EVIL.com/a/b"),
            ("*.x.com/**", "ws://a.x.com./b"),
        ),
        ("http://x.com:0080/**", "http://x.com/a"),
    ],
)
def test_a_rule_about_hosts_may_be_written_in_several_ways(rule, url):
    assert denies(f"Fetch({rule})", "Fetch", url)


@pytest.mark.parametrize(
    ("rule", "url"),
    [
        *(
            ("*.internal", "http://x.com/a.internal.html"),
            ("evil.*", "http://devil.com/"),
        ),
        *(("x.com:8080", "http://x.com/a"), ("src/**", "https://x.com/a")),
    ],
)
def test_a_rule_about_other_hosts_leaves_a_url_alone(rule, url):
    assert not denies(f"Fetch({rule})", "Fetch", url)


# -- names ------------------------------------------------------------------------------------------------------------------

NAMES = ["a.evil.com", "www.b\u00fccher.de", "stra\u00dfe.example", "\u65e5\u672c.jp", "\u03c3\u03b1.gr"]


@cache
def lookalikes():
    """For each character that hosts have, those that some client puts it for."""
    found = {}
    for code in range(0x80, 0x20000):
        char = chr(code)
        with contextlib.suppress(Exception):  # what it does not take is no form of a host
            found.setdefault(idna.uts46_remap(char, std3_rules=False), []).append(char)
        found.setdefault(unicodedata.normalize("NFKC", char).lower(), []).append(char)
    return found


def written(draw, name, alike):
    found = ""
    for char in name:
        others = alike.get(char, [])
        found += draw.choice(others) if others and draw.random() < 0.4 else draw.choice((char, char.upper()))
        found += draw.choice(("", "", "", "", "\u00ad", "\u200b"))
    return unicodedata.normalize(draw.choice(("NFC", "NFD")), found)


def ascii_of(name):
    """The forms in which clients ask the resolver for a name."""
    for encode in (
        lambda: idna.encode(name, uts46=True).decode(),
        lambda: name.encode("idna").decode(),
        lambda: str(httpx.URL(f"http://{name}/").raw_host, "ascii"),
        lambda: yarl.URL(f"http://{name}/").raw_host,
    ):
        with contextlib.suppress(Exception):  # a client that does not take it asks for nothing
            yield encode().lower()


@pytest.mark.parametrize("name", NAMES)
def test_a_deny_of_a_name_sees_each_form_that_a_client_makes_it_of(name):
    draw, alike = random.Random(SEED), lookalikes()  # noqa: S311 - as above
    wanted = set(ascii_of(name))
    forms = [form for form in (written(draw, name, alike) for _ in range(120)) if wanted & set(ascii_of(form))]
    assert len(forms) > 20
    for said in {name, *wanted}:
        below = "*." + said.partition(".")[2]
        for pattern in (said, f"https://{said}/**", *((below, f"https://{below}/**") if below.count(".") > 1 else ())):
            rule = Rules(deny=[f"Fetch({pattern})"])
            assert [ascii(one) for one in forms if effect(rule, "Fetch", f"https://{one}/a") is not RuleEffect.DENY] == []
    for one in wanted:
        assert canonical(one) == canonical(name) or "\u00df" in name


@pytest.mark.parametrize(
    "said",
    [
        *("a@evil.com", "A@EVIL.COM", "Ana <a@evil.com>", '"a"@evil.com', "b@good.com, a@evil.com", "mailto:a@evil.com?x=1"),
        *(
            "a@evil.com.",
            "a@xn--evl-khd.com",
            "a@ev\u0456l.com",
            "a(x)@evil.com",
            "a@(x)evil.com",
            "a%40evil.com",
            "\uff41@evil\u3002com",
        ),
    ],
)
def test_a_deny_of_addresses_of_mail_sees_each_form_of_them(said):
    for rule in ('Mail(to ~ "*@evil.com")', 'Mail(to ~ "a@evil.com")', 'Mail(to ~ "a@*.com")', 'Mail(to = "a@evil.com")'):
        assert denies(rule, "Mail", to=[said]), rule


@pytest.mark.parametrize("said", ["a@good.com", "evil.com@good.com", "a@notevil.com", "a@evil.com.good.com"])
def test_a_deny_of_addresses_of_mail_leaves_others_alone(said):
    assert not denies('Mail(to ~ "*@evil.com")', "Mail", to=said)
