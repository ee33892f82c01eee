"""A ledger of sealed documents: an edited document is refused when it is read.

A request has a folder of documents (a plan, a decision, a record). Each document is written once, and sealed with
HMAC-SHA256 over its canonical JSON and its path. So a document that was edited, copied to another request or sealed
with another key is refused when it is read. A user with write access to the folder can still delete a document, or
restore an old document at its own path. So give write access to the workers only.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import secrets
from collections.abc import Sequence
from typing import Any

from lakehouse_lib.errors import InvalidArgumentError, LedgerError, ObjectNotFoundError
from lakehouse_lib.json_text import excerpt
from lakehouse_lib.store import ObjectStore

#: The smallest length of a key in characters: 128 bits if they are hexadecimal digits.
SHORTEST_KEY = 32

_FORMAT = 1
_REQUEST = re.compile(r"[0-9a-f]{20}")
_NAME = re.compile(r"[a-z]+|steps/[a-z]+-[0-9a-f]{20}")
_STEP = re.compile(r"[a-z]+-[0-9a-f]{20}\.json")

_RESTORE = "Restore the document from a backup, or start a new request"

#: JSON values: text, whole numbers, booleans, null, and lists and objects of them.
Document = dict[str, Any]


def new_request() -> str:
    """A request id: 80 random bits as 20 hexadecimal digits, safe in paths and URLs."""
    return secrets.token_hex(10)


def is_request(text: str) -> bool:
    """Whether a text is a request id."""
    return _REQUEST.fullmatch(text) is not None


def check_request(request: object) -> str:
    """``request`` itself, if it is a valid request id.

    Raises:
        LedgerError: ``request`` is not 20 hexadecimal digits.
    """
    if not isinstance(request, str) or not is_request(request):
        raise LedgerError(
            f"the request id {excerpt(request)} is not valid; expected 20 hexadecimal digits",
            hint="Take the id from the task that made the request",
        )
    return request


def digest(document: Document) -> str:
    """SHA-256 of the document's canonical JSON, as 64 hexadecimal digits."""
    return hashlib.sha256(_canonical(document)).hexdigest()


class Ledger:
    """Sealed documents of requests, at one location.

    Args:
        store: the store of the ledger's location.
        key: the secret that documents are sealed with, at least ``SHORTEST_KEY`` characters.

    Raises:
        InvalidArgumentError: the key is too short.
    """

    def __init__(self, store: ObjectStore, key: str) -> None:
        if len(key) < SHORTEST_KEY:
            raise InvalidArgumentError(
                f"the ledger's key has {len(key)} characters; expected at least {SHORTEST_KEY}",
                table=store.root,
                hint="Make a longer key, for example with: openssl rand -hex 32",
            )
        self._store = store
        # One key for each purpose, so that a keyed hash, which users see, is never valid as a seal.
        self._seal_key, self._hash_key = (
            hmac.digest(key.encode(), f"lakehouse ledger: {purpose}".encode(), "sha256") for purpose in ("seal", "hash")
        )
        self._key_id = hmac.new(self._hash_key, b"key id", "sha256").hexdigest()[:8]

    def put(self, request: str, name: str, document: Document) -> Document:
        """Write a document of a request, unless the request has a document of this name; returns the ledger's document.

        Args:
            request: an id of ``new_request``.
            name: lower-case letters, such as ``plan``.
            document: JSON values only, without floating-point numbers.

        Raises:
            LedgerError: the existing document is not valid.
            StoreError: the store failed; the document may have been written.
        """
        return self._put(_path(request, name), document)

    def read(self, request: str, name: str) -> Document:
        """A document of a request.

        Raises:
            LedgerError: the document is missing, truncated, edited, of another request, or sealed with another key.
        """
        document = self.find(request, name)
        if document is None:
            raise LedgerError(
                f"the request {request} has no {name} in the ledger {self._store.root}",
                hint="Check the request id and the location of the ledger",
            )
        return document

    def find(self, request: str, name: str) -> Document | None:
        """A document of a request; None if it is missing. Otherwise raises LedgerError as ``read`` does."""
        return self._find(_path(request, name))

    def delete(self, request: str, name: str) -> None:
        """Delete a document, and temporary files of it from killed writers. A missing document is not an error."""
        path = _path(request, name)
        self._store.delete_many([*self._temporary_files(check_request(request), f"{name}.json"), path])

    def requests(self, name: str) -> list[str]:
        """The requests that have a document of that name, or a temporary file of it from a killed writer, sorted.

        Lists the whole ledger.
        """
        paths_in_parts = (meta.path.split("/") for meta in self._store.walk())
        return sorted(
            {
                parts[0]
                for parts in paths_in_parts
                if len(parts) == 2
                and _REQUEST.fullmatch(parts[0])
                and (parts[1] == f"{name}.json" or parts[1].startswith(f".{name}.json."))
            }
        )

    def newest_requests(self, name: str, most: int) -> list[str]:
        """At most ``most`` requests: those whose documents of that name were written last, newest first.

        Lists the whole ledger.
        """
        dated_requests = sorted(
            (-meta.modified, parts[0])
            for meta in self._store.walk()
            if len(parts := meta.path.split("/")) == 2 and _REQUEST.fullmatch(parts[0]) and parts[1] == f"{name}.json"
        )
        return [request for _, request in dated_requests[:most]]

    def put_step(self, request: str, kind: str, document: Document) -> None:
        """Add a document about a step of a task of the request; earlier documents are kept.

        Args:
            kind: lower-case letters, such as ``purge``.
        """
        self._put(_path(request, f"steps/{kind}-{new_request()}"), document)

    def steps(self, request: str, kind: str) -> list[Document]:
        """The documents of that kind from ``put_step``, ordered by their field ``at``."""
        documents = [self.read(request, name) for name in self._step_names(request, kind)]
        return sorted(documents, key=lambda document: str(document.get("at")))

    def delete_steps(self, request: str, kind: str) -> None:
        """Delete the documents of that kind from ``put_step``, and temporary files of them from killed writers."""
        temporary_files = self._temporary_files(f"{check_request(request)}/steps", f"{kind}-")
        self._store.delete_many([*temporary_files, *(_path(request, name) for name in self._step_names(request, kind))])

    def claim(self, question: Sequence[str | int], request: str) -> str:
        """Assign a question to ``request``, unless an earlier call has assigned it; returns the question's request.

        Args:
            question: the parts that identify a decision of a user, such as the ids of a DAG, a run and a task.
        """
        path = _question_path(question)
        return check_request(self._put(path, {"request": check_request(request)})["request"])

    def find_claim(self, question: Sequence[str | int]) -> str | None:
        """The request that ``claim`` has assigned the question to; None if there was no such call."""
        claim = self._find(_question_path(question))
        return None if claim is None else check_request(claim.get("request"))

    def keyed_hash(self, *parts: str | int) -> str:
        """A keyed hash of values, 64 hexadecimal digits. 1 and "1" have different hashes.

        Without the key, the values cannot be guessed from the hash.
        """
        return hmac.new(self._hash_key, _canonical(list(parts)), "sha256").hexdigest()

    def keyed_digest(self, document: Document) -> str:
        """A keyed hash of a document, 64 hexadecimal digits. Without the key, the content cannot be guessed from it."""
        return hmac.new(self._hash_key, b"document" + _canonical(document), "sha256").hexdigest()

    def _step_names(self, request: str, kind: str) -> list[str]:
        folder = f"{check_request(request)}/steps"
        names = (meta.path.rpartition("/")[2] for meta in self._store.list_from(folder, f"{kind}-"))
        return [
            f"steps/{name.removesuffix('.json')}"
            for name in names
            if name.startswith(f"{kind}-") and _STEP.fullmatch(name)
        ]

    def _temporary_files(self, folder: str, start: str) -> list[str]:
        """Temporary files, from killed writers, of the documents whose names begin with ``start``."""
        metas = self._store.list_from(folder, f".{start}")
        return [meta.path for meta in metas if meta.path.removeprefix(f"{folder}/").startswith(f".{start}")]

    def _put(self, path: str, document: Document) -> Document:
        body = {"format": _FORMAT, "path": path, "document": document}
        sealed = {**body, "key": self._key_id, "seal": self._seal(body)}
        text = json.dumps(sealed, sort_keys=True, indent=1, allow_nan=False)
        if not self._store.put_if_absent(path, text.encode()):
            # A document exists. If the store repeated a put without an answer, this call may have written it.
            existing_document = self._find(path)
            if existing_document is None:
                raise LedgerError(
                    f"the document {path} of the ledger {self._store.root} was deleted while it was read",
                    hint="Start a new request",
                )
            return existing_document
        return document

    def _find(self, path: str) -> Document | None:
        try:
            data = self._store.read(path)
        except ObjectNotFoundError:
            return None
        return self._verify(path, data)

    def _verify(self, path: str, data: bytes) -> Document:
        where = f"the document {path} of the ledger {self._store.root}"
        try:
            sealed = json.loads(data, parse_constant=_no_constant)
        except (ValueError, RecursionError):
            raise LedgerError(f"{where} is not JSON: it is truncated, or was edited", hint=_RESTORE) from None
        if not isinstance(sealed, dict) or not isinstance(sealed.get("seal"), str):
            raise LedgerError(f"{where} has no seal; expected a document that a worker has sealed", hint=_RESTORE)
        if sealed.get("format") != _FORMAT:
            raise LedgerError(
                f"{where} has format {excerpt(sealed.get('format'))}; expected {_FORMAT}",
                hint="Read it with the version of this library that wrote it",
            )
        if sealed.get("path") != path:
            raise LedgerError(f"{where} was copied from {excerpt(sealed.get('path'))}; expected {path}", hint=_RESTORE)
        if sealed.get("key") != self._key_id:
            raise LedgerError(
                f"{where} is sealed with the key {excerpt(sealed.get('key'))}; expected {self._key_id}",
                hint="If the key was replaced, older documents can be read with the old key only",
            )
        body = {name: sealed.get(name) for name in ("format", "path", "document")}
        document = sealed.get("document")
        claimed_seal = sealed["seal"].encode(errors="surrogatepass")
        try:
            is_sealed = hmac.compare_digest(self._seal(body).encode(), claimed_seal)
        except (ValueError, RecursionError):  # 1e400, or deep nesting, which no sealed document has
            is_sealed = False
        if not is_sealed or not isinstance(document, dict):
            raise LedgerError(f"{where} has a wrong seal: it was edited", hint=_RESTORE)
        return document

    def _seal(self, body: Document) -> str:
        return hmac.new(self._seal_key, _canonical(body), "sha256").hexdigest()


def _path(request: str, name: str) -> str:
    if not _NAME.fullmatch(name):
        raise InvalidArgumentError(f"{name!r} is not a valid name of a ledger's document", hint="Use letters a to z")
    return f"{check_request(request)}/{name}.json"


def _question_path(question: Sequence[str | int]) -> str:
    # Users choose run ids, so these may have any character and are never part of a path.
    return f"questions/{hashlib.sha256(_canonical(list(question))).hexdigest()}.json"


def _canonical(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
