"""Storage options under the names of deltalake, and locations in a bucket."""

import pickle
import re

import pytest

from lakehouse_lib.errors import InvalidArgumentError
from lakehouse_lib.store import open_store
from lakehouse_lib.store.s3.options import S3Options, location
from lakehouse_lib.store.schemes import with_allowed_root

SECRET = "hunter2-secret"
KEYS = {"access_key_id": "me", "secret_access_key": SECRET}


def options(settings=None, **environment):
    return S3Options.of(settings or {}, "s3://bucket/t", environment)


@pytest.mark.parametrize(
    "settings",
    [
        {"AWS_ACCESS_KEY_ID": "me", "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_SESSION_TOKEN": "t", "AWS_REGION": "x-1"},
        {"aws_access_key_id": "me", "aws_secret_access_key": SECRET, "aws_token": "t", "aws_default_region": "x-1"},
        {"access_key_id": "me", "secret_access_key": SECRET, "session_token": "t", "region": "x-1"},
        {**KEYS, "token": "t", "region": "x-1", "AWS_REGION": "x-1"},
    ],
)
def test_one_option_has_several_names(settings):
    s3_options = options(settings, AWS_REGION="other-1")
    assert (s3_options.access_key_id, s3_options.secret_access_key, s3_options.session_token, s3_options.region) == (
        "me",
        SECRET,
        "t",
        "x-1",
    )


def test_the_environment_is_read_without_options_except_credentials():
    s3_options = options(
        AWS_REGION="x-1",
        AWS_DEFAULT_REGION="y-1",
        AWS_ENDPOINT_URL="http://127.0.0.1:9000/",
        AWS_ALLOW_HTTP="TRUE",
        AWS_VIRTUAL_HOSTED_STYLE_REQUEST="1",
        AWS_ACCESS_KEY_ID="me",
        AWS_SECRET_ACCESS_KEY=SECRET,
    )
    assert s3_options == S3Options(region="x-1", endpoint_url="http://127.0.0.1:9000", virtual_hosted_style=True)
    assert options({"endpoint": "https://s3.example"}, AWS_ENDPOINT_URL="http://x").endpoint_url == "https://s3.example"


def test_keys_in_options_override_unsigned_requests_of_the_environment():
    keys = {"access_key_id": "me", "secret_access_key": SECRET}
    environment = {"AWS_SKIP_SIGNATURE": "true"}
    assert not S3Options.of(keys, "s3://bucket/t", environment).skip_signature
    assert S3Options.of({}, "s3://bucket/t", environment).skip_signature


def test_timeouts_have_units():
    s3_options = options({"timeout": "500ms", "connect_timeout": "2", "retry_timeout": "1.5m"})
    assert (s3_options.timeout, s3_options.connect_timeout, s3_options.retry_timeout) == (0.5, 2.0, 90.0)


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ({"secret": SECRET}, "'secret' is unknown"),
        ({"AWS_BUCKET_NAME": "x"}, "'AWS_BUCKET_NAME' is unknown.*The options are access_key_id"),
        ({"AWS_S3_ALLOW_UNSAFE_RENAME": "true"}, "UNSAFE_RENAME' is unknown.*conditional puts"),
        ({"AWS_S3_LOCKING_PROVIDER": "dynamodb"}, "LOCKING_PROVIDER' is unknown.*conditional puts"),
        ({"allow_http": True}, "'allow_http' is of type bool; expected text"),
        ({"access_key_id": "me"}, "without secret_access_key"),
        ({"secret_access_key": SECRET}, "without access_key_id"),
        ({"session_token": SECRET}, "without access_key_id"),
        ({"secret_access_key": SECRET, "AWS_SECRET_ACCESS_KEY": "other"}, "contradict each other"),
        ({"allow_http": "perhaps"}, "'perhaps'.*true or false"),
        ({"endpoint_url": "http://127.0.0.1:9000"}, "not encrypted.*allow_http"),
        ({"endpoint_url": f"https://me:{SECRET}@host"}, "has credentials in it"),
        ({"endpoint_url": f"https://me:se/{SECRET}@host"}, "has credentials in it"),
        ({"endpoint_url": f"https://me:1/{SECRET}@host"}, "has credentials in it"),
        ({"endpoint_url": f"me:se#{SECRET}@host"}, "has credentials in it"),
        ({"endpoint_url": f"https://me:{SECRET}"}, "endpoint_url is https://…"),
        ({"endpoint_url": f"https://host/?X-Amz-Signature={SECRET}"}, "endpoint_url is https://…"),
        ({"endpoint_url": "https://[::1"}, "endpoint_url is .*https://host"),
        ({"endpoint_url": "http://[::1]:9000"}, r"'http://\[::1\]:9000'; expected https"),
        ({"endpoint_url": "ftp://host"}, "endpoint_url is 'ftp://host'.*https://host"),
        ({"endpoint_url": "https://host?x=1"}, "https://host"),
        ({"endpoint_url": "https://host:99999"}, "https://host:port"),
        ({"region": "eu central 1"}, "region is 'eu central 1'.*such as eu-central-1"),
        ({"AWS_DEFAULT_REGION": "eu_central_1"}, "AWS_DEFAULT_REGION is 'eu_central_1'"),
        ({"access_key_id": "me", "secret_access_key": f"{SECRET}\n"}, "secret_access_key has a line break.*issued"),
        ({"access_key_id": "ключ", "secret_access_key": SECRET}, "access_key_id has"),
        ({"access_key_id": "me", "secret_access_key": SECRET, "token": f"{SECRET}\nx"}, "token has a line break"),
        (
            {"access_key_id": "me", "secret_access_key": SECRET, "AWS_SKIP_SIGNATURE": "true"},
            "AWS_SKIP_SIGNATURE is 'true'.*unsigned",
        ),
        ({"timeout": "soon"}, "'soon'.*seconds"),
        ({"timeout": "0"}, "seconds"),
        ({"conditional_put": "dynamo:table"}, "etag"),
        ({"allowed_roots": "/local"}, "'/local' is not a valid location in a bucket"),
        ({"allowed_roots": f"s3://me:se/{SECRET}@other/x"}, "s3://… has credentials in it.*table s3://bucket/t"),
        ({"allowed_roots": f"s3://me:se#{SECRET}@other/x"}, "s3://… has credentials in it"),
        ({"allowed_roots": f"me:se/{SECRET}@other/x"}, "… is not a valid location in a bucket"),
        ({3: "x"}, "3 is unknown"),
    ],
)
def test_an_invalid_option_is_named(settings, what):
    with pytest.raises(InvalidArgumentError, match=what) as caught:
        options(settings)
    assert SECRET not in str(caught.value)


def test_options_of_deltalake_without_effect_are_accepted():
    assert options({"conditional_put": "etag", "aws_conditional_put": "etag"}) == S3Options()


@pytest.mark.parametrize(
    ("uri", "where"),
    [
        ("s3://bucket/a/b", ("bucket", "a/b")),
        ("s3a://bucket/a/b/", ("bucket", "a/b")),
        ("s3://bucket", ("bucket", "")),
        ("s3://my.bucket-1/day=1/a%20b", ("my.bucket-1", "day=1/a b")),
        ("s3://bucket/team@x/t", ("bucket", "team@x/t")),
        ("s3://bucket/a%23b%3Fc%0A", ("bucket", "a#b?c\n")),
    ],
)
def test_a_location(uri, where):
    assert location(uri) == where


@pytest.mark.parametrize(
    "uri",
    [
        "s3://",
        "s3:///x",
        "s3://b",
        "s3://bucket/a//b",
        "s3://bucket/../x",
        "s3://bucket/a/./b",
        "s3://bucket/%2e%2e/x",
        "s3://bucket/a?versionId=1",
        "s3://bucket/a#b",
        "s3://bucket:80/a",
        "s3://bucket/a#",
        "s3://bucket/a?",
        "s3://bucket/a\nb",
        "s3://bucket/a\tb",
        "s3://bucket/a%00",
        "s3://bucket/%ff",
        "s3://bucket/\udcff",
        "s3://[::1/x",
        "s3://arn:aws:s3:eu-1:1:accesspoint/x/t",
        "s3://bucket--use1-az4--x-s3/t",
        f"s3://me:{SECRET}@bucket/t",
        f"s3://me:se/{SECRET}@bucket/t",
        f"s3://me:/{SECRET}/bucket/t",
        f"s3://me:1/{SECRET}@bucket/t",
        f"s3://me:se#{SECRET}@bucket/t",
        f"s3:/me:se/{SECRET}@bucket/t",
        f"s3:/me:{SECRET}/bucket/t",
        f"s3://me%3A{SECRET}%40bucket/t",
        f"s3://bucket--use1-az4--x-s3/{SECRET}@bucket/t",
        f"s3://bucket/t?X-Amz-Signature={SECRET}",
    ],
)
def test_a_location_that_is_not_valid_is_refused(uri):
    with pytest.raises(InvalidArgumentError) as caught:
        open_store(uri)
    assert SECRET not in str(caught.value)
    assert caught.value.hint


@pytest.mark.parametrize(
    "uri", ["s3://b/x", "s3://bucket:80/a", "s3://bucket/a//b", "s3://bucket/%ff", "s3://bucket--use1-az4--x-s3/t"]
)
def test_the_error_of_a_location_without_secrets_quotes_it(uri):
    with pytest.raises(InvalidArgumentError, match=re.escape(repr(uri))):
        open_store(uri)


def test_secrets_travel_and_are_not_shown(monkeypatch):
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    store = open_store("s3a://bucket/t", {**KEYS, "session_token": "token-of-mine"})
    copy = pickle.loads(pickle.dumps(store))
    assert copy == store == open_store("s3://bucket/t")
    assert copy.root == "s3://bucket/t"
    for text in (repr(copy), repr(copy._options), str(vars(copy)), str(vars(copy._client))):
        assert SECRET not in text
        assert "token-of-mine" not in text
    assert copy._options.secret_access_key == SECRET
    assert open_store("s3://bucket/t", {"endpoint_url": "https://elsewhere"}) != store


def test_the_error_without_boto3_has_a_hint(monkeypatch):
    import importlib.util

    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *more: None if name == "boto3" else real(name, *more))
    with pytest.raises(InvalidArgumentError, match=r"boto3.*pip install boto3"):
        open_store("s3://bucket/t")


def test_a_local_table_refuses_options_of_s3(tmp_path):
    with pytest.raises(InvalidArgumentError, match="DELTA_INVALID_STORAGE_OPTION"):
        open_store(tmp_path, dict(KEYS))
    assert list(tmp_path.iterdir()) == []


def test_a_table_on_a_disk_is_not_allowed_a_bucket() -> None:
    # ``clone`` refuses it, and says that the kinds of stores differ.
    assert with_allowed_root("/data/copy", {"fsync": "true"}, "s3://lake/orders") == {"fsync": "true"}
