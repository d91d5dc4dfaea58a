"""Makes golden.npz: a test sound and its features by SpeechBrain's Fbank.

make test-train, then .venv/bin/python tests/data/fbank/make_golden.py
"""

from importlib.metadata import version
from pathlib import Path

import numpy as np

RATE = 16_000


def main() -> None:
    from voxgate.models.train.compat import prepare_torchaudio

    prepare_torchaudio()
    import torch
    from speechbrain.lobes.features import Fbank
    from speechbrain.processing.features import InputNormalization

    generator = np.random.default_rng(4)
    time = np.arange(RATE // 4) / RATE
    sound = 0.3 * np.sin(2 * np.pi * (100 * time + 12_000 * time**2)) + 0.02 * generator.standard_normal(time.size)
    sound[1500:2300] = 0.0
    pcm = np.round(np.clip(sound, -1, 1) * 32767).astype(np.int16)
    wav = torch.from_numpy(pcm.astype(np.float32) / 32768)[None]
    features = Fbank(n_mels=80)(wav)
    normal = InputNormalization(norm_type="sentence", std_norm=False)(features, torch.ones(1))
    np.savez_compressed(
        Path(__file__).parent / "golden.npz",
        pcm=pcm,
        features=features[0].numpy(),
        normal=normal[0].numpy(),
        speechbrain=version("speechbrain"),
    )


if __name__ == "__main__":
    main()
