"""Certificates of a cluster of one's own, and which schedulers may be reached how."""

from __future__ import annotations

import inspect
import json
import ssl
import stat
from pathlib import Path

import dask
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from pipeline.cli_cluster import certificates as command
from pipeline.commands.certificates import AUTHORITY, CERTIFICATE, KEY, PROFILE, certificates
from pipeline.connection.addresses import is_loopback
from pipeline.connection.profile import (
    InsecureScheduler,
    Profile,
    ProfileError,
    check_connection,
    load_profile,
)
from pipeline.connection.tls import check_certificates, security_of
from pipeline.outputs import OutputExists
from tasks.errors import ParamError


def test_the_folder_is_its_owners_alone_and_the_profile_takes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "c"
    found = certificates(folder)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert sorted(path.name for path in folder.iterdir()) == sorted([AUTHORITY, CERTIFICATE, KEY, PROFILE])
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
    assert str(found) in capsys.readouterr().out
    monkeypatch.chdir("/")
    profile = load_profile(str(found))  # its paths are relative to the profile
    assert (profile.scheduler, profile.encrypted) == ("tls://127.0.0.1:8786", True)
    assert (profile.tls_ca, profile.tls_key) == (str(folder / AUTHORITY), str(folder / KEY))
    assert load_profile(None, scheduler=str(found)) == profile


def test_both_ends_trust_each_other_and_names_are_in_the_certificate(tmp_path: Path) -> None:
    """The handshake of TLS, in memory, with the names checked although Dask does not."""
    certificates(tmp_path, ["node1.example", "10.0.0.5", "fd00::1"])
    assert load_profile(str(tmp_path / PROFILE)).scheduler == "tls://node1.example:8786"
    for host in ("node1.example", "10.0.0.5", "fd00::1", "localhost", "127.0.0.1", "scheduler"):
        assert handshake(tmp_path, tmp_path, host) == "ok"
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(tmp_path, tmp_path, "node2.example")


def test_those_of_another_cluster_are_strangers(tmp_path: Path) -> None:
    certificates(tmp_path / "one")
    certificates(tmp_path / "two")
    with pytest.raises(ssl.SSLError):
        handshake(tmp_path / "one", tmp_path / "two", "localhost")


def handshake(server: Path, client: Path, host: str) -> str:
    """Of a server and a client with these folders, each asking for the other's certificate."""
    here = ssl.create_default_context(ssl.Purpose.SERVER_AUTH, cafile=client / AUTHORITY)
    there = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=server / AUTHORITY)
    there.verify_mode = ssl.CERT_REQUIRED
    here.load_cert_chain(client / CERTIFICATE, client / KEY)
    there.load_cert_chain(server / CERTIFICATE, server / KEY)
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [here.wrap_bio(down, up, server_hostname=host), there.wrap_bio(up, down, server_side=True)]
    for _ in range(4):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    return "ok"


def test_the_authority_signs_certificates_and_the_pair_does_not(tmp_path: Path) -> None:
    certificates(tmp_path, days=30)
    authority, pair = (
        x509.load_pem_x509_certificate((tmp_path / name).read_bytes()) for name in (AUTHORITY, CERTIFICATE)
    )
    ca = [one.extensions.get_extension_for_class(x509.BasicConstraints).value.ca for one in (authority, pair)]
    assert ca == [True, False]
    assert (pair.not_valid_after_utc - pair.not_valid_before_utc).days == 31
    assert authority.public_key() != pair.public_key()


def test_what_is_there_is_kept_unless_forced(tmp_path: Path) -> None:
    certificates(tmp_path)
    before = (tmp_path / KEY).read_bytes()
    with pytest.raises(OutputExists, match=AUTHORITY):
        certificates(tmp_path)
    assert (tmp_path / KEY).read_bytes() == before
    certificates(tmp_path, force=True)
    assert (tmp_path / KEY).read_bytes() != before
    assert stat.S_IMODE((tmp_path / KEY).stat().st_mode) == 0o600


@pytest.mark.parametrize("host", ["tls://a:1", "a b", "", "ü.example", "a..b"])
def test_what_is_no_host_is_refused_before_anything_is_written(tmp_path: Path, host: str) -> None:
    with pytest.raises(ParamError):
        certificates(tmp_path / "c", [host])
    with pytest.raises(ParamError):
        certificates(tmp_path / "c", days=0)
    assert not (tmp_path / "c").exists()


@pytest.mark.parametrize(
    ("address", "here"),
    [
        ("tcp://127.0.0.1:8786", True),
        ("tcp://127.8.9.1:1", True),
        ("tcp://[::1]:8786", True),
        ("tcp://localhost:8786", True),
        ("tcp://localhost.example:8786", False),
        ("tcp://10.0.0.5:8786", False),
        ("tcp://0.0.0.0:8786", False),
        ("tcp://[fd00::1]:8786", False),
        ("tcp://127.0.0.1.example:8786", False),
    ],
)
def test_plain_connections_stay_on_this_machine(tmp_path: Path, address: str, here: bool) -> None:
    """Whether the address is given or stands in a scheduler file."""
    assert is_loopback(address) is here
    file = tmp_path / "scheduler.json"
    file.write_text(json.dumps({"address": address}))
    for scheduler in (address, str(file)):
        assert load_profile(None, scheduler=scheduler, insecure=True).insecure
        if here:
            assert load_profile(None, scheduler=scheduler).address == address
            continue
        with pytest.raises(InsecureScheduler, match="--insecure") as caught:
            load_profile(None, scheduler=scheduler)
        assert caught.value.exit_code == 2
        with pytest.raises(InsecureScheduler):
            check_connection(Profile(scheduler))  # as a function, too


def test_a_profile_may_say_that_it_is_insecure(tmp_path: Path) -> None:
    (tmp_path / "p.toml").write_text('scheduler = "tcp://10.0.0.5:8786"\ninsecure = true\n')
    assert load_profile(str(tmp_path / "p.toml")).address == "tcp://10.0.0.5:8786"
    (tmp_path / "p.toml").write_text('scheduler = "tcp://10.0.0.5:8786"\ninsecure = "yes"\n')
    with pytest.raises(ProfileError, match="insecure"):
        load_profile(str(tmp_path / "p.toml"))


def test_a_certificate_that_is_not_there_is_named(tmp_path: Path) -> None:
    certificates(tmp_path)
    (tmp_path / KEY).unlink()
    with pytest.raises(ProfileError, match="tls_key") as caught:
        load_profile(str(tmp_path / PROFILE))
    assert caught.value.where == "tls_key"
    load_profile(None, scheduler="tls://10.0.0.5:8786")  # Dask's own settings may name them


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Folders with the certificates of two clusters, and in the first what is none."""
    one, two = (tmp_path_factory.mktemp("pair") / name for name in ("one", "two"))
    certificates(one)
    certificates(two)
    (one / "junk").write_text("junk")
    (one / "empty").write_text("")
    (one / "half").write_bytes((one / AUTHORITY).read_bytes()[:200])
    (one / "folder").mkdir()
    key = serialization.load_pem_private_key((one / KEY).read_bytes(), None)
    locked = serialization.BestAvailableEncryption(b"word")
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8)
    (one / "locked").write_bytes(key.private_bytes(*form, locked))
    return one, two


def names(folder: Path) -> dict[str, str]:
    return {"tls_ca": str(folder / AUTHORITY), "tls_cert": str(folder / CERTIFICATE), "tls_key": str(folder / KEY)}


@pytest.mark.parametrize("bad", ["junk", "empty", "half", "folder", "locked", "not there"])
@pytest.mark.parametrize("name", ["tls_ca", "tls_cert", "tls_key"])
def test_a_file_that_is_no_certificate_or_key_is_named(pair: tuple[Path, Path], name: str, bad: str) -> None:
    given = names(pair[0]) | {name: str(pair[0] / bad)}
    with pytest.raises(ProfileError, match=name) as caught:
        check_certificates(*given.values())
    assert caught.value.where == name
    assert caught.value.exit_code == 2
    with pytest.raises(ProfileError, match=name):  # as a run asks, before anything else
        security_of(Profile("tls://127.0.0.1:1", **given))


def test_a_key_of_another_certificate_is_named(pair: tuple[Path, Path]) -> None:
    check_certificates(*names(pair[0]).values())
    mine, others = names(pair[0]), names(pair[1])
    for given in (mine | {"tls_key": others["tls_key"]}, mine | {"tls_cert": others["tls_cert"]}):
        with pytest.raises(ProfileError, match="is not the key of"):
            check_certificates(*given.values())


def test_a_text_in_the_place_of_a_file_is_dasks_business(pair: tuple[Path, Path]) -> None:
    texts = {name: Path(path).read_text() for name, path in names(pair[0]).items()}
    settings = {"ca-file": texts["tls_ca"], "client.cert": texts["tls_cert"], "client.key": texts["tls_key"]}
    settings = {f"distributed.comm.tls.{name}": text for name, text in settings.items()}
    with dask.config.set(settings):
        assert security_of(Profile("tls://127.0.0.1:1")).tls_ca_file == texts["tls_ca"]
    broken = settings | {"distributed.comm.tls.ca-file": "no\nfile"}
    with dask.config.set(broken), pytest.raises(ProfileError, match="Dask's settings"):
        security_of(Profile("tls://127.0.0.1:1"))


def test_the_command_has_the_default_of_the_function() -> None:
    """`--help` loads nothing heavy, so the command line says the number itself."""
    of_command, of_function = (inspect.signature(found).parameters["days"].default for found in (command, certificates))
    assert of_command == of_function == 365
