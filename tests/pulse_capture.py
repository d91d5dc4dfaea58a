"""Run by tests in a process of its own: captures with MicSource, writes what it heard, says what happens as JSON lines.

Argument: JSON with `device`, `out` (npz: samples, starts, flags) and MicSource's options; `stall_seconds` makes the
reader sleep once after `stall_after_blocks` (1). Ends at a line on stdin or a fatal fault.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from typing import Any

import numpy as np

from voxgate.device.blocks import Flag, SourceFault
from voxgate.device.errors import VoxgateError
from voxgate.device.mic import MicSource
from voxgate.device.portaudio import quiet_native_stderr


def say(kind: str, **facts: Any) -> None:
    print(json.dumps({"kind": kind, "monotonic": time.monotonic(), **facts}), flush=True)


def main() -> int:
    options = json.loads(sys.argv[1])
    out, stall_seconds = options.pop("out"), options.pop("stall_seconds", 0.0)
    stall_after_blocks = options.pop("stall_after_blocks", 1)
    blocks = []
    with quiet_native_stderr():
        try:
            source = MicSource(**options)
        except VoxgateError as error:
            say("error", message=str(error), exit_status=error.exit_status)
            return error.exit_status
        say("opened", **source.opened.as_json())

        def stop_on_request() -> None:
            sys.stdin.readline()
            source.close()

        threading.Thread(target=stop_on_request, daemon=True).start()
        for item in source.blocks():
            if isinstance(item, SourceFault):
                say("fault", code=item.code, message=item.message, fatal=item.fatal)
                continue
            blocks.append(item)
            if len(blocks) == 1:
                began = time.monotonic() - len(item.samples) / item.rate - source.age_seconds()
                say("first", start=item.start)
            if Flag.GAP in item.flags:
                say("gap", start=item.start, before=blocks[-2].end, overflow=Flag.OVERFLOW in item.flags)
            if stall_seconds and len(blocks) == stall_after_blocks:
                time.sleep(stall_seconds)
                say("awake", backlog_seconds=source.backlog_seconds())
        elapsed = time.monotonic() - began if blocks else 0.0
        begin = time.monotonic()
        source.close()
    np.savez(
        out,
        samples=np.concatenate([block.samples for block in blocks]) if blocks else np.zeros((0, source.channels)),
        starts=np.array([block.start for block in blocks]),
        counts=np.array([len(block.samples) for block in blocks]),
    )
    say(
        "summary",
        received=source.received,
        lost=source.lost,
        overflow_flags=source.overflow_flags,
        drift_ppm=source.drift_ppm,
        elapsed=elapsed,
        close_seconds=time.monotonic() - begin,
        age_seconds=source.age_seconds(),
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
