"""The dashboard's files, ready to be sent."""

from __future__ import annotations

import gzip
from base64 import urlsafe_b64encode
from functools import cache
from hashlib import sha256
from importlib.resources import files
from importlib.resources.abc import Traversable

import msgspec

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "worker-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
TYPES = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
}
INDEX = "index.html"


class File(msgspec.Struct, frozen=True):
    """One file: its content, also compressed, and a tag that changes with it."""

    media: str
    content: bytes
    compressed: bytes
    etag: str


@cache
def dashboard_files() -> dict[str, File]:
    """The files by their path, as in `lib/view.js`."""
    return {path: _file(path, found) for path, found in _walk(files(__package__) / "static", "")}


def _walk(folder: Traversable, prefix: str) -> list[tuple[str, Traversable]]:
    found = []
    for each in folder.iterdir():
        if each.is_dir():
            found += _walk(each, f"{prefix}{each.name}/")
        elif each.name.rpartition(".")[2] in TYPES:
            found.append((prefix + each.name, each))
    return sorted(found, key=lambda each: each[0])


def _file(path: str, found: Traversable) -> File:
    content = found.read_bytes()
    tag = urlsafe_b64encode(sha256(content).digest()[:12]).decode()
    compressed = gzip.compress(content, 9, mtime=0)
    return File(TYPES[path.rpartition(".")[2]], content, compressed, f'"{tag}"')
