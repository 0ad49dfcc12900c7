"""Which addresses a notification may be sent to: public ones; private ones if that is said; never those in between."""

import ipaddress
import socket
from ipaddress import IPv6Address, IPv6Network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.actors.worker.notify import addresses
from holdfast.actors.worker.notify.addresses import Place, Refused, is_permitted, looked_up

PUBLIC = ["93.184.216.34", "1.1.1.1", "2606:4700:4700::1111", "2a00:1450:4001:82a::200e", "::ffff:1.1.1.1", "64:ff9b::101:101"]
PRIVATE = [
    *("10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "127.0.0.1", "127.255.255.254", "100.64.0.1"),
    *("fc00::1", "fd12:3456::1", "::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::a00:1", "64:ff9b::7f00:1"),
]
NEVER = [
    *(
        "169.254.169.254",
        "169.254.170.2",
        "fe80::1",
        "fe80::1%eth0",
        "fd00:ec2::254",
        "fd00:ec2::254%eth0",
        "fd20:ce::254",
        "100.100.100.200",
    ),
    *("168.63.129.16", "192.0.0.192", "0.0.0.0", "0.1.2.3", "255.255.255.255", "224.0.0.1", "224.0.1.1", "239.1.1.1"),  # noqa: S104
    *("240.0.0.1", "192.0.2.1", "198.51.100.1", "203.0.113.1", "198.18.0.1", "192.88.99.1", "::", "ff02::1", "ff0e::1"),
    *("fec0::1", "2001:db8::1", "3fff::1", "100::1", "5f00::1", "2001::1", "2002:7f00:1::1", "2002:a00:1::", "2002:101:101::1"),
    *("::127.0.0.1", "::10.0.0.1", "64:ff9b:1::7f00:1", "2606:4700::5efe:7f00:1", "2606:4700::200:5efe:a00:1"),
    *("::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "::ffff:0:127.0.0.1", "::ffff:0.0.0.0", "::ffff:224.0.0.1"),
    *("", "localhost", "127.1", "0177.0.0.1", "2130706433", "0x7f000001", "1.1.1.1 ", "::ffff:168.63.129.16"),
]


@pytest.mark.parametrize("address", PUBLIC)
def test_a_public_address_is_permitted(address):
    assert is_permitted(address, allow_private=False)


@pytest.mark.parametrize("address", PRIVATE)
def test_a_private_address_is_permitted_if_that_is_said(address):
    assert not is_permitted(address, allow_private=False)
    assert is_permitted(address, allow_private=True)


@pytest.mark.parametrize("address", NEVER)
@pytest.mark.parametrize("allow_private", [True, False])
def test_what_is_neither_public_nor_of_a_private_network_is_never_permitted(address, allow_private):
    assert not is_permitted(address, allow_private=allow_private)


@given(st.ip_addresses(v=4))
def test_an_address_in_a_wrapping_is_permitted_as_it_is_by_itself(address):
    """Mapped, and through NAT64; every other way of writing it into an IPv6 address leads nowhere."""
    number = int(address)
    for allow_private in (True, False):
        alone = is_permitted(str(address), allow_private=allow_private)
        for prefix in ("::ffff:0:0", "64:ff9b::"):
            wrapped = str(IPv6Address(int(IPv6Address(prefix)) | number))
            assert is_permitted(wrapped, allow_private=allow_private) == alone
        for prefix, shift in (("::ffff:0:0:0", 0), ("64:ff9b:1::", 0), ("2002::", 80), ("2001::", 0)):
            wrapped = str(IPv6Address(int(IPv6Address(prefix)) | number << shift))
            assert not is_permitted(wrapped, allow_private=allow_private)


@given(st.ip_addresses())
def test_a_permitted_address_is_public_by_the_standard_librarys_word(address):
    """Which has other gaps than ours: both have to agree. What is private by neither is reached in no private network."""
    if is_permitted(str(address), allow_private=False):
        assert address.is_global
        assert not address.is_link_local
        assert not address.is_multicast
        assert is_permitted(str(address), allow_private=True)


@given(st.ip_addresses(v=6).map(int))
def test_only_global_unicast_is_public_in_ipv6(number):
    address = IPv6Address(number)
    wrapped = any(address in network for network in map(IPv6Network, ("::ffff:0:0/96", "64:ff9b::/96")))
    if is_permitted(str(address), allow_private=False) and not wrapped:
        assert address in IPv6Network("2000::/3")


@given(st.ip_addresses(v=4))
def test_only_the_canonical_form_is_an_address(address):
    """`inet_aton` reads others, and so would a resolver."""
    number = int(address)
    others = [str(number), hex(number), f"0{number:o}", ".".join(f"0{part:o}" for part in address.packed)]
    for text in others:
        if text != str(address):
            assert not is_permitted(text, allow_private=True)


def leads_to(monkeypatch, *found):
    asked = []

    def getaddrinfo(host, port, **_):
        asked.append(host)
        families = [socket.AF_INET6 if ":" in one else socket.AF_INET for one in found]
        return [(family, socket.SOCK_STREAM, 6, "", (one, port)) for family, one in zip(families, found, strict=True)]

    monkeypatch.setattr(addresses.socket, "getaddrinfo", getaddrinfo)
    return asked


async def test_what_a_name_leads_to_is_looked_up_once(monkeypatch):
    asked = leads_to(monkeypatch, "1.1.1.1", "2606:4700:4700::1111")
    places = await looked_up("example.com", 443, allow_private=False)
    assert places == [Place(socket.AF_INET, "1.1.1.1"), Place(socket.AF_INET6, "2606:4700:4700::1111")]
    assert asked == ["example.com"]


@pytest.mark.parametrize("private", ["127.0.0.1", "10.1.2.3", "::1", "::ffff:10.0.0.1"])
async def test_a_name_with_one_private_address_among_public_ones_is_refused(monkeypatch, private):
    leads_to(monkeypatch, "1.1.1.1", private)
    with pytest.raises(Refused, match="a private address, which only allow_private=True permits"):
        await looked_up("example.com", 443, allow_private=False)
    assert len(await looked_up("example.com", 443, allow_private=True)) == 2


async def test_the_metadata_service_of_a_cloud_is_refused_in_private_networks_as_well(monkeypatch):
    leads_to(monkeypatch, "10.0.0.1", "169.254.169.254")
    with pytest.raises(Refused, match=r"leads to 169\.254\.169\.254, which no notification may be sent to"):
        await looked_up("metadata.example", 80, allow_private=True)


async def test_what_is_no_name_is_refused():
    with pytest.raises(Refused, match="no name of a host"):
        await looked_up("a" * 64 + ".example", 443, allow_private=False)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "0177.0.0.1", "2130706433", "0x7f.1", "127.1"])
async def test_an_address_for_a_name_is_checked_in_every_form_that_a_resolver_reads(host):
    try:
        ipaddress.ip_address(host)
    except ValueError:
        if not socket.gethostbyname(host).startswith("127."):
            pytest.skip("this system's resolver does not read it")
    with pytest.raises(Refused, match="a private address"):
        await looked_up(host, 80, allow_private=False)
