"""Addresses as people write them: what is wrong with one, told before anybody is asked to connect."""

from __future__ import annotations

import ipaddress
import re

SCHEDULER = "tcp://HOST:PORT or tls://HOST:PORT, as `dask scheduler` prints it"
DASHBOARD = 'HOST:PORT, for example "127.0.0.1:8787"; port 0 takes any that is free'
HIGHEST_PORT = 65535
NAME = re.compile(r"[^\s/@:\[\]?#]+")


def fault_of_scheduler(address: str) -> str:
    """What is wrong with the address of a scheduler, "" when nothing is."""
    protocol, _, place = address.partition("://")
    if protocol not in ("tcp", "tls"):
        return "it begins with neither tcp:// nor tls://"
    host, colon, port = place.rpartition(":")
    if is_ipv6(place) or is_ipv6(host):  # of `::1:8786` nobody can tell whether the end is a port; most often it is
        shown = f"[{host}]:{port}" if is_ipv6(host) else f"[{place}]:8786"
        return f"an IPv6 address stands in brackets: write {protocol}://{shown}"
    if not colon or place.endswith("]"):
        return "it names no port"
    return _fault_of_host(host) or _fault_of_port(port, least=1)


def fault_of_dashboard(address: str) -> str:
    """What is wrong with the address of a dashboard, "" when nothing is; no address at all means any port."""
    if not address:
        return ""
    host, _, port = address.rpartition(":")
    return (_fault_of_host(host) if host else "") or _fault_of_port(port, least=0)


def is_loopback(address: str) -> bool:
    """Whether tcp://HOST:PORT can only be this machine; a name other than localhost may be anything."""
    host, _ = host_and_port(address)
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def host_and_port(address: str) -> tuple[str, str]:
    """Of PROTOCOL://HOST:PORT, without the brackets of IPv6."""
    host, _, port = address.partition("://")[2].rpartition(":")
    return host.strip("[]"), port


def is_ipv6(text: str) -> bool:
    """Whether this is an IPv6 address, without brackets."""
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True


def _fault_of_host(host: str) -> str:
    if not host:
        return "it names no host"
    if host[0] == "[" and host[-1] == "]" and is_ipv6(host[1:-1]):
        return ""
    return "" if NAME.fullmatch(host) else "the host is neither a name nor an IP address"


def _fault_of_port(port: str, least: int) -> str:
    if re.fullmatch(r"[0-9]{1,5}", port) and least <= int(port) <= HIGHEST_PORT:
        return ""
    return f"the port is no number from {least} to {HIGHEST_PORT}"
