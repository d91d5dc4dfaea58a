"""Turns SpeechBrain's ECAPA-TDNN into a model folder: safetensors to go on from, one ONNX file to run, golden values, a card.

The front end stays outside the graph (`models.fbank`), where it costs less than inside; the length of the embedding is brought
to 1 inside, so that parity and golden values mean the same for any network.
"""

from __future__ import annotations

import importlib
import re
import urllib.error
import urllib.request
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.torch import save_file

from voxgate.device.errors import InputError
from voxgate.export.graph import OPSET, parity, require_parity, to_onnx, write_golden
from voxgate.export.speechbrain_folder import CHECKPOINT, HYPERPARAMS, EcapaSource, read_folder
from voxgate.models.evidence import Floats
from voxgate.models.nets.ecapa import EcapaGraph
from voxgate.models.runtime import sha256_of, write_json
from voxgate.models.train.compat import prepare_torchaudio

GOLDEN_SEED = 20200514
SPREAD_DB = 10
"""About how far speech's decibels lie from their mean."""
SHORTEST_SECONDS = 0.6
LONGEST_SECONDS = 6.0
"""Longest stretch in one pass: memory stays bounded, and statistics over more say little more."""
HUB_SECONDS = 10.0
HUB_ID = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*")


def export_ecapa(source: str, out: Path) -> dict[str, float]:
    """Write `config.json`, `README.md`, `model.safetensors`, `onnx/model.onnx` and `golden.json` into the folder `out`.

    `source`: a folder as SpeechBrain's `from_hparams` takes it, or the id of one on the hub. Nothing in it is executed (see
    `speechbrain_folder`). Returns the largest absolute difference between torch and ONNX for each batch size and length, and
    raises InputError when one is above 1e-4, or when the source is absent, damaged or of a kind that is not supported.
    """
    folder = _local(source)
    found = read_folder(folder)
    net = build(found, folder / CHECKPOINT)
    graph = out / "onnx" / "model.onnx"
    try:
        graph.parent.mkdir(parents=True, exist_ok=True)
        save_file(found.state, out / "model.safetensors")
        (out / "model.safetensors").chmod(0o644)  # written for its owner alone otherwise
    except OSError as error:
        raise InputError(f"{out}: cannot be written ({error.strerror}); name another folder with --out") from error
    mels = found.front.mels
    to_onnx(net, graph, mels, ("features", "embedding"))
    differences = parity(net, graph, lambda batch, frames, generator: _decibels((batch, frames, mels), generator))
    require_parity(differences, graph)
    config = {
        "name": Path(source).resolve().name,
        "kind": "ecapa",
        "dim": int(found.state["fc.conv.weight"].shape[0]),
        "rate": found.front.rate,
        "shortest_seconds": SHORTEST_SECONDS,
        "longest_seconds": LONGEST_SECONDS,
        "features": asdict(found.front),
        "architecture": found.architecture,
        "opset": OPSET,
        "sha256": sha256_of(graph),
    }
    shape = [2, 160, mels]
    facts = {"input": "features", "output": "embedding", "seed": GOLDEN_SEED, "shape": shape, "scale": SPREAD_DB}
    write_golden(net, out / "golden.json", facts)
    parameters = sum(value.numel() for value in found.state.values() if value.is_floating_point())
    (out / "README.md").write_text(_card(config, parameters, differences, graph.stat().st_size), encoding="utf-8")
    write_json(out / "config.json", config)
    return differences


def build(source: EcapaSource, checkpoint: Path) -> EcapaGraph:
    """SpeechBrain's own class with the tensors of the source in it, ready to be run. Raises InputError where they do not fit.

    `checkpoint` is named in errors.
    """
    prepare_torchaudio()
    from speechbrain.lobes.models.ECAPA_TDNN import ECAPA_TDNN

    try:
        network = ECAPA_TDNN(**source.architecture)
    except (AssertionError, RuntimeError, ValueError, IndexError) as error:
        raise InputError(f"{checkpoint.with_name(HYPERPARAMS)}: embedding_model: sizes that do not fit") from error
    wanted = network.state_dict()
    wrong = [name for name, value in wanted.items() if getattr(source.state.get(name), "shape", None) != value.shape]
    wrong += [name for name in source.state if name not in wanted]
    if wrong:
        raise InputError(
            f"{checkpoint}: not this network's tensors ({wrong[0]} is missing, unknown or of another shape)"
        )
    network.load_state_dict(source.state)
    graph = EcapaGraph(network)
    graph.eval()
    return graph


def _local(source: str) -> Path:
    """The folder itself, or the two files of a hub id, fetched. Raises InputError when neither is there."""
    folder = Path(source)
    if folder.is_dir():
        return folder
    if not HUB_ID.fullmatch(source):
        raise InputError(f"{source}: no such folder; name one that holds {HYPERPARAMS} and {CHECKPOINT}, or a hub id")
    hub = importlib.import_module("huggingface_hub")
    unreachable = _unreachable(hub.hf_hub_url(source, HYPERPARAMS))
    try:
        names = (HYPERPARAMS, CHECKPOINT)
        paths = [Path(hub.hf_hub_download(source, name, local_files_only=unreachable)) for name in names]
    except Exception as error:  # a dozen classes, from no such model to no right to it
        reason = "it cannot be reached" if unreachable else type(error).__name__
        raise InputError(
            f"{source}: no such folder, and not to be had from the hub ({reason}); name a folder that holds {HYPERPARAMS} and "
            f"{CHECKPOINT}"
        ) from error
    return paths[0].parent


def _unreachable(url: str) -> bool:
    """Asked before the hub's own library is, which would try again for half a minute, aloud. What was fetched before is used
    then."""
    try:
        urllib.request.urlopen(urllib.request.Request(url, method="HEAD"), timeout=HUB_SECONDS).close()
    except urllib.error.HTTPError:  # it answers, if only to refuse
        return False
    except OSError:
        return True
    return False


def _decibels(shape: tuple[int, int, int], generator: np.random.Generator) -> Floats:
    return np.asarray(SPREAD_DB * generator.standard_normal(shape), np.float32)


def _card(config: dict[str, Any], parameters: int, differences: dict[str, float], size: int) -> str:
    front = config["features"]
    dim, mels = config["dim"], front["mels"]
    return f"""---
library_name: onnx
tags: [speaker-verification, ecapa-tdnn, speechbrain]
---
# {config["name"]}: ECAPA-TDNN speaker embeddings

**What it is.** A speaker encoder (Desplanques et al., Interspeech 2020) trained with SpeechBrain and exported from there:
{parameters / 1e6:.2f} million parameters, {size / 1e6:.1f} MB in fp32, {dim} values for a stretch of speech of
{config["shortest_seconds"]} to {config["longest_seconds"]} s. Weights and licence are those of the source; which voices it was
trained on, and what it may be used for, is to be read there.

**Files.** `onnx/model.onnx` (input `features` (batch, frames, {mels}), output `embedding` (batch, {dim}), each of length 1),
`model.safetensors` (SpeechBrain's names, to go on training), `config.json` (front end, sizes, sha256 of the graph),
`golden.json` (values that must come out before the model is used).

**Front end.** {config["rate"]} Hz, windows of {front["window_samples"]} samples every {front["hop_samples"]}, {mels} mel bands
in decibels, less their mean over the stretch: SpeechBrain's `Fbank` and sentence normalisation, computed in numpy.

**Against torch.** Largest difference {max(differences.values()):.1e}, for batches and frames of {", ".join(differences)}.

**Before it decides anything** it needs a cohort and a calibration of its own:
`voxgate calibrate speaker --model FOLDER --voices DIR`. Until then every speaker is unknown, and unknown mutes.
"""
