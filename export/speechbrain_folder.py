"""Reads a speaker model as SpeechBrain keeps it, without running anything that is in it.

SpeechBrain's own loader obeys `hyperparams.yaml`: `!new:`, `!apply:` and `!include:` call any code, and its checkpoints are
pickles. Here the file is only parsed. Three of its entries are looked at, each must be the class that is expected, with
arguments from a fixed list whose values are plain or a `!ref` to a plain value; everything else in the file is left alone and
does nothing. The checkpoint is read as tensors; a pickle that holds more is refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import yaml  # type: ignore[import-untyped]

from voxgate.device.errors import InputError
from voxgate.models.fbank import FbankParameters
from voxgate.models.settings import RATE

HYPERPARAMS = "hyperparams.yaml"
CHECKPOINT = "embedding_model.ckpt"
MOST_BYTES = 1_000_000
MOST_UNITS = 16_384
"""No layer is wider; a number far above is a slip, and would ask for more memory than there is."""

_LISTS = ("channels", "kernel_sizes", "dilations", "groups")
_NUMBERS = ("input_size", "lin_neurons", "attention_channels", "res2net_scale", "se_channels")
_WITHOUT_EFFECT = {"device", "dropout", "left_frames", "right_frames", "param_rand_factor", "param_change_factor"}
"""Arguments that change nothing once a network is trained and its filters are fixed."""


@dataclass(frozen=True, slots=True)
class EcapaSource:
    """`architecture`: arguments of SpeechBrain's `ECAPA_TDNN`; `front`: its features; `state`: its tensors in float32."""

    architecture: dict[str, Any]
    front: FbankParameters
    state: dict[str, torch.Tensor]


def read_folder(folder: Path) -> EcapaSource:
    """Raises InputError, in one line that says what is not supported, for anything but an ECAPA-TDNN over `Fbank` features
    with sentence mean normalisation, and for files that are missing or damaged."""
    path = folder / HYPERPARAMS
    entries = _entries(path)
    features = _arguments(path, entries, "compute_features", "speechbrain.lobes.features.Fbank")
    norm = _arguments(path, entries, "mean_var_norm", "speechbrain.processing.features.InputNormalization")
    network = _arguments(path, entries, "embedding_model", "speechbrain.lobes.models.ECAPA_TDNN.ECAPA_TDNN")
    front = _front(path, features)
    if (norm.pop("norm_type", "global"), norm.pop("std_norm", True), norm.pop("mean_norm", True)) != (
        "sentence",
        False,
        True,
    ) or norm:
        raise InputError(f"{path}: mean_var_norm: only norm_type sentence with std_norm False is supported")
    architecture = _architecture(path, network)
    if architecture.get("input_size") != front.mels:
        raise InputError(f"{path}: embedding_model: input_size is not the {front.mels} mels of compute_features")
    return EcapaSource(architecture, front, _state(folder / CHECKPOINT))


def _entries(path: Path) -> dict[str, Any]:
    """Top-level names and their YAML nodes; nothing is constructed."""
    try:
        if path.stat().st_size > MOST_BYTES:
            raise InputError(f"{path}: too large for a file of hyperparameters")
        root = yaml.compose(path.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}; name a folder that SpeechBrain's from_hparams takes") from error
    except (ValueError, yaml.YAMLError, RecursionError) as error:
        raise InputError(f"{path}: not YAML ({str(error).splitlines()[0]})") from error
    if not isinstance(root, yaml.MappingNode):
        raise InputError(f"{path}: holds no names and values")
    return _named(path, root)


def _named(path: Path, node: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode) or key.value in found:
            raise InputError(f"{path}: {getattr(key, 'value', 'a key')} is no name, or is there twice")
        found[key.value] = value
    return found


def _arguments(path: Path, entries: dict[str, Any], name: str, wanted: str) -> dict[str, Any]:
    """The plain arguments that the entry `name` gives to the class `wanted`."""
    node = entries.get(name)
    if node is None:
        raise InputError(f"{path}: no {name}; only SpeechBrain's ECAPA-TDNN speaker models can be exported")
    if node.tag != f"!new:{wanted}" or not isinstance(node, yaml.MappingNode):
        raise InputError(f"{path}: {name} is {node.tag[:80]!r}; only !new:{wanted} is supported")
    return {key: _value(path, entries, f"{name}: {key}", value) for key, value in _named(path, node).items()}


def _value(path: Path, entries: dict[str, Any], place: str, node: Any, depth: int = 0) -> Any:
    if node.tag == "!ref":
        reference = re.fullmatch(r"<(\w+)>", str(node.value))
        target = entries.get(reference[1]) if reference else None
        if target is None or depth > 8:
            raise InputError(f"{path}: {place}: only !ref <name> to a plain value is supported")
        return _value(path, entries, place, target, depth + 1)
    if node.tag == "!name:torch.nn.ReLU":  # the default, spelt out
        return "relu"
    if isinstance(node, yaml.SequenceNode) and node.tag == "tag:yaml.org,2002:seq" and len(node.value) <= 16:
        return [_value(path, entries, place, item, depth + 1) for item in node.value]
    try:
        if isinstance(node, yaml.ScalarNode):
            return yaml.constructor.SafeConstructor().construct_object(node)
    except (yaml.YAMLError, ValueError):
        pass
    raise InputError(f"{path}: {place}: {node.tag[:80]!r} is not supported; plain values are")


def _front(path: Path, given: dict[str, Any]) -> FbankParameters:
    """`Fbank`'s arguments (its defaults where they are not given) as our own parameters."""
    fixed = {"deltas": False, "context": False, "requires_grad": False, "filter_shape": "triangular"}
    for name, value in fixed.items():
        if given.pop(name, value) != value:
            raise InputError(f"{path}: compute_features: only {name} {value} is supported")
    numbers: dict[str, Any] = {"sample_rate": 16000, "f_min": 0, "f_max": None, "n_fft": 400}
    numbers |= {"n_mels": 40, "win_length": 25, "hop_length": 10}
    for name in list(given):
        if name in numbers:
            numbers[name] = given.pop(name)
        elif name in _WITHOUT_EFFECT:
            del given[name]
    if given:
        raise InputError(f"{path}: compute_features: {next(iter(given))} is not supported")
    if numbers["f_max"] is None:
        numbers["f_max"] = 8000
    if not all(isinstance(value, int | float) and 0 <= value <= MOST_UNITS for value in numbers.values()):
        raise InputError(f"{path}: compute_features: a value is no number in range")
    window, hop = (round(numbers[name] * RATE / 1000) for name in ("win_length", "hop_length"))
    sane = (
        numbers["sample_rate"] == RATE
        and 1 <= hop <= window <= numbers["n_fft"]
        and isinstance(numbers["n_fft"], int)
        and isinstance(numbers["n_mels"], int)
        and 8 <= numbers["n_mels"] <= 512
        and numbers["f_min"] < numbers["f_max"] <= RATE / 2
    )
    if not sane:
        raise InputError(f"{path}: compute_features: windows, mels or frequencies that do not fit sound at {RATE} Hz")
    return FbankParameters(
        window_samples=window,
        hop_samples=hop,
        fft_samples=numbers["n_fft"],
        mels=numbers["n_mels"],
        lowest_hz=float(numbers["f_min"]),
        highest_hz=float(numbers["f_max"]),
    )


def _architecture(path: Path, given: dict[str, Any]) -> dict[str, Any]:
    if given.pop("activation", "relu") != "relu":
        raise InputError(f"{path}: embedding_model: only the activation torch.nn.ReLU is supported")
    found: dict[str, Any] = {}
    for name, value in given.items():
        if name in _WITHOUT_EFFECT:
            continue
        if name in _LISTS:
            right = isinstance(value, list) and all(map(_is_count, value))
        else:
            right = isinstance(value, bool) if name == "global_context" else name in _NUMBERS and _is_count(value)
        if not right:
            raise InputError(f"{path}: embedding_model: {name} = {str(value)[:40]} is not supported")
        found[name] = value
    return found


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MOST_UNITS


def _state(path: Path) -> dict[str, torch.Tensor]:
    try:
        found = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file; the folder must hold the trained network") from error
    except (OSError, ValueError, RuntimeError, EOFError, AttributeError) as error:
        raise InputError(
            f"{path}: not a checkpoint ({(str(error) or type(error).__name__).splitlines()[0]})"
        ) from error
    except Exception as error:  # torch's refusal of a pickle that runs code has no public class
        raise InputError(f"{path}: not plain tensors; only checkpoints without code are read") from error
    if not isinstance(found, dict) or not all(isinstance(value, torch.Tensor) for value in found.values()):
        raise InputError(f"{path}: not a network's tensors by name")
    state = {
        str(name): value.detach().float().contiguous() if value.is_floating_point() else value.detach().contiguous()
        for name, value in found.items()
    }
    bad = next((name for name, value in state.items() if not torch.isfinite(value).all()), None)
    if bad is not None:
        raise InputError(f"{path}: {bad} holds values that are not finite; train it again")
    return state
