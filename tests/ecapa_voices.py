"""A small ECAPA-TDNN that knows voices: trained with SpeechBrain's network, features and loss in some seconds."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import soundfile

from voxgate.calib.speaker_trials import stretch
from voxgate.calib.splits import calibration_speakers, development_speakers, training_speakers

FIXTURES = Path(__file__).parent / "data" / "voices"
DATA = Path(os.environ.get("VOXGATE_DATA", Path(__file__).parents[2] / "shared" / "data")) / "librispeech-train"
RATE = 16_000
MELS, DIM = 24, 64
STEPS, BATCH, FRAMES = 280, 32, 100
RATES = np.exp(np.linspace(np.log(0.75), np.log(1.35), 10))
"""Where the recordings are absent, one synthesised voice at other rates stands in for others: pitch and tract move together."""


def training_voices() -> list[np.ndarray]:
    """Mono at 16 kHz, one array a speaker."""
    if DATA.is_dir():
        return [_recorded(name) for name in training_speakers(_names())]
    return [_stretched(voice, rate) for voice in _fixtures() for rate in RATES[::2]]


def held_out_voices() -> list[np.ndarray]:
    """The same of speakers that no network was trained on."""
    if DATA.is_dir():
        return [_recorded(name) for name in [*development_speakers(_names()), *calibration_speakers(_names())[:20]]]
    return [_stretched(voice, rate) for voice in _fixtures() for rate in RATES[1::2]]


def write_speakers(folder: Path, voices: list[np.ndarray]) -> Path:
    """One subfolder of recordings a speaker, as `voxgate calibrate speaker` wants it; the second recording at another rate."""
    for number, samples in enumerate(voices):
        place = folder / f"speaker-{number:02}"
        place.mkdir(parents=True)
        half = samples.size // 2
        soundfile.write(place / "one.wav", samples[:half], RATE)
        soundfile.write(place / "two.flac", stretch(samples[half:], 2.0), 2 * RATE)
    return folder


def hyperparams(folder: Path, network: str = "") -> str:
    """What SpeechBrain's `from_hparams` reads, for `architecture()`; `network` are further lines of the network."""
    lists = "".join(f"\n    {name}: {value}" for name, value in architecture().items() if name != "input_size")
    return f"""# as SpeechBrain's own recipes write it
pretrained_path: {folder}
n_mels: {MELS}
compute_features: !new:speechbrain.lobes.features.Fbank
    n_mels: !ref <n_mels>
mean_var_norm: !new:speechbrain.processing.features.InputNormalization
    norm_type: sentence
    std_norm: False
embedding_model: !new:speechbrain.lobes.models.ECAPA_TDNN.ECAPA_TDNN
    input_size: !ref <n_mels>{lists}{network}
classifier: !new:speechbrain.lobes.models.ECAPA_TDNN.Classifier
    input_size: {DIM}
    out_neurons: 2
modules:
    compute_features: !ref <compute_features>
    mean_var_norm: !ref <mean_var_norm>
    embedding_model: !ref <embedding_model>
    classifier: !ref <classifier>
label_encoder: !new:speechbrain.dataio.encoder.CategoricalEncoder
pretrainer: !new:speechbrain.utils.parameter_transfer.Pretrainer
    loadables:
        embedding_model: !ref <embedding_model>
    paths:
        embedding_model: !ref <pretrained_path>/embedding_model.ckpt
"""


def architecture() -> dict[str, object]:
    return {
        "input_size": MELS,
        "lin_neurons": DIM,
        "channels": [32, 32, 32, 32, 64],
        "kernel_sizes": [5, 3, 3, 3, 1],
        "dilations": [1, 2, 3, 4, 1],
        "attention_channels": 32,
        "se_channels": 32,
        "res2net_scale": 4,
    }


def train(folder: Path) -> Path:
    """Train on the training voices and write the folder that SpeechBrain would: hyperparameters and a checkpoint."""
    from voxgate.models.train.compat import prepare_torchaudio

    prepare_torchaudio()
    import torch
    from speechbrain.lobes.features import Fbank
    from speechbrain.lobes.models.ECAPA_TDNN import ECAPA_TDNN, Classifier
    from speechbrain.nnet.losses import AdditiveAngularMargin, LogSoftmaxWrapper

    torch.manual_seed(0)
    generator = np.random.default_rng(0)
    fbank = Fbank(n_mels=MELS)
    with torch.no_grad():
        voices = [fbank(torch.from_numpy(samples)[None])[0] for samples in training_voices()]
    network = ECAPA_TDNN(**architecture())
    classifier = Classifier(DIM, lin_neurons=DIM, out_neurons=len(voices))
    loss = LogSoftmaxWrapper(AdditiveAngularMargin(0.2, 30))
    weights = [*network.parameters(), *classifier.parameters()]
    optimiser = torch.optim.Adam(weights, lr=3e-3, weight_decay=1e-5)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimiser, lambda step: min(1.0, (step + 1) / 20) * max(0.02, 1 - step / STEPS)
    )
    for _ in range(STEPS):
        who = generator.integers(len(voices), size=BATCH)
        starts = [generator.integers(len(voices[index]) - FRAMES) for index in who]
        cuts = [voices[index][start : start + FRAMES] for index, start in zip(who, starts, strict=True)]
        # Every stretch through a channel of its own, so that voices are learned and not recordings.
        colour = np.cumsum(generator.normal(0, 0.3, (BATCH, 1, MELS)), axis=2).astype(np.float32)
        batch = torch.stack(cuts) + torch.from_numpy(colour)
        cost = loss(classifier(network(batch - batch.mean(1, keepdim=True))), torch.from_numpy(who)[:, None])
        optimiser.zero_grad()
        cost.backward()
        optimiser.step()
        schedule.step()
    folder.mkdir(parents=True)
    torch.save(network.state_dict(), folder / "embedding_model.ckpt")
    (folder / "hyperparams.yaml").write_text(hyperparams(folder))
    return folder


def _names() -> list[str]:
    return [path.name for path in DATA.iterdir() if path.is_dir()]


def _recorded(name: str) -> np.ndarray:
    path = min((DATA / name).glob("*.flac"))
    return np.asarray(soundfile.read(path, dtype="float32")[0])


def _fixtures() -> list[str]:
    return sorted(path.name for path in FIXTURES.iterdir() if path.is_dir())


def _stretched(voice: str, rate: float) -> np.ndarray:
    clips = [soundfile.read(path, dtype="float32")[0] for path in sorted((FIXTURES / voice).glob("enrol-*.flac"))]
    return stretch(np.concatenate(clips), float(rate))
