"""`voxgate decide`: words only, the text-only control. No audio, no source, no distance: what the words alone ask for."""

from __future__ import annotations

import json
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

from voxgate.models.events import strongest_first
from voxgate.models.gate import word_reasons
from voxgate.models.tools import grammar
from voxgate.models.tools.schema import ToolSet, load_tools
from voxgate.models.tools.understand import understand
from voxgate.tui.config import resolve


def decide(text: str, tools_path: Path | None, json_output: bool) -> int:
    """Print the canonical output for a text, or all that is known about it as one JSON object. Returns the exit status.

    Raises InputError for a bad tools file.
    """
    tools = load_tools(tools_path)
    record = decision(text, tools, datetime.now(), resolve().settings.addressed_threshold)
    line = json.dumps(record, ensure_ascii=False, allow_nan=False) if json_output else str(record["output"])
    # A terminal that cannot show a character gets it escaped rather than a traceback.
    encoding = sys.stdout.encoding or "utf-8"
    print(line.encode(encoding, "backslashreplace").decode(encoding))
    if not json_output:
        why = ", ".join(record["reasons"]) or (
            record["missing"] and f"{record['tool']} needs {', '.join(record['missing'])}"
        )
        print(f"{record['action']}{f': {why}' if why else ''}", file=sys.stderr)
    return 0


def decision(
    text: str, tools: ToolSet, reference: datetime | None = None, addressed_threshold: float = 0.5
) -> dict[str, Any]:
    """What the words alone come to: action, tool, params, normalised, missing, output, addressed, reasons, text."""
    understood = understand(text, tools, reference=reference)
    reasons = strongest_first(word_reasons(understood, addressed_threshold))
    action = "mute" if reasons else understood.kind
    words = text.split()
    first, last = understood.span
    output = grammar.render(action, understood.tool, understood.params, " ".join(words))
    checked = grammar.parse(output, tools)
    if action == "tool" and not isinstance(checked, grammar.Parsed):
        action, output, reasons = "mute", grammar.MUTE, ["malformed_call"]
    acts = action != "mute"
    return {
        "action": action,
        "tool": understood.tool if acts else None,
        "params": understood.params if acts and understood.tool else None,
        "normalised": understood.normalised if acts else {},
        "missing": list(understood.missing) if acts else [],
        "output": output,
        "addressed": round(understood.addressed, 4),
        "reasons": reasons,
        "text": text,
        "span": [first, last],
    }
