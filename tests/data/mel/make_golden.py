"""Makes golden.npz: a test sound and its mel power by librosa, which voxgate itself does not use.

pip install librosa && python tests/data/mel/make_golden.py
"""

from pathlib import Path

import librosa
import numpy as np

RATE = 16_000


def main() -> None:
    generator = np.random.default_rng(3)
    time = np.arange(RATE // 2) / RATE
    sweep = 0.3 * np.sin(2 * np.pi * (100 * time + 6000 * time**2))
    sound = sweep + 0.02 * generator.standard_normal(time.size)
    sound[2000:2600] = 0.0
    pcm = np.round(np.clip(sound, -1, 1) * 32767).astype(np.int16)
    mels = librosa.feature.melspectrogram(
        y=pcm.astype(np.float64) / 32768,
        sr=RATE,
        n_fft=400,
        hop_length=160,
        n_mels=40,
        pad_mode="constant",
        dtype=np.float64,
    ).T  # (frames, mels)
    np.savez_compressed(Path(__file__).parent / "golden.npz", pcm=pcm, mels=mels, librosa=librosa.__version__)


if __name__ == "__main__":
    main()
