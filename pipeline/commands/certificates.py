"""certificates: what a cluster of one's own needs for TLS, in a folder: an authority, one pair, a profile.

Dask takes whoever shows a certificate of the authority for a part of the cluster, and does not look at names: the pair
is the password of the cluster. The authority's key is not kept, so nobody can make more of them.
"""

from __future__ import annotations

import datetime
import ipaddress
import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pipeline.ingest.place import scratch_beside
from pipeline.last_resort import put_line, say_line
from pipeline.outputs import OutputExists
from tasks.errors import ParamError
from tasks.files import disk_room

AUTHORITY, CERTIFICATE, KEY, PROFILE = "ca.pem", "cert.pem", "key.pem", "profile.toml"
ALWAYS = ("localhost", "127.0.0.1", "scheduler", "worker")  # this machine, and the names of the compose file
PORT = 8786
DAYS, MOST_DAYS = 365, 3650


def certificates(folder: Path, hosts: Sequence[str] = (), days: int = DAYS, force: bool = False) -> Path:
    """Make the folder, readable for its owner alone, or put a new set into it; returns the profile for --profile.

    hosts   names and addresses of more machines that the certificate names; the first one is the profile's scheduler
    days    until it expires

    Raises OutputExists unless forced, ParamError.
    """
    if not 1 <= days <= MOST_DAYS:
        raise ParamError("days", days, f"1 to {MOST_DAYS}", "a certificate must expire some day")
    files = [folder / name for name in (AUTHORITY, CERTIFICATE, KEY, PROFILE)]
    there = [path for path in files if path.exists()]
    if there and not force:
        hint = "use these; --force makes others: every part of the cluster must be started anew with them"
        raise OutputExists("there are certificates", str(there[0]), hint)
    authority, certificate, key = made([*hosts, *ALWAYS], days)
    address = f"tls://{bracketed(hosts[0]) if hosts else '127.0.0.1'}:{PORT}"
    profile = (
        f'scheduler = "{address}"\ntls_ca = "{AUTHORITY}"\ntls_cert = "{CERTIFICATE}"\ntls_key = "{KEY}"\n'.encode()
    )
    with disk_room(str(folder), 0):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with scratch_beside(folder / PROFILE) as scratch:
            for path, content in zip(files, (authority, certificate, key, profile), strict=True):
                write_private(scratch / path.name, content)
            for path in files:
                os.replace(scratch / path.name, path)
    say_line(f"certificates for {days} days: {folder}")
    put_line(f"labelgrove run CONFIG --profile {shlex.quote(str(folder / PROFILE))}")
    return folder / PROFILE


def write_private(path: Path, content: bytes) -> None:
    """A new file, for its owner alone from the first byte on."""
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def bracketed(host: str) -> str:
    """An address of IPv6 as it stands in a URL; anything else as it is."""
    return f"[{host}]" if ":" in host else host


def made(hosts: Sequence[str], days: int) -> tuple[bytes, bytes, bytes]:
    """(authority, certificate, key) as PEM: an authority and one pair for server and client. Raises ParamError."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID as Usage

    names = x509.SubjectAlternativeName([general_name(host) for host in dict.fromkeys(hosts)])
    authority_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    issuer, subject = named("labelgrove cluster authority"), named("labelgrove cluster")
    authority = _begun(issuer, issuer, authority_key.public_key(), authority_key.public_key(), days)
    authority = authority.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    authority = authority.add_extension(_usage(signs_certificates=True), critical=True)
    leaf = _begun(subject, issuer, key.public_key(), authority_key.public_key(), days)
    leaf = leaf.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    leaf = leaf.add_extension(_usage(signs_certificates=False), critical=True)
    leaf = leaf.add_extension(x509.ExtendedKeyUsage([Usage.SERVER_AUTH, Usage.CLIENT_AUTH]), critical=False)
    leaf = leaf.add_extension(names, critical=False)
    pem = serialization.Encoding.PEM
    secret = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    signed = [builder.sign(authority_key, hashes.SHA256()).public_bytes(pem) for builder in (authority, leaf)]
    return signed[0], signed[1], secret


def named(common_name: str) -> Any:
    """A distinguished name."""
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def general_name(host: str) -> Any:
    """A host as it stands in a certificate. Raises ParamError."""
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        pass
    if not host.isascii() or not all(part and part.strip("-*").replace("-", "").isalnum() for part in host.split(".")):
        why = "it stands in the certificate: write names such as node1.example in ASCII, addresses without a port"
        raise ParamError("host", host, "a host name or an address", why)
    return x509.DNSName(host)


def _begun(subject: Any, issuer: Any, public: Any, signer: Any, days: int) -> Any:
    """What authority and pair have in common; valid since yesterday, for clocks that are behind."""
    from cryptography import x509

    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer), critical=False)
    )


def _usage(signs_certificates: bool) -> Any:
    """What a key may be used for."""
    from cryptography import x509

    unused = ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement")
    never = dict.fromkeys((*unused, "encipher_only", "decipher_only"), False)
    sign = {"digital_signature": not signs_certificates, "key_cert_sign": signs_certificates}
    return x509.KeyUsage(**never, **sign, crl_sign=signs_certificates)
