"""The addresses that a request to the outside may connect to: a name is looked up once, and all that it leads to is checked."""

import socket
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

from holdfast.agent.hosts import canonical
from holdfast.daemon import in_daemon

_PRIVATE = tuple(map(IPv4Network, ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "127.0.0.0/8", "100.64.0.0/10")))
_PRIVATE_6 = tuple(map(IPv6Network, ("fc00::/7", "::1/128")))
_METADATA = frozenset(map(ip_address, ("100.100.100.200", "168.63.129.16", "fd00:ec2::254", "fd20:ce::254")))
"""The metadata services of clouds whose addresses are not link-local; they give credentials to whoever asks."""
_GLOBAL_6 = IPv6Network("2000::/3")
_RESERVED = tuple(map(IPv4Network, ("192.0.0.0/24", "192.88.99.0/24")))
_RESERVED_6 = tuple(map(IPv6Network, ("2001::/23", "2001:db8::/32", "3fff::/20")))
"""Networks of special purpose that some releases of Python count as global."""
_WRAPPING = tuple(map(IPv6Network, ("::ffff:0:0/96", "64:ff9b::/96")))
"""The IPv6 addresses that stand for the IPv4 address within them: mapped ones, and those of a network with NAT64."""


class Refused(Exception):
    """The request is not made, and would not be made later. The message says why, and has no secrets."""


@dataclass(frozen=True, slots=True)
class Place:
    """An address that a connection may be made to."""

    family: int
    address: str


async def looked_up(host: str, port: int, *, allow_private: bool) -> list[Place]:
    """What a host leads to now. A host with any address that is not permitted is refused.

    Raises:
        Refused: The host is no name, or leads to an address that no request may be made to.
        OSError: The host cannot be looked up now.
    """
    try:
        found = await in_daemon(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
    except UnicodeError:
        raise Refused(f"{host!r:.80} is no name of a host") from None
    places = [Place(family, str(address[0])) for family, _, _, _, address in found]
    for place in places:
        if not is_permitted(place.address, allow_private=allow_private):
            if is_permitted(place.address, allow_private=True):
                raise Refused(f"{host:.80} leads to {place.address}, a private address, which only allow_private=True permits")
            raise Refused(f"{host:.80} leads to {place.address}, which no notification may be sent to")
    return places


def is_permitted(address: str, *, allow_private: bool) -> bool:
    """Whether a request may be made to an address: to a public one, and with `allow_private` to one of a private network.

    Never to a link-local, multicast, reserved or unspecified one, nor to the metadata service of a cloud.
    """
    try:
        found = ip_address(address)
    except ValueError:
        return False
    if isinstance(found, IPv6Address):
        found = IPv6Address(int(found))  # without its zone
        inner = canonical(str(found))
        if ":" not in inner:
            wraps = any(found in network for network in _WRAPPING)
            return wraps and _permits(IPv4Address(inner), allow_private=allow_private)
    return _permits(found, allow_private=allow_private)


def _permits(address: IPv4Address | IPv6Address, *, allow_private: bool) -> bool:
    if address in _METADATA:
        return False
    four = isinstance(address, IPv4Address)
    if any(address in network for network in (_PRIVATE if four else _PRIVATE_6)):
        return allow_private
    if any(address in network for network in (_RESERVED if four else _RESERVED_6)):
        return False
    return address.is_global and not (address.is_multicast or address.is_reserved) and (four or address in _GLOBAL_6)
