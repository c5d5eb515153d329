"""A record as a line: JSON that ends with a checksum of all that stands before it.

No bit of a line can change unnoticed: not in the key, not in the fingerprint, not in a number, not in the
checksum, and not in the line end, which would make one line of two. Floats are written with all their digits.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any, NamedTuple

Key = tuple[str | int, ...]  # of the same kind throughout a store, since keys are sorted
Record = dict[str, Any]  # of what JSON has: texts as keys; tuples come back as lists

CHECK = b', "check": "'


class Entry(NamedTuple):
    """What a line says: a record, its key, and what made it."""

    key: Key
    made_with: dict[str, str]
    record: Record


def encode(entry: Entry) -> bytes:
    """The line, with its end."""
    text = json.dumps({**entry._asdict(), "key": list(entry.key)}, default=_plain)
    body = text.encode()[:-1]  # without the closing brace
    return body + CHECK + _checksum(body) + b'"}\n'


def decode(line: bytes) -> Entry | None:
    """What a line (without its end) says; None if it is damaged or cut short."""
    body, separator, rest = line.rpartition(CHECK)
    if not separator or rest != _checksum(body) + b'"}':
        return None
    entry = json.loads(body + b"}")
    if set(entry) != set(Entry._fields):
        return None
    return Entry(tuple(entry["key"]), entry["made_with"], entry["record"])


def _checksum(body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=16).hexdigest().encode()


def _plain(value: Any) -> Any:
    """A number of numpy as one of Python."""
    return value.item()
