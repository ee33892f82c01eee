"""The storage options of an Airflow connection of type ``aws``.

The fields are those of Airflow's amazon provider, which need not be installed. Login and password are the keys. The
extra JSON has ``aws_session_token``, ``region_name``, ``endpoint_url``, ``profile_name``, ``role_arn`` with
``assume_role_kwargs``, and ``service_config`` with the ``endpoint_url`` of ``s3`` and ``sts``. Other fields of the
provider are refused. A field that the provider does not have is a storage option (docs/stores.md).
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import AirflowException, mask_secret

from lakehouse_airflow.connections.extra import extra_of, pop_object
from lakehouse_airflow.connections.session_keys import SessionKeys, shared_keys
from lakehouse_airflow.errors import InvalidConnectionError

if TYPE_CHECKING:
    from airflow.sdk import Connection

#: Fields of the provider that are not supported.
_UNSUPPORTED = (
    "assume_role_with_saml",
    "assume_role_with_web_identity",
    "aws_account_id",
    "aws_iam_role",
    "config_kwargs",
    "external_id",
    "host",
    "profile",
    "s3_config_file",
    "s3_config_format",
    "session_kwargs",
)
_SESSION_NAME = "lakehouse"
#: The storage options for the keys, in the order of boto3's credentials.
_KEYS = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")


def aws_options(connection: Connection) -> dict[str, str]:
    """The storage options of S3. Their secrets are masked in the task's log.

    The keys of an assumed role are cached in this process until shortly before they expire.

    Raises:
        AirflowFailException: the extra is not valid JSON or has a field that is not supported, a key or token has an
            invalid character, the profile does not exist, or the role cannot be assumed. No message shows a secret.
        AirflowException: STS does not answer.
    """
    extra = extra_of(connection)
    name = connection.conn_id
    unsupported = [key for key in _UNSUPPORTED if extra.get(key)]
    if extra.pop("verify", True) not in (True, None):
        unsupported.append("verify")
    if extra.pop("assume_role_method", "assume_role") != "assume_role":
        unsupported.append("assume_role_method")
    if unsupported:
        raise InvalidConnectionError(
            f"the extra of the connection {name!r} has {', '.join(unsupported)}, which is not supported; expected "
            "keys, profile_name or role_arn as credentials, and endpoint_url and region_name for the server"
        )
    endpoints = _service_endpoints(extra, name)
    access_key = connection.login or extra.pop("aws_access_key_id", None)
    secret_key = connection.password or extra.pop("aws_secret_access_key", None)
    keys = _check_keys(name, (access_key, secret_key, extra.pop("aws_session_token", None)))
    profile, region = extra.pop("profile_name", None), extra.pop("region_name", None)
    role, role_options = extra.pop("role_arn", None), pop_object(extra, "assume_role_kwargs", name)
    sts, endpoint = endpoints.get("sts"), endpoints.get("s3") or extra.get("endpoint_url")
    extra.pop("endpoint_url", None)
    if profile or role:
        session_options = {**keys, "profile_name": profile, "region_name": region}
        assumed_role = {"RoleArn": role, "RoleSessionName": _SESSION_NAME, **role_options} if role else None
        request_keys = partial(_from_session, name, session_options, assumed_role, sts)
        session = shared_keys([name, session_options, assumed_role, sts], request_keys) if role else request_keys()
        keys, region = session.keys, session.region
    options = {**extra, **keys, "aws_region": region, "aws_endpoint_url": endpoint}
    return {key: _text(value) for key, value in options.items() if value not in (None, "")}


def _service_endpoints(extra: dict[str, Any], connection: str) -> dict[str, Any]:
    """Remove ``service_config`` from the extra, and return the ``endpoint_url`` of each service.

    Raises:
        AirflowFailException: the ``service_config`` has another service or another setting.
    """
    services = pop_object(extra, "service_config", connection)
    endpoints, unsupported = {}, [name for name in services if name not in ("s3", "sts")]
    for service in ("s3", "sts"):
        settings = pop_object(services, service, connection)
        endpoints[service] = settings.pop("endpoint_url", None)
        unsupported += [f"{service}.{setting}" for setting in settings]
    if unsupported:
        raise InvalidConnectionError(
            f"the service_config of the connection {connection!r} has {', '.join(sorted(unsupported))}, which is not "
            "supported; expected the endpoint_url of s3 and sts"
        )
    return endpoints


def _from_session(
    connection: str, session: Mapping[str, Any], role: Mapping[str, Any] | None, sts: str | None
) -> SessionKeys:
    """The keys and region of a boto3 session, or of the role that it assumes."""
    if importlib.util.find_spec("boto3") is None:
        raise InvalidConnectionError(
            f"the connection {connection!r} has a profile or a role, which needs boto3; install boto3"
        )
    if sts is not None and "@" in sts:  # boto3's errors quote the URL
        raise InvalidConnectionError(
            f"the connection {connection!r} has credentials in the endpoint_url of sts; expected a URL without them"
        )
    import boto3
    from botocore.exceptions import BotoCoreError, ClientError, ConnectionError, HTTPClientError

    from lakehouse_lib.store.s3.errors import without_secrets

    def error_text(error: Exception) -> str:
        """The error's text without secrets, because Airflow stores a trigger's error unmasked in its database."""
        return without_secrets(str(error), [session_keys[name] for name in _KEYS[1:] if session_keys.get(name)])

    session_keys = {key: session[key] for key in _KEYS if key in session}
    try:
        boto_session = boto3.Session(**{key: value for key, value in session.items() if value})
        credentials = boto_session.get_credentials()
        if credentials is not None:
            session_keys = _check_keys(
                connection, credentials.get_frozen_credentials()[:3], f" that boto3 found ({credentials.method})"
            )
        if role is None:
            return SessionKeys(session_keys, boto_session.region_name)
        role_keys = boto_session.client("sts", endpoint_url=sts).assume_role(**role)["Credentials"]
    except (ConnectionError, HTTPClientError) as error:
        raise AirflowException(f"the connection {connection!r}: {error_text(error)}") from None
    except (BotoCoreError, ClientError) as error:
        raise InvalidConnectionError(f"the connection {connection!r}: {error_text(error)}") from None
    keys = _check_keys(
        connection, (role_keys["AccessKeyId"], role_keys["SecretAccessKey"], role_keys["SessionToken"]), " of the role"
    )
    if "Expiration" not in role_keys:  # other servers than Amazon's may omit it; such keys are not cached
        return SessionKeys(keys, boto_session.region_name)
    return SessionKeys.until(role_keys["Expiration"].timestamp(), keys, boto_session.region_name)


def _check_keys(connection: str, keys: Iterable[Any], origin: str = "") -> dict[str, str]:
    """The keys by the names of their storage options. From now on, the secret keys are masked in the task's log.

    Keys are sent in headers. boto3's error about an invalid header quotes the header as a Python literal, which no mask
    matches. So this function finds invalid characters before boto3 does.

    Args:
        keys: in the order of ``_KEYS``; a key may be None or empty.
        origin: the source of the keys, for the error.

    Raises:
        AirflowFailException: a key has an invalid character. The message does not show the key.
    """
    from lakehouse_lib.errors import InvalidArgumentError
    from lakehouse_lib.store.s3.options import check_key

    options = {name: _text(value) for name, value in zip(_KEYS, keys, strict=True) if value}
    for name in _KEYS[1:]:
        if name in options:
            mask_secret(options[name].strip())  # masks the key even if a line break surrounds it
    try:
        for name, text in options.items():
            check_key(text, f"{name}{origin}", connection)
    except InvalidArgumentError as error:
        raise InvalidConnectionError(f"the connection {connection!r}: {error.message}. {error.hint}") from None
    return options


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
