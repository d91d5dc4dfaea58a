"""Runs many jobs: in this process, in one process a core, or on a Dask cluster. Which of them changes no result."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import Any, TypeVar

from voxgate.bench.processes import begin_worker
from voxgate.device.errors import InputError, VoxgateError

WAITING_A_PROCESS = 2
"""Jobs handed out for every process: results are large, so that no more of them lie about."""
CONNECT_SECONDS = 10
_ADDRESS = re.compile(r"((tcp|tls)://)?(\[[0-9a-fA-F:.]+\]|[^\s/:\[\]]+):(?P<port>[0-9]{1,5})")

Result = TypeVar("Result")


def run_all(
    function: Callable[..., Result],
    jobs: Sequence[tuple[Any, ...]],
    address: str | None = None,
    processes: int | None = None,
) -> Iterator[tuple[int, Result]]:
    """(number of the job, what `function(*job)` returned) as they come. `processes` is the count of cores unless given; one
    means here. Raises what a job raises, InputError for a scheduler out of reach and VoxgateError for a process that died."""
    if address is not None:
        yield from _on_cluster(function, jobs, address)
        return
    processes = min(processes or os.cpu_count() or 1, len(jobs))
    if processes <= 1:
        for number, job in enumerate(jobs):
            yield number, function(*job)
        return
    pool = ProcessPoolExecutor(processes, multiprocessing.get_context("spawn"), begin_worker)
    try:
        waiting: dict[Any, int] = {}
        left = iter(enumerate(jobs))
        while True:
            while len(waiting) < WAITING_A_PROCESS * processes and (next_one := next(left, None)) is not None:
                waiting[pool.submit(function, *next_one[1])] = next_one[0]
            if not waiting:
                return
            for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                number = waiting.pop(future)
                yield number, future.result()
    except BrokenProcessPool as error:
        raise VoxgateError("a process of the build ended by itself (out of memory?); the same call goes on") from error
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def check_address(address: str) -> None:
    """Raises InputError for what is no scheduler's address: Dask's client takes anything, and ends in a traceback."""
    found = _ADDRESS.fullmatch(address)
    if found is None or not 0 < int(found["port"]) < 2**16:
        raise InputError(f"--executor {address!r}: no address; give that of a Dask scheduler, such as tcp://host:8786")


def _on_cluster(
    function: Callable[..., Result], jobs: Sequence[tuple[Any, ...]], address: str
) -> Iterator[tuple[int, Result]]:
    check_address(address)
    try:
        distributed: Any = importlib.import_module("distributed")
    except ModuleNotFoundError as error:
        raise InputError(f"--executor needs {error.name}: pip install 'voxgate[bench]'") from error
    try:
        client = distributed.Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError) as error:  # a time-out is an OSError
        raise InputError(f"--executor {address}: no Dask scheduler answers ({error})") from error
    with client:
        most = WAITING_A_PROCESS * max(1, len(client.scheduler_info()["workers"]))
        left = iter(enumerate(jobs))
        numbers: dict[str, int] = {}

        def submit(job: tuple[int, tuple[Any, ...]]) -> Any:
            future = client.submit(function, *job[1], pure=False)
            numbers[future.key] = job[0]
            return future

        first = [submit(job) for _, job in zip(range(most), left, strict=False)]
        going = distributed.as_completed(first, loop=client.loop)
        for future in going:
            try:
                result = future.result()
            except distributed.KilledWorker as error:
                raise VoxgateError(
                    f"--executor {address}: workers died of a job ({error}); the same call goes on"
                ) from error
            yield numbers.pop(future.key), result
            future.release()
            if (job := next(left, None)) is not None:
                going.add(submit(job))
