"""What an Airflow connection of type ``aws`` says, as storage options.

Names are those of Airflow's amazon provider, which need not be installed: login and password are the keys, and the
extra JSON has ``aws_session_token``, ``region_name``, ``endpoint_url``, ``profile_name``, ``role_arn`` with
``assume_role_kwargs``, and ``service_config`` with what is of S3 or STS alone. A key of the provider that cannot be
honoured here is refused by its name; what the provider does not know is a storage option (docs/stores.md).
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException, mask_secret

from lakehouse_airflow.connections.extra import extra_of, taken_as_object
from lakehouse_airflow.connections.session_keys import SessionKeys, shared_keys

if TYPE_CHECKING:
    from airflow.sdk import Connection

#: Of the provider, and without an equal here.
_NOT_HERE = (
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
#: In boto3's order.
_KEYS = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")


def aws_options(connection: Connection) -> dict[str, str]:
    """The storage options of S3, which may be temporary: a profile is read now, a role is assumed now or was in this
    process not long ago, by the same connection as it is now.

    Every secret among them is masked in the task's log.

    Raises:
        AirflowFailException: an extra, or a part of it, that is not JSON, a setting that cannot be honoured, a key
            or token with a character that none has, a profile that is none, a role that is refused. No text shows a
            secret.
        AirflowException: the role's service does not answer.
    """
    extra = extra_of(connection)
    name = connection.conn_id
    refused = [key for key in _NOT_HERE if extra.get(key)]
    if extra.pop("verify", True) not in (True, None):
        refused.append("verify")
    if extra.pop("assume_role_method", "assume_role") != "assume_role":
        refused.append("assume_role_method")
    if refused:
        raise AirflowFailException(
            f"the connection {name!r} has {', '.join(refused)} in its extra, which tables cannot be opened by: leave "
            "it out; keys, a profile or role_arn say who asks, endpoint_url and region_name whom"
        )
    services = taken_as_object(extra, "service_config", name)
    s3, sts = taken_as_object(services, "s3", name), taken_as_object(services, "sts", name).get("endpoint_url")
    access_key = connection.login or extra.pop("aws_access_key_id", None)
    secret_key = connection.password or extra.pop("aws_secret_access_key", None)
    keys = _checked(name, (access_key, secret_key, extra.pop("aws_session_token", None)))
    profile, region = extra.pop("profile_name", None), extra.pop("region_name", None)
    role, role_options = extra.pop("role_arn", None), taken_as_object(extra, "assume_role_kwargs", name)
    endpoint = s3.get("endpoint_url") or extra.get("endpoint_url")
    extra.pop("endpoint_url", None)
    if profile or role:
        asking = {**keys, "profile_name": profile, "region_name": region}
        assumed_role = {"RoleArn": role, "RoleSessionName": _SESSION_NAME, **role_options} if role else None
        ask = partial(_from_session, name, asking, assumed_role, sts)
        session = shared_keys([name, asking, assumed_role, sts], ask) if role else ask()
        keys, region = session.keys, session.region
    options = {**extra, **keys, "aws_region": region, "aws_endpoint_url": endpoint}
    return {key: _text(value) for key, value in options.items() if value not in (None, "")}


def _from_session(
    connection: str, session: Mapping[str, Any], role: Mapping[str, Any] | None, sts: str | None
) -> SessionKeys:
    """Keys and region of a boto3 session, or of the role that it assumes."""
    if importlib.util.find_spec("boto3") is None:
        raise AirflowFailException(
            f"the connection {connection!r} has a profile or a role, which need boto3: pip install boto3"
        )
    if sts is not None and "@" in sts:  # boto3's errors quote it
        raise AirflowFailException(
            f"the connection {connection!r} has credentials in the endpoint_url of sts: leave them out of it"
        )
    import boto3
    from botocore.exceptions import BotoCoreError, ClientError, ConnectionError, HTTPClientError

    from lakehouse_lib.store.s3.errors import without_secrets

    def error_text(error: Exception) -> str:
        """The error's text without secrets: a trigger's goes into Airflow's database, where nothing is masked."""
        return without_secrets(str(error), [own[name] for name in _KEYS[1:] if own.get(name)])

    own = {key: session[key] for key in _KEYS if key in session}
    try:
        asking = boto3.Session(**{key: value for key, value in session.items() if value})
        credentials = asking.get_credentials()
        if credentials is not None:
            own = _checked(
                connection, credentials.get_frozen_credentials()[:3], f" that boto3 found ({credentials.method})"
            )
        if role is None:
            return SessionKeys(own, asking.region_name)
        role_keys = asking.client("sts", endpoint_url=sts).assume_role(**role)["Credentials"]
    except (ConnectionError, HTTPClientError) as error:
        raise AirflowException(f"the connection {connection!r}: {error_text(error)}") from None
    except (BotoCoreError, ClientError) as error:
        raise AirflowFailException(f"the connection {connection!r}: {error_text(error)}") from None
    keys = _checked(
        connection, (role_keys["AccessKeyId"], role_keys["SecretAccessKey"], role_keys["SessionToken"]), " of the role"
    )
    if "Expiration" not in role_keys:  # another server than Amazon's may leave it out: nothing is stored then
        return SessionKeys(keys, asking.region_name)
    return SessionKeys.until(role_keys["Expiration"].timestamp(), keys, asking.region_name)


def _checked(connection: str, keys: Iterable[Any], origin: str = "") -> dict[str, str]:
    """The keys there are, by their options' names. From here on the secret ones are masked in the task's log.

    They are sent in headers, and boto3's error about one that cannot be quotes it as Python source, which no mask fits.

    Args:
        keys: in the order of ``_KEYS``; None or empty: there is none.
        origin: where they are from, for the error.

    Raises:
        AirflowFailException: one has a character that no key has. It is not shown.
    """
    from lakehouse_lib.errors import InvalidArgumentError
    from lakehouse_lib.store.s3.options import check_key

    options = {name: _text(value) for name, value in zip(_KEYS, keys, strict=True) if value}
    for name in _KEYS[1:]:
        if name in options:
            mask_secret(options[name].strip())  # it is masked with a line's end around it as well then
    try:
        for name, text in options.items():
            check_key(text, f"{name}{origin}", connection)
    except InvalidArgumentError as error:
        raise AirflowFailException(f"the connection {connection!r}: {error.message}. {error.hint}") from None
    return options


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
