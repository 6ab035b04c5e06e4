"""Signatures (Ed25519), so that a team can refuse models and data that none of them made.

What is signed is the file that has the checksums of all others: model.json of an export, manifest.json of prepared data, and of
a run a list made for this. DIR/signature.json holds the signature, the public key and what was signed.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from recnas.data.prepared import SIGNATURE
from recnas.errors import BackendMissing, ConfigError, RunError
from recnas.files import read_bytes, read_json, sha256_file, write_json
from recnas.runs.layout import MANIFEST
from recnas.serve.exported import MODEL
from recnas.trust.verify import kind_of, verify

_LARGEST_KEY = 1 << 16


def new_keys(path: Path | str) -> tuple[Path, Path]:
    """A private key, readable by its owner alone, and the public one beside it, `.pub`."""
    _, ed25519, serialization = _library()
    private, public = Path(path), Path(f"{path}.pub")
    for file in (private, public):
        if file.exists():
            raise ConfigError(f"{file} exists already; keys are never overwritten.", "Choose another name.")
    key = ed25519.Ed25519PrivateKey.generate()
    raw = serialization.Encoding.PEM
    secret = key.private_bytes(raw, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    handle = os.open(private, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(handle, "wb") as file_:
        file_.write(secret)
    public.write_bytes(key.public_key().public_bytes(raw, serialization.PublicFormat.SubjectPublicKeyInfo))
    return private, public


def sign(path: Path | str, key: Path | str) -> Path:
    """Sign a folder, if all of it is what was written."""
    _, ed25519, serialization = _library()
    path = Path(path)
    report = verify(path)
    if not report.well:
        raise RunError(f"{path} is not signed: {'; '.join(report.faults[:5])}")
    try:
        private = serialization.load_pem_private_key(_key(key), password=None)
    except (ValueError, TypeError) as error:
        raise ConfigError(f"{key} is no private key ({error}).", "Make one: recnas sign --new-key team.key") from None
    if not isinstance(private, ed25519.Ed25519PrivateKey):
        raise ConfigError(f"{key} is no Ed25519 key.", "Make one: recnas sign --new-key team.key")
    content = _signed(path)
    public = private.public_key().public_bytes_raw()
    write_json(
        path / SIGNATURE,
        {"format": 1, "algorithm": "ed25519", "public_key": public.hex(), "signature": private.sign(content).hex(), "of": _digest(content)},
    )  # fmt: skip
    return path / SIGNATURE


def check_signature(path: Path | str, key: Path | str) -> None:
    """Raises: RunError unless the folder was signed with the private part of `key` and is unchanged since."""
    exceptions, ed25519, serialization = _library()
    path = Path(path)
    try:
        public = serialization.load_pem_public_key(_key(key))
    except ValueError as error:
        raise ConfigError(f"{key} is no public key ({error}).", "Name the .pub file of the team's key.") from None
    if not isinstance(public, ed25519.Ed25519PublicKey):
        raise ConfigError(f"{key} is no Ed25519 key.")
    try:
        given = read_json(path / SIGNATURE, _LARGEST_KEY)
        signature = bytes.fromhex(given["signature"])
    except (FileNotFoundError, NotADirectoryError):
        raise RunError(f"{path} is not signed.", f"Whoever made it signs it: recnas sign {path} --key KEY") from None
    except (ValueError, KeyError, TypeError):
        raise RunError(f"{path / SIGNATURE} is damaged.") from None
    try:
        public.verify(signature, _signed(path))
    except exceptions.InvalidSignature:
        raise RunError(
            f"{path} was not signed with {key}, or was changed since.", "Do not load it; ask who made it."
        ) from None


def _signed(path: Path) -> bytes:
    """The bytes that are signed: they name every file by its checksum."""
    kind = kind_of(path)
    if kind != "run":
        listing: dict[str, Any] = {(MODEL if kind == "export" else MANIFEST): ""}
    else:
        files = (file for file in path.rglob("*") if file.is_file() and not file.name.startswith("."))
        listing = {str(file.relative_to(path)): "" for file in files if file != path / SIGNATURE}
    listing = {name: sha256_file(path / name) for name in sorted(listing)}
    return b"recnas signature 1\n" + json.dumps({"kind": kind, "files": listing}, sort_keys=True).encode()


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _key(path: Path | str) -> bytes:
    try:
        return read_bytes(Path(path), _LARGEST_KEY)
    except FileNotFoundError:
        raise ConfigError(f"There is no key {path}.", "Make one: recnas sign --new-key team.key") from None


def _library() -> tuple[Any, Any, Any]:
    try:
        from cryptography import exceptions
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise BackendMissing(
            "Signatures need the package cryptography, not installed here.", "pip install cryptography"
        ) from None
    return exceptions, ed25519, serialization
