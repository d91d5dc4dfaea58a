"""Channel health: what each channel of an array carries, and whether that fits the array's profile."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from voxgate.device.arrays import ArrayProfile
from voxgate.device.blocks import FULL_SCALE, Samples

UNIT_SECONDS = 0.1
"""Samples are analysed in units of this length, however they are pushed."""

SHORTEST_SECONDS = 0.5
"""Below this much sound there is no verdict."""

DEAD_DBFS = -100.0
"""Below the self-noise of any microphone and above the rounding of a converter that is fed nothing."""

DC_LIMIT = 0.02
CLIPPED_SHARE = 0.001
"""Share of samples at full scale from which a channel counts as clipping: 1 ms a second."""

DUPLICATE_RESIDUAL = 1e-4
"""Two channels are one signal when the best gain explains all but this share of power (40 dB). Two microphones 4 cm
apart keep 7e-4 even of 50 Hz hum from the side, and each adds its own noise."""

GATED_SHARE = 0.5
"""A microphone is never digitally silent while its neighbours hear sound; a playback channel mostly is."""

LAG_SECONDS = 0.0005
"""Sound needs less than this between the microphones of an array under 17 cm, and more from a loudspeaker's input
through the air and a converter back to a microphone."""

SAME_SCENE_CORRELATION = 0.7

State = Literal["ok", "dead", "silent", "clipping", "dc", "nonfinite"]

BREAKS_ARRAY = frozenset({"duplicate_channels", "channel_order", "dead_channel", "reference_like", "nonfinite"})
"""Codes of problems after which several microphones must not be compared with each other."""


@dataclass(frozen=True, slots=True)
class ChannelReport:
    """One channel so far. Levels are None where there was no sound at all (digital silence, or no sample).

    `dc` is the mean, full scale 1; `zeros`, `clipped` and `nonfinite` are shares of the samples, 0 to 1. `state`: `silent`
    is a channel without signal while no other has one either, `dead` one without signal while others carry it.
    """

    channel: int
    role: str
    seconds: float
    level_dbfs: float | None
    peak_dbfs: float | None
    zeros: float
    clipped: float
    nonfinite: float
    dc: float
    state: State

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class HealthProblem:
    """One thing that is wrong, and with which channels (counted from 0).

    Codes: `silent_input`, `nonfinite`, `dead_channel`, `clipping`, `dc_offset`, `duplicate_channels`,
    `reference_like`, `channel_order`.
    """

    code: str
    message: str
    channels: tuple[int, ...]


class ChannelHealth:
    """Gathers facts about the channels of a stream: constant memory, no clock, independent of how it is cut.

    `push` float32 (n, channels) at `rate` Hz; `report` and `verdict` speak of all sound since the last `reset`, in
    whole units of 0.1 s.
    """

    def __init__(self, profile: ArrayProfile, rate: int = 16_000) -> None:
        self.profile = profile
        self.rate = rate
        self._unit = max(1, round(UNIT_SECONDS * rate))
        # Delays matter only to tell playback from microphones; without a playback channel the work is not done.
        self._lags = min(math.ceil(LAG_SECONDS * rate), self._unit // 2) if profile.references else 0
        self.reset()

    def reset(self) -> None:
        channels = self.profile.channels
        self._held: Samples = np.zeros((0, channels), np.float32)
        self._samples = 0
        self._units = 0
        self._sum = np.zeros(channels)
        self._zeros = np.zeros(channels, np.int64)
        self._clipped = np.zeros(channels, np.int64)
        self._nonfinite = np.zeros(channels, np.int64)
        self._peak = np.zeros(channels)
        self._products = np.zeros((self._lags + 1, channels, channels))
        self._lagged_sum = np.zeros((self._lags + 1, 2, channels))
        self._lagged_count = np.zeros(self._lags + 1)
        self._gated = np.zeros(channels, np.int64)
        self._lively_units = 0

    def push(self, frames: Samples) -> None:
        """Take (n, channels) samples, n >= 0. Raises ValueError for another channel count."""
        if frames.ndim != 2 or frames.shape[1] != self.profile.channels:
            raise ValueError(f"expected {self.profile.channels} channels, got {frames.shape}")
        held = np.concatenate([self._held, frames])
        whole = len(held) - len(held) % self._unit
        for begin in range(0, whole, self._unit):
            self._take(held[begin : begin + self._unit])
        self._held = held[whole:].copy()

    @property
    def seconds(self) -> float:
        """How much sound the report speaks of."""
        return self._samples / self.rate

    def _take(self, raw: Samples) -> None:
        finite = np.isfinite(raw)
        unit = np.where(finite, raw, 0.0).astype(np.float64)  # (unit, channels)
        magnitude = np.abs(unit)
        self._samples += len(unit)
        self._units += 1
        self._sum += unit.sum(axis=0)
        self._zeros += ((raw == 0) & finite).sum(axis=0)
        self._clipped += (magnitude >= FULL_SCALE).sum(axis=0)
        self._nonfinite += (~finite).sum(axis=0)
        self._peak = np.maximum(self._peak, magnitude.max(axis=0))
        for lag in range(self._lags + 1):
            early, late = unit[: len(unit) - lag], unit[lag:]
            self._products[lag] += early.T @ late
            self._lagged_sum[lag, 0] += early.sum(axis=0)
            self._lagged_sum[lag, 1] += late.sum(axis=0)
            self._lagged_count[lag] += len(early)
        power = np.square(unit - unit.mean(axis=0)).mean(axis=0)
        gated = power < 10 ** (DEAD_DBFS / 10)
        if not gated.all():
            self._lively_units += 1
            self._gated += gated

    def report(self) -> list[ChannelReport]:
        """One report a channel, in order."""
        count = max(self._samples, 1)
        mean = self._sum / count
        power = np.maximum(np.diagonal(self._products[0]) / count - mean**2, 0.0)
        quiet = power < 10 ** (DEAD_DBFS / 10)
        states = [self._state(channel, bool(quiet[channel]), bool(quiet.all())) for channel in range(len(mean))]
        return [
            ChannelReport(
                channel=channel,
                role=self.profile.roles[channel],
                seconds=round(self.seconds, 6),
                level_dbfs=_decibel(float(np.sqrt(power[channel]))),
                peak_dbfs=_decibel(float(self._peak[channel])),
                zeros=float(self._zeros[channel] / count),
                clipped=float(self._clipped[channel] / count),
                nonfinite=float(self._nonfinite[channel] / count),
                dc=float(mean[channel]),
                state=states[channel],
            )
            for channel in range(len(mean))
        ]

    def _state(self, channel: int, quiet: bool, all_quiet: bool) -> State:
        count = max(self._samples, 1)
        if self._nonfinite[channel]:
            return "nonfinite"
        if quiet and not all_quiet:
            return "dead"  # stuck at a constant value or not
        if abs(self._sum[channel] / count) > DC_LIMIT:
            return "dc"
        if quiet:
            return "silent"
        if self._clipped[channel] / count >= CLIPPED_SHARE:
            return "clipping"
        return "ok"

    def verdict(self) -> list[HealthProblem]:
        """What is wrong, the gravest first; empty where nothing is, or where there were less than 0.5 s of sound."""
        if self.seconds < SHORTEST_SECONDS:
            return []
        profile = self.profile
        reports = self.report()
        heard = [channel for channel in range(profile.channels) if profile.roles[channel] != "unused"]
        inputs = [channel for channel in heard if profile.roles[channel] != "reference"]
        if all(reports[channel].state == "silent" for channel in heard):
            return [HealthProblem("silent_input", "no channel carries any sound", tuple(heard))]

        def having(state: State, among: list[int]) -> tuple[int, ...]:
            return tuple(channel for channel in among if reports[channel].state == state)

        dead = having("dead", inputs)
        gated = tuple(c for c in inputs if c not in dead and self._gated_share(c) >= GATED_SHARE)
        problems = [
            *self._order(dead, gated),
            *self._duplicates(),
            *_problem("nonfinite", "not a number or infinite on", having("nonfinite", heard)),
            *_problem("dead_channel", "no sound, while others carry some, on", dead),
            *_problem("reference_like", "silent by turns as only a playback channel is:", gated),
            *_problem("clipping", "overdriven (lower the input level):", having("clipping", heard)),
            *_problem("dc_offset", "constant offset on", having("dc", heard)),
        ]
        return problems

    def _gated_share(self, channel: int) -> float:
        return float(self._gated[channel] / max(self._lively_units, 1))

    def _order(self, dead: tuple[int, ...], gated: tuple[int, ...]) -> list[HealthProblem]:
        """A playback channel that carries what the microphones carry: the device sends its channels in another order.

        Music played loudly also reaches the microphones, but later than `LAG_SECONDS` and through a room, so that it
        correlates less. A microphone channel that is silent is then where the playback went.
        """
        profile = self.profile
        sources = [c for c in (*profile.mics, *profile.with_role("processed")) if c not in dead and c not in gated]
        misplaced = [
            reference
            for reference in profile.references
            if self._gated_share(reference) < GATED_SHARE
            and any(self.correlation(reference, source) >= SAME_SCENE_CORRELATION for source in sources)
        ]
        if not misplaced:
            return []
        message = f"channel {_names(misplaced)} should carry playback and carries what the microphones hear"
        if dead or gated:
            message += f"; the playback seems to be on channel {_names((*dead, *gated))}"
        message += f": the channels are not in the order of {profile.name}"
        return [HealthProblem("channel_order", message, (*misplaced, *dead, *gated))]

    def _duplicates(self) -> list[HealthProblem]:
        groups: list[list[int]] = []
        for channel in self.profile.mics:
            for group in groups:
                if self.residual(group[0], channel) < DUPLICATE_RESIDUAL:
                    group.append(channel)
                    break
            else:
                groups.append([channel])
        return [
            HealthProblem("duplicate_channels", f"channels {_names(group)} carry one and the same signal", tuple(group))
            for group in groups
            if len(group) > 1
        ]

    def residual(self, first: int, second: int) -> float:
        """Share of the power of either channel that the other does not explain by a gain; 1 where one is silent."""
        coefficient = self._coefficient(0, first, second)
        return 1.0 - coefficient**2

    def correlation(self, first: int, second: int) -> float:
        """Largest magnitude of the correlation coefficient over lags up to 0.5 ms either way (lag 0 alone where the
        profile has no playback channel); 0 where one channel is silent."""
        both_ways = [
            abs(self._coefficient(lag, *pair))
            for lag in range(self._lags + 1)
            for pair in ((first, second), (second, first))
        ]
        return max(both_ways)

    def _coefficient(self, lag: int, early: int, late: int) -> float:
        count = max(float(self._lagged_count[lag]), 1.0)
        early_mean = self._lagged_sum[lag, 0, early] / count
        late_mean = self._lagged_sum[lag, 1, late] / count
        covariance = self._products[lag, early, late] / count - early_mean * late_mean
        total = max(self._samples, 1)
        floor = 10 ** (DEAD_DBFS / 10)
        powers = [float(self._products[0, c, c] / total - (self._sum[c] / total) ** 2) for c in (early, late)]
        if min(powers) < floor:
            return 0.0
        return float(np.clip(covariance / math.sqrt(powers[0] * powers[1]), -1.0, 1.0))


def breaks_array(problems: list[HealthProblem], profile: ArrayProfile) -> bool:
    """Whether the array must be treated as one microphone (its recogniser channel), because channels lie.

    The caller says so aloud. One microphone has nothing to fall back to: always False for it.
    """
    return profile.channels > 1 and any(problem.code in BREAKS_ARRAY for problem in problems)


def check_channels(frames: Samples, profile: ArrayProfile, rate: int = 16_000) -> list[HealthProblem]:
    """The verdict on one stretch of sound, float32 (n, channels)."""
    health = ChannelHealth(profile, rate)
    health.push(frames)
    return health.verdict()


def _problem(code: str, message: str, channels: tuple[int, ...]) -> list[HealthProblem]:
    if not channels:
        return []
    return [HealthProblem(code, f"{message} channel {_names(channels)}", channels)]


def _names(channels: list[int] | tuple[int, ...] | NDArray[np.int64]) -> str:
    return ", ".join(str(channel) for channel in channels)


def _decibel(amplitude: float) -> float | None:
    return round(20 * math.log10(amplitude), 2) if amplitude > 0 else None
