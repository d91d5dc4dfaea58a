"""Speed and size of graphs, and what the processor that they were measured on can do."""

from __future__ import annotations

import platform
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from voxgate.models.evidence import Floats

ROUNDS = 60
_CAPABILITIES = ("avx2", "avx512f", "avx512_vnni", "avx_vnni", "amx_int8", "asimddp", "i8mm")


def speeds(sessions: Mapping[str, Any], feed: Mapping[str, Floats], rounds: int = ROUNDS) -> dict[str, float]:
    """Median milliseconds of one pass on one thread, the graphs taking turns so that a busy machine slows all alike.

    Time of the calling thread, which does all the work, not of the clock: other programs' share is no cost of the graph.
    """
    taken: dict[str, list[float]] = {name: [] for name in sessions}
    for session in sessions.values():
        session.run(None, dict(feed))
    names = list(sessions)
    for round_ in range(rounds):
        for name in names if round_ % 2 else reversed(names):
            begun = time.thread_time()
            sessions[name].run(None, dict(feed))
            taken[name].append(time.thread_time() - begun)
    return {name: 1000 * float(np.median(times)) for name, times in taken.items()}


def processor() -> dict[str, Any]:
    """Architecture, model, and those of its instructions that int8 products use; empty where the system does not say."""
    flags: set[str] = set()
    model = platform.processor()
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            name, _, value = line.partition(":")
            if name.strip() in ("flags", "Features"):
                flags.update(value.split())
            elif name.strip() == "model name":
                model = value.strip()
    except OSError:
        pass
    found = [name for name in _CAPABILITIES if name in flags]
    return {
        "architecture": platform.machine(),
        "model": model,
        "instructions": found,
        "vnni": any(name.endswith("_vnni") for name in found),
    }
