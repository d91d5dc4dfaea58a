"""Sessions over many items at once, into the evidence cache: on every core, or on a cluster that shares the folders.

The record itself is written in order by one process, which finds everything in the cache then.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from voxgate.bench.items import Item
from voxgate.bench.record import Progress
from voxgate.bench.sets.executor import run_all
from voxgate.bench.systems.cache import EvidenceCache, fingerprint
from voxgate.bench.systems.sessions import NotEnrolled, Sessions
from voxgate.device.errors import InputError

LEAST_ITEMS_A_PROCESS = 8
"""A process loads all models first: for fewer items than these it is not worth it."""
_ONE_AT_A_TIME = threading.Lock()
"""A Dask worker may have several threads, which share the models of its process, and those keep the state of one session."""


def extract(sessions: Sessions, items: Iterable[Item], forced: bool, executor: str | None = None) -> None:
    """Make the event lists that are not there yet. `executor`: address of a Dask scheduler. Raises InputError."""
    heard = {sessions.events_key(item, forced): item for item in items if item.audio is not None}
    missing = [item for key, item in heard.items() if not sessions.cache.has(key)]
    processes = min(os.cpu_count() or 1, len(missing) // LEAST_ITEMS_A_PROCESS)
    if executor is None and processes < 2:
        return  # what runs then extracts as it goes
    folders = sessions.folder.resolve(), sessions.cache.folder.resolve()
    told = (fingerprint(), *folders, sessions.mode, sessions.float_speaker, forced)
    progress = Progress("extraction", len(missing))
    for _ in run_all(_extract, [(*told, item) for item in missing], executor, processes):
        progress.step()


def _extract(made_by: str, folder: Path, cache: Path, mode: str, float_speaker: bool, forced: bool, item: Item) -> None:
    if fingerprint() != made_by:  # what it made would not be found
        raise InputError(
            "a worker has other code, weights or packages than this run; install the same and start it again"
        )
    with _ONE_AT_A_TIME, suppress(NotEnrolled):  # the run says so of each item
        _sessions(folder, cache, mode, float_speaker).events(item, forced)


@functools.lru_cache(maxsize=2)
def _sessions(folder: Path, cache: Path, mode: str, float_speaker: bool) -> Sessions:
    """One a process, so that models are loaded once."""
    return Sessions(folder, mode, EvidenceCache(cache), float_speaker)
