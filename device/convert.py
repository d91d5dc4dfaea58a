"""The one place where PCM becomes float32 and where sample rates change."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from voxgate.device.blocks import Samples


def to_float32(samples: NDArray[Any], bits: int | None = None) -> Samples:
    """PCM of any shape -> float32 of the same shape, full scale 1.0.

    Signed integers are divided by 2 ** (bits - 1), so that the most negative value is -1.0 and one LSB of int16 is
    1 / 32768; uint8 is offset binary, as in WAV: 128 is zero. `bits` is the width of the values where it is less than
    the type's (24 for right-justified int24 in int32; libsndfile hands int24 over left-justified, which needs nothing).
    Floats pass unscaled, NaN and infinities included. Raises TypeError for anything else.
    """
    kind = samples.dtype
    if kind == np.float32:
        return cast(Samples, samples)
    if kind == np.float64:
        with np.errstate(over="ignore"):  # beyond float32 becomes infinite, which the reader of the samples must handle
            return samples.astype(np.float32)
    if kind == np.uint8:
        return (samples.astype(np.float32) - 128.0) / 128.0
    if kind in (np.int8, np.int16, np.int32):
        width = bits if bits is not None else kind.itemsize * 8
        if not 2 <= width <= kind.itemsize * 8:
            raise TypeError(f"{kind} cannot hold values of {width} bits")
        # A power of two: exact in float32 up to 24 bits, rounded once for wider ones.
        scale = 2.0 ** (1 - width)
        scaled: Samples = np.multiply(samples, scale, dtype=np.float64).astype(np.float32)
        return scaled
    raise TypeError(f"no PCM type: {kind}")


class StreamResampler:
    """Changes the sample rate of a stream, pushed in pieces of any size; the identity where the rates are equal.

    Output sample k stands for input time k / `rate_out`: the filter's delay is taken out, so output comes some tens of
    milliseconds later than its input and `flush` returns the rest. The output does not depend, to the bit, on how
    the input was cut. Linear-phase band-limited interpolation of the soxr library at its "HQ" setting (pass band to
    0.91 of the lower Nyquist frequency, stop band 125 dB down). Over a whole stream n input samples give
    n * rate_out / rate_in output samples, rounded.

    A sample that is not finite makes the samples within the filter's reach not finite as well, and no others.
    """

    def __init__(self, rate_in: int, rate_out: int, channels: int) -> None:
        if rate_in <= 0 or rate_out <= 0 or channels <= 0:
            raise ValueError(f"cannot resample {channels} channels from {rate_in} to {rate_out} Hz")
        self.rate_in = rate_in
        self.rate_out = rate_out
        self.channels = channels
        self._stream: Any = None
        if rate_in != rate_out:
            import soxr  # here, so that whatever needs no resampling need not load it

            self._stream = soxr.ResampleStream(rate_in, rate_out, channels, dtype="float32", quality="HQ")

    def push(self, samples: Samples) -> Samples:
        """(n, channels) float32 -> (m, channels) float32: what is ready by now, m may be 0."""
        return self._run(samples, last=False)

    def flush(self) -> Samples:
        """The samples still inside the filter, as if silence followed. Ready for a new stream afterwards."""
        rest = self._run(np.zeros((0, self.channels), np.float32), last=True)
        self.reset()
        return rest

    def reset(self) -> None:
        """Forget everything: the next sample is sample 0 of a new stream."""
        if self._stream is not None:
            self._stream.clear()

    def _run(self, samples: Samples, last: bool) -> Samples:
        if samples.ndim != 2 or samples.shape[1] != self.channels or samples.dtype != np.float32:
            raise ValueError(
                f"expected float32 (n, {self.channels}), got {samples.dtype} {'x'.join(map(str, samples.shape))}"
            )
        if self._stream is None:
            return samples
        resampled: Samples = self._stream.resample_chunk(np.ascontiguousarray(samples), last=last)
        return resampled
