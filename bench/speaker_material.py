"""The speaker network's training material with synthesised voices among it, where their engines are installed."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from voxgate.bench.voices import say
from voxgate.calib.speaker_rendering import SEED, RenderedVoice, render
from voxgate.device.errors import InputError
from voxgate.models.evidence import Floats
from voxgate.models.settings import RATE

TRAINING_STYLES = ("alpha", "tebukuro", "kumo")
DEVELOPMENT_VOICES = ("gongitsune", "nezumi")
"""Styles of their own, and a hard pair."""
PARTS = 5
SECONDS = 11.0
_GAP_SECONDS = 0.25

SENTENCES = (
    "A tall man in a grey coat was waiting at the corner with two paper bags.",
    "Most of the shops had already closed, but the bakery kept its lights on until nine.",
    "She put the letter back into the drawer and looked out over the harbour.",
    "There is a quiet place behind the church where the children used to play football.",
    "Nobody expected the bridge to be finished before the first snow of the year.",
    "His grandfather had built the cupboard from the wood of a very old pear tree.",
    "When the concert ended, we could hear the rain on the roof of the hall.",
    "The blue boat belongs to a teacher who sails every weekend from May to October.",
    "They argued about the price for an hour and then shared a pot of tea.",
    "Please remember that the museum opens late on Thursdays and has no cafe.",
    "Yesterday a large white bird landed on our balcony and stayed there all morning.",
    "My neighbour repairs watches, radios and nearly everything else with small screws.",
)


def training_mixtures() -> list[str]:
    """Names of the training voices: every mixture of the training styles in fifths, the pure ones among them."""
    names = []
    for first, second in itertools.product(range(PARTS + 1), repeat=2):
        shares = (first, second, PARTS - first - second)
        if shares[2] >= 0:
            parts = [
                f"{share / PARTS:.1f} {style}" for share, style in zip(shares, TRAINING_STYLES, strict=True) if share
            ]
            names.append(" + ".join(parts))
    return names


def synthesised_voices(seed: int = SEED) -> Iterator[RenderedVoice]:
    """About eleven seconds of each synthesised voice. Raises InputError when the engines are not installed."""
    generator = np.random.default_rng([seed, 3])
    roles = {"heart": "train"} | dict.fromkeys(training_mixtures(), "train")
    for voice, role in (roles | dict.fromkeys(DEVELOPMENT_VOICES, "development")).items():
        parts: list[Floats] = []
        for place in generator.permutation(len(SENTENCES)):
            parts += [say(SENTENCES[place], voice, seed=int(place)), np.zeros(round(_GAP_SECONDS * RATE), np.float32)]
            if sum(part.size for part in parts) >= SECONDS * RATE:
                break
        yield RenderedVoice(voice, f"synthesised {voice}", role, np.concatenate(parts))


def render_with_synthesis(data: Path, out: Path, seed: int = SEED) -> Path:
    """As `render`, with the synthesised voices; without their engines it says so and goes on with people alone."""
    if (out / "material.json").is_file():
        return out
    try:
        voices = list(synthesised_voices(seed))
    except InputError as error:
        print(f"no synthesised voices ({error})", file=sys.stderr)
        voices = []
    return render(data, out, voices, seed)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python -m voxgate.bench.speaker_material DATA OUT")
    render_with_synthesis(Path(sys.argv[1]), Path(sys.argv[2]))
