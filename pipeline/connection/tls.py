"""Certificates that a profile, or Dask's own settings, name: read here, before anybody is asked to connect."""

from __future__ import annotations

import ssl
from typing import Any

from pipeline.connection.profile import Profile, ProfileError, check_connection, shown

MAKE = "`labelgrove certificates FOLDER` makes them; name them in --profile or in Dask's settings"


def security_of(profile: Profile) -> Any:
    """Certificates for a tls:// scheduler, None for others.

    What the profile does not name comes from Dask's own settings, as inside a cluster.
    Raises ProfileError for what is no address, when nobody names any, and for files that are no certificates or keys or
    do not belong together; InsecureScheduler.
    """
    check_connection(profile)
    if not profile.encrypted:
        return None
    from distributed.security import Security

    given = {"tls_ca_file": profile.tls_ca, "tls_client_cert": profile.tls_cert, "tls_client_key": profile.tls_key}
    security = Security(require_encryption=True, **{name: path for name, path in given.items() if path})
    if not (security.tls_ca_file and security.tls_client_cert):
        raise ProfileError("a tls:// scheduler needs tls_ca, tls_cert and tls_key", shown(profile.scheduler), MAKE)
    check_certificates(security.tls_ca_file, security.tls_client_cert, security.tls_client_key)
    try:
        security.get_connection_args("client")  # what Dask makes of them, and of its other settings of TLS
    except (OSError, ValueError) as error:
        raise ProfileError(f"Dask's settings of TLS cannot be used: {error}", "tls", MAKE) from None
    return security


def check_certificates(ca: str, cert: str, key: str | None) -> None:
    """Raises ProfileError, which names the file at fault. Texts in the place of files, as Dask takes them, are left."""
    if not _is_text(ca):
        _load_authority("tls_ca", ca)
    if _is_text(cert) or _is_text(key or ""):
        return
    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_cert_chain(cert, key, password=_refuse_password)
    except OSError as error:  # of TLS, too
        _load_authority("tls_cert", cert)
        what = f"tls_key = {shown(repr(key or cert))} cannot be used: {why(error)}"
        if getattr(error, "reason", None) == "KEY_VALUES_MISMATCH":
            what = f"tls_key = {shown(repr(key or cert))} is not the key of tls_cert = {shown(repr(cert))}"
        raise ProfileError(what, "tls_key", MAKE) from None


def _load_authority(name: str, path: str) -> None:
    """Raises ProfileError when a file holds no certificate. Any certificate may stand for an authority here."""
    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(path)
    except OSError as error:
        raise ProfileError(f"{name} = {shown(repr(path))} cannot be used: {why(error)}", name, MAKE) from None


def _refuse_password() -> str:
    """Nobody could type it on a worker, and a run must not wait for it."""
    raise ProfileError(
        "tls_key is locked by a password", "tls_key", "Dask takes keys without one: `openssl pkey -in KEY -out OPEN`"
    )


def why(error: OSError) -> str:
    """Of a file that cannot be loaded, in words."""
    if not isinstance(error, ssl.SSLError):
        return error.strerror or type(error).__name__
    if error.reason in (None, "NO_CERTIFICATE_OR_CRL_FOUND", "PEM_LIB", "NO_START_LINE"):
        return "it is not of the form of PEM, or holds something else"
    return str(error.reason).replace("_", " ").lower()


def _is_text(value: str) -> bool:
    """Whether Dask takes this for what stands in a file, not for its path."""
    return "\n" in value
