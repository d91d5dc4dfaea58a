"""`voxgate calibrate`: what a model or a device needs to know before its scores mean something."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from voxgate.calib.own_cohort import calibrate_speaker

ROWS = (
    ("eer", "equal error"),
    ("false_accepts", "false accepts"),
    ("false_rejects", "false rejects"),
    ("cllr_bits", "cllr, bits"),
    ("same", "same"),
    ("other", "other"),
)
FEW_WEARERS = 30
"""With fewer voices that calibrate, rates are said to be rough: each voice is more than 3 % of them."""
SHARES = ("eer", "false_accepts", "false_rejects")


def speaker(model: Path, voices: Path, json_output: bool = False) -> int:
    """Make cohort and calibration of a speaker model. Returns 0; raises InputError for what cannot be used."""
    facts = calibrate_speaker(model, voices, _say)
    rows = measured(facts)
    if facts["data"]["wearers"] < FEW_WEARERS:
        _say(
            f"only {facts['data']['wearers']} voices calibrate: the rates are rough, their intervals wide; "
            f"{FEW_WEARERS} or more, beside as many for the cohort, tell more"
        )
    if json_output:
        summary = {
            "model": facts["model"],
            "cohort_speakers": facts["cohort"]["speakers"],
            "calibration_speakers": facts["data"]["speakers"],
            "threshold_llr": facts["default_threshold"]["llr"],
            "initiator_threshold_llr": facts["default_threshold"]["initiator_llr"],
            "measured": rows,
        }
        print(json.dumps(summary, indent=2, ensure_ascii=False))
        return 0
    table = Table()
    for title in ("mode", "speech", *(title for _, title in ROWS)):
        table.add_column(title, no_wrap=title in ("mode", "speech"))
    for row in rows:
        cells = [f"{row[name]:.1%}" if name in SHARES else str(row[name]) for name, _ in ROWS]
        table.add_row(row["mode"], f"{row['seconds']:g} s", *cells)
    console = Console()
    console.print(table)
    console.print(
        f"{facts['model']['name']}: cohort of {facts['cohort']['speakers']} speakers, calibrated on "
        f"{facts['data']['speakers']} others who are compared under simulated rooms, noise and effort; rates on speakers that "
        f"the regression did not see, "
        f"at the thresholds {facts['default_threshold']['llr']} (wearer) and {facts['default_threshold']['initiator_llr']} "
        f"(initiator); written to {model}",
        markup=False,
        soft_wrap=True,
    )
    return 0


def measured(facts: dict[str, Any]) -> list[dict[str, Any]]:
    """Rates over all conditions, one row a mode and length of speech, from what a calibration holds."""
    return [
        {"mode": mode, **row}
        for mode, found in facts["default_threshold"]["measured"].items()
        for row in found["snr_known"]
        if row["condition"] == "all"
    ]


def _say(message: str) -> None:
    print(message, file=sys.stderr, flush=True)
