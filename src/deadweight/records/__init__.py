"""Records: finished runs on disk, so that what was computed once is never lost and never computed again.

`Store` keeps records under keys, one line each, with a checksum and the fingerprint of what made it; `fill`
makes those that are missing, side by side, and keeps each as soon as it is there. Everything long that
deadweight does (`reproduce`, `study`, `coverage`) stands on these two.

    store = Store(folder / "cell.jsonl", {"version": __version__, "settings": digest(seed, level)})
    for job in fill([Job(store, (run,), ("cell", run)) for run in range(100)], make, workers=2):
        ...                 # job.key has just been made, by make("cell", run)
    store.tidy()            # the same records are now the same bytes, however they came
"""

from __future__ import annotations

from deadweight.records.fill import Job, fill
from deadweight.records.fingerprint import digest
from deadweight.records.lines import Key, Record
from deadweight.records.store import Store, last_made_with, remarks

__all__ = ["Job", "Key", "Record", "Store", "digest", "fill", "last_made_with", "remarks"]
