"""`voxgate demo`: the gate over the bundled two-person recording."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from rich.console import Console

from voxgate.device.arrays import load_array
from voxgate.device.files import FileSource
from voxgate.models.extractors import load_extractors
from voxgate.models.profile import load_profile
from voxgate.models.session import Session
from voxgate.models.settings import GateSettings
from voxgate.models.tools.schema import load_tools
from voxgate.tui.running import drive, make_recogniser
from voxgate.tui.sinks import JsonLines, Sink, Transcript

DEMO = Path(__file__).parent / "demo"


def demo(jsonl: str | None = None, paced: bool = False) -> int:
    """Who says what comes from the script that the recording was made from; the gate does not see it."""
    script = json.loads((DEMO / "script.json").read_text(encoding="utf-8"))
    sink: Sink = JsonLines(jsonl) if jsonl else Transcript(Console(), blocks=True)
    console = Console(stderr=jsonl == "-")
    source = FileSource(DEMO / "scene.flac", paced=paced)
    profile = load_profile(DEMO / "wearer")
    array = load_array(script["array"])
    console.print(f"[bold]{script['title']}[/bold] ({array.name}, {array.channels} channels, all voices synthesised)")
    for line in script["lines"]:
        console.print(f"{line['t0']:7.2f} s  {line['speaker']:<10} “{line['text']}”", highlight=False)
    console.print()
    tools = load_tools(None)
    session = Session(
        load_extractors(make_recogniser(tools)),
        GateSettings(),
        array,
        tools,
        source="demo",
        rate=source.rate,
        profile=profile,
        clock=time.perf_counter,
    )
    acts = 0
    for event in drive(session, source):
        sink.take(event)
        acts += event.kind == "decision" and getattr(event, "action", "mute") != "mute"
    sink.close()
    source.close()
    if not acts:
        print("voxgate: the demo should have acted and did not; is the recogniser installed?", file=sys.stderr)
        return 1
    return 0
