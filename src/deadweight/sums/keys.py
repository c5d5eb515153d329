"""Keys under which sums are kept: hashed once, since hundreds of them are looked up thousands of times."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any


class Key:
    """Equal to another with equal parts."""

    __slots__ = ("_hash", "parts")

    def __init__(self, *parts: Hashable) -> None:
        self.parts = parts
        self._hash = hash(parts)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, Key) and self._hash == other._hash and self.parts == other.parts

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[type[Key], tuple[Any, ...]]:
        return Key, self.parts  # another process has other hashes
