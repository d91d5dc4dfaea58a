"""Which speaker encoder a model folder holds."""

from __future__ import annotations

import json
from pathlib import Path

from voxgate.device.errors import InputError
from voxgate.models.ecapa import EcapaEncoder
from voxgate.models.evidence import SpeakerEncoder
from voxgate.models.ge2e import Ge2eEncoder


def load_encoder(folder: Path) -> SpeakerEncoder:
    """The encoder that `kind` in the folder's `config.json` names: `ge2e` (also when there is no `kind`) or `ecapa`.

    Raises InputError when the folder is no model, is damaged, does not reproduce its golden values, or is of another kind.
    """
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        kind = config.get("kind", "ge2e")
    except (OSError, ValueError, AttributeError, RecursionError) as error:
        raise InputError(f"{folder}: not a speaker model ({error}); export the model again") from error
    if kind == "ge2e":
        return Ge2eEncoder(folder)
    if kind == "ecapa":
        return EcapaEncoder(folder)
    raise InputError(f"{folder}: a model of kind {kind!r}, not a speaker model this voxgate knows (ge2e, ecapa)")
