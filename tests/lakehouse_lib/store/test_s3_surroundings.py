"""The connection to the server, configured alike for boto3 and pyarrow: profiles, certificates, proxies; forks."""

import multiprocessing
import ssl
import threading
import time
import warnings
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from lakehouse_lib.errors import InvalidArgumentError
from lakehouse_lib.store import open_store
from lakehouse_lib.store.s3 import client as s3_client
from tests.s3_server import serving


@pytest.fixture(autouse=True)
def _no_connections(monkeypatch):
    monkeypatch.setattr(s3_client, "_connections", {})


@pytest.mark.slow
@pytest.mark.parametrize(
    "section", ["endpoint_url = {url}", "services = own\n[services own]\ns3 =\n  endpoint_url = {url}"]
)
def test_an_endpoint_in_a_profile_is_used_for_log_and_data_files(s3_server, location, monkeypatch, tmp_path, section):
    # boto3 uses this setting, but pyarrow would have written the data files to AWS.
    (tmp_path / "config").write_text(f"[default]\n{section.format(url=s3_server.url)}\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    options = {
        name: value for name, value in s3_server.options.items() if name not in ("aws_endpoint_url", "aws_allow_http")
    }
    for act in (lambda store: store.put_if_absent("x", b""), lambda store: store.open_output("x")):
        with pytest.raises(InvalidArgumentError, match=f"profile.*has an endpoint_url.*{location}.*storage option"):
            act(open_store(location, options))
    assert s3_server.counted() == {}
    assert open_store(location, s3_server.options).put_if_absent("x", b"")
    monkeypatch.setenv("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "true")
    monkeypatch.setattr(s3_client, "_connections", {})
    client = open_store(location, options)._client
    assert client._make_client(client._connection()).meta.endpoint_url.endswith(".amazonaws.com")


def test_a_certificate_that_boto3_trusts_is_trusted_for_data_files(location, monkeypatch, tmp_path):
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.fromtimestamp(time.time(), UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), now, now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
        .public_bytes(Encoding.PEM)
    )
    (tmp_path / "ca.pem").write_bytes(certificate)
    own = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (tmp_path / "both.pem").write_bytes(own + certificate)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(tmp_path / "both.pem")
    monkeypatch.setenv("AWS_CA_BUNDLE", str(tmp_path / "ca.pem"))
    with serving("secure", tls=tls) as server:
        store = open_store("s3://secure/t", {**server.options, "retry_timeout": "2"})
        with store.open_output("data") as sink:
            sink.write(bytes(600_000))
        with store.open_input("data") as source:
            assert source.size() == 600_000


def test_a_proxy_of_boto3_is_used_for_data_files(s3_server, monkeypatch):
    monkeypatch.setenv("http_proxy", s3_server.url)
    monkeypatch.setenv("no_proxy", "")
    options = {**s3_server.options, "aws_endpoint_url": "http://nowhere.invalid", "retry_timeout": "2"}
    hosts = []

    def go_between(_request, forward, environ):
        hosts.append(environ["HTTP_HOST"])
        environ["HTTP_HOST"] = s3_server.url.removeprefix("http://")
        return forward()

    with s3_server.interfering(go_between):
        store = open_store("s3://bucket/behind-a-proxy", options)
        assert store.put_if_absent("log", b"1")
        by_boto3 = len(hosts)
        with store.open_output("data") as sink:
            sink.write(b"2")
    assert set(hosts) == {"nowhere.invalid"}
    assert len(hosts) > by_boto3 > 0


@pytest.mark.slow
def test_a_lock_that_a_thread_holds_at_a_fork_is_free_in_the_child(s3_server, location):
    store = open_store(location, s3_server.options)
    store.put("x", b"1")
    held, over = threading.Event(), threading.Event()

    def hold() -> None:
        with s3_client._lock:
            held.set()
            over.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # warns of forks with threads, from Python 3.12 on
            child = multiprocessing.get_context("fork").Process(target=store.head, args=("x",), daemon=True)
            child.start()
        child.join(30)
        assert child.exitcode == 0
    finally:
        over.set()
        thread.join()
        child.kill()
