"""The network that a connection or a request comes from; limits count by network."""

import ipaddress


def network_of(address: str) -> str:
    """The address itself; for IPv6 a subscriber's network (64 bits); `elsewhere` if the text is no address."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return "elsewhere"
    if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is None:
        return str(ipaddress.ip_network((found, 64), strict=False))
    return str(found)
