"""From which network a connection or a request comes, where what comes from one place is counted together."""

import ipaddress


def network_of(address: str) -> str:
    """The address itself; of IPv6 the network of one subscriber (64 bits); `elsewhere` of what is no address."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return "elsewhere"
    if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is None:
        return str(ipaddress.ip_network((found, 64), strict=False))
    return str(found)
