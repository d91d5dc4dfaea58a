"""The recogniser: Moonshine tiny-en, its two graphs run directly in onnxruntime.

The weights (MIT) come from the wheel of `moonshine-voice`; the package itself is never imported. Running the graphs
directly gives token log-probabilities, one thread, and no audio pipeline of the library's in between.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from voxgate.device.errors import InputError
from voxgate.models.evidence import Decoded, Floats, Word
from voxgate.models.runtime import inference_session, package_file
from voxgate.models.settings import RATE
from voxgate.models.words.align import Aligner
from voxgate.models.words.bias import Node, WordBias
from voxgate.models.words.pattern import Automaton, ClosedPattern
from voxgate.models.words.second_pass import LEAST_AHEAD, MOST_WORSE, best_sentences, clear_winner

PACKAGE = "moonshine_voice"
FOLDER = ("assets", "tiny-en")
ENCODER, DECODER, TOKENS = "encoder_model.ort", "decoder_model_merged.ort", "tokenizer.bin"

START, END, FIRST_TEXT = 1, 2, 3
"""Token numbers: start and end of a text, and the first that stands for text."""

SHORTEST_SECONDS = 0.1
"""Below this there is no word, and the encoder's strides leave it nothing."""

LONGEST_SECONDS = 20.0
"""A longer stretch is cut into pieces at its quietest places: attention cost and the model's training both end near 30 s."""

PAD_SECONDS = 0.25
"""Silence put before and behind a stretch: words at a tight edge are heard badly."""

TOKENS_PER_SECOND = 8.0
"""More than anyone says; a decode that reaches it has run away."""

QUIETEST_DBFS = -75.0
"""A stretch whose level is below this holds no words."""

LEVEL_DBFS, MOST_GAIN_DB = -20.0, 40.0
"""Speech is brought to this level before the encoder, which hears quiet speech less well; gain is bounded."""


BONUS = 2.0
"""Natural-log units that a word of the vocabulary gains: it is heard where the plain text is up to e^2 times likelier."""

BEAM, CLOSE = 3, 4.0
"""With a vocabulary this many texts are followed, none further than CLOSE natural-log units below the best."""


def model_files() -> dict[str, Path] | None:
    """Paths of the recogniser's files by name; None where the wheel is not installed."""
    found = {name: package_file(PACKAGE, *FOLDER, name) for name in (ENCODER, DECODER, TOKENS)}
    files = {name: path for name, path in found.items() if path is not None}
    return files if len(files) == len(found) else None


def available() -> bool:
    """True where the recogniser's weights are installed."""
    return model_files() is not None


def read_tokens(path: Path) -> list[bytes]:
    """The texts of all tokens: each a length (one byte, or two from 128 on: low byte + 128, high byte) and its bytes.

    Raises InputError when the file is damaged.
    """
    data = path.read_bytes()
    tokens: list[bytes] = []
    at = 0
    while at < len(data):
        length = data[at]
        at += 1
        if length >= 128 and at < len(data):
            length += 128 * data[at] - 128
            at += 1
        if at + length > len(data):
            raise InputError(f"{path}: damaged token list; reinstall moonshine-voice")
        tokens.append(data[at : at + length])
        at += length
    return tokens


@dataclass(frozen=True, slots=True)
class _Text:
    """A text under way: its tokens from the start token on, their log-probabilities, and its score with every bonus."""

    tokens: list[int]
    logprobs: list[float]
    score: float
    node: Node

    def grown(self, token: int, logprob: float, gain: float, bias: WordBias) -> _Text:
        score = self.score + logprob + gain
        return _Text([*self.tokens, token], [*self.logprobs, logprob], score, bias.follow(self.node, token))


@dataclass(frozen=True, slots=True)
class _Heard:
    """A sound before the first token: encoder states (1, frames, 288), the mask (1, n) that goes with them, the
    log-probabilities (tokens,) of the first token, keys and values after the start token, and the longest text."""

    states: Floats
    mask: NDArray[np.int64]
    first: Floats
    past: dict[str, Floats]
    most_tokens: int


_Advanced = tuple[Floats, dict[str, Floats]]
"""Log-probabilities (texts, tokens) of the next token, and keys and values."""


class MoonshineRecogniser:
    """Speech to text on one thread, stateless: the same samples give the same text whatever was decoded before."""

    def __init__(
        self, vocabulary: Iterable[str] = (), patterns: Iterable[ClosedPattern] = (), bonus: float = BONUS
    ) -> None:
        """`vocabulary`: words that are likely, such as the values that tools take; each gets `bonus` (natural-log units).
        `patterns`: commands of fixed form, tried on what the first decode did not write as one of them.

        Raises InputError when the weights are not installed or cannot be loaded.
        """
        files = model_files()
        if files is None:
            raise InputError(
                "no recogniser: install moonshine-voice==0.0.49 (wheels for Linux x86_64 and aarch64, macOS, Windows); "
                "everything but words works without it"
            )
        self._encoder = inference_session(files[ENCODER])
        self._decoder = inference_session(files[DECODER])
        self._outputs = [output.name for output in self._decoder.get_outputs()]
        self._empty: dict[str, Floats] = {
            each.name: np.zeros((1, int(each.shape[1]), 0, int(each.shape[3])), np.float32)
            for each in self._decoder.get_inputs()
            if each.name.startswith("past_key_values")
        }
        self._tokens = read_tokens(files[TOKENS])
        words = sorted({word for phrase in vocabulary for word in phrase.split()})
        self._bias = WordBias(words, self._tokens, FIRST_TEXT, bonus) if words else None
        closed = list(patterns)
        self._closed = Automaton(closed, self._tokens, FIRST_TEXT) if closed else None
        self._aligner: Aligner | None = None

    def decode(self, samples: Floats) -> Decoded:
        """16 kHz mono (n,) -> text and mean natural-log probability of its tokens, the end token included.

        Silence, values that are not finite and stretches under 0.1 s give an empty text with probability 0.0.
        """
        pieces = [self._decode_piece(piece) for piece in _pieces(samples)]
        spoken = [piece for piece in pieces if piece.text]
        if not spoken:
            return Decoded("", 0.0)
        return Decoded(
            " ".join(piece.text for piece in spoken), float(np.mean([piece.mean_logprob for piece in spoken]))
        )

    def align(self, samples: Floats, text: str) -> list[Word]:
        """As `Aligner.align`."""
        if self._aligner is None:
            self._aligner = Aligner()
        return self._aligner.align(samples, text)

    def _decode_piece(self, samples: Floats) -> Decoded:
        if samples.shape[0] < SHORTEST_SECONDS * RATE or not np.isfinite(samples).all():
            return Decoded("", 0.0)
        level = speech_level_dbfs(samples)
        if level < QUIETEST_DBFS:
            return Decoded("", 0.0)
        gain = 10 ** (min(LEVEL_DBFS - level, MOST_GAIN_DB) / 20)
        sound = np.pad((samples * gain).astype(np.float32), int(PAD_SECONDS * RATE))
        heard = self._hear(sound)
        tokens, logprobs = self._greedy(heard) if self._bias is None else self._beam(heard, self._bias)
        text = self.text_of(tokens)
        if not text:
            return Decoded("", 0.0)
        free = Decoded(text, float(np.mean(logprobs)))
        return free if self._closed is None else self._second(heard, self._closed, free, logprobs)

    def _hear(self, samples: Floats) -> _Heard:
        """(n,) -> what every decode starts from: the encoder's states and the decoder's pass over the start token."""
        mask = np.ones((1, samples.shape[0]), np.int64)
        (states,) = self._encoder.run(None, {"input_values": samples[None], "attention_mask": mask})
        logits, past = self._step(np.array([[START]], np.int64), states, mask, dict(self._empty), cached=False)
        most = int(samples.shape[0] / RATE * TOKENS_PER_SECOND) + 5
        return _Heard(states, mask, log_softmax(logits[0, -1]), past, most)

    def _advance(self, heard: _Heard, ids: list[int], rows: list[int], past: dict[str, Floats]) -> _Advanced:
        """One token further on the texts whose keys and values are `rows` of `past`, in a batch."""
        count = len(rows)
        logits, past = self._step(
            np.array(ids, np.int64)[:, None],
            np.repeat(heard.states, count, axis=0),
            np.repeat(heard.mask, count, axis=0),
            past if rows == list(range(next(iter(past.values())).shape[0])) else {k: v[rows] for k, v in past.items()},
            cached=True,
        )
        return log_softmax(logits[:, -1]), past

    def _greedy(self, heard: _Heard) -> tuple[list[int], list[float]]:
        """The likeliest token at each step until the end token, the limit or a loop."""
        tokens: list[int] = []
        chosen: list[float] = []
        logprobs, past = heard.first, heard.past
        for _ in range(heard.most_tokens):
            last = int(logprobs.argmax())
            chosen.append(float(logprobs[last]))
            if last == END:
                break
            tokens.append(last)
            keep = loop_start(tokens)
            if keep is not None:
                tokens, chosen = tokens[:keep], chosen[:keep]
                break
            if len(tokens) < heard.most_tokens:
                batch, past = self._advance(heard, [last], [0], past)
                logprobs = batch[0]
        return tokens, chosen

    def _beam(self, heard: _Heard, bias: WordBias) -> tuple[list[int], list[float]]:
        """The best text, its words' bonus counted, among the few that stay close to the best at every step (beam search).

        Texts are compared by their sums: with few and close ones, none has a chance to win by being short.
        """
        active = [_Text([START], [], 0.0, bias.root)]
        logprobs, past = heard.first[None], heard.past
        best: _Text | None = None
        for step in range(heard.most_tokens):
            likely = np.argpartition(logprobs, -BEAM, axis=-1)[:, -BEAM:]
            grown: list[tuple[int, _Text]] = []
            for row, text in enumerate(active):
                tokens, gains = bias.candidates(text.node, likely[row])
                changes = logprobs[row, tokens] + gains
                for place in np.argsort(-changes)[:BEAM]:
                    token = int(tokens[place])
                    grown.append((row, text.grown(token, float(logprobs[row, token]), float(gains[place]), bias)))
            grown.sort(key=lambda pair: -pair[1].score)
            for _, text in grown:
                if text.tokens[-1] == END and (best is None or text.score > best.score):
                    best = text
            least = max(grown[0][1].score - CLOSE, best.score if best else -math.inf)
            kept = [(row, text) for row, text in grown if text.tokens[-1] != END and text.score >= least][:BEAM]
            kept = [(row, text) for row, text in kept if loop_start(text.tokens) is None]
            if not kept:
                break
            active = [text for _, text in kept]
            if step + 1 < heard.most_tokens:
                last = [text.tokens[-1] for text in active]
                logprobs, past = self._advance(heard, last, [row for row, _ in kept], past)
        best = best or active[0]
        return [token for token in best.tokens[1:] if token != END], best.logprobs

    def _second(self, heard: _Heard, closed: Automaton, free: Decoded, chosen: list[float]) -> Decoded:
        """The sentence of the closed patterns that was clearly said, as plain words, or the free text.

        The mean log-probability stays that of the free text: how clear the words are is not for a pattern to say.
        """
        if closed.accepts(free.text):
            return free
        past = heard.past

        def advance(ids: list[int], rows: list[int]) -> Floats:
            nonlocal past
            logprobs, past = self._advance(heard, ids, rows, past)
            return logprobs

        total = float(sum(chosen))
        likely = best_sentences(closed, heard.first, advance, END, total - MOST_WORSE - LEAST_AHEAD)
        said = clear_winner(likely, free.text, total)
        return free if said is None else Decoded(said.words, free.mean_logprob)

    def _step(
        self, ids: NDArray[np.int64], states: Floats, mask: NDArray[np.int64], past: dict[str, Floats], *, cached: bool
    ) -> tuple[Floats, dict[str, Floats]]:
        """One pass of the decoder: ids (batch, t) -> logits (batch, t, tokens) and the keys and values to go on with."""
        feed = {
            "input_ids": ids,
            "encoder_hidden_states": states,
            "encoder_attention_mask": mask,
            "use_cache_branch": np.array([cached]),
            **past,
        }
        outputs = dict(zip(self._outputs, self._decoder.run(None, feed), strict=True))
        # The cached branch hands out empty encoder keys: those of the first pass serve to the end.
        present = {
            name: value if cached and ".encoder." in name else outputs[name.replace("past_key_values", "present")]
            for name, value in past.items()
        }
        return outputs["logits"], present

    def text_of(self, tokens: Iterable[int]) -> str:
        """Token numbers -> text, markers left out."""
        parts = [self._tokens[token] for token in tokens if token >= FIRST_TEXT]
        joined = b"".join(part for part in parts if not part.startswith(b"<<ST_"))
        return " ".join(joined.decode("utf-8", errors="ignore").replace("\u2581", " ").split())


def log_softmax(logits: Floats) -> Floats:
    """Natural-log probabilities over the last axis."""
    shifted = logits - logits.max(axis=-1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True)), np.float32)


def speech_level_dbfs(samples: Floats) -> float:
    """RMS level, in dBFS, of the 0.1 s windows that are within 20 dB of the loudest; -inf for zeros.

    Pauses do not count, so that the level of speech is the same with and without the silence around it.
    """
    window = RATE // 10
    count = samples.shape[0] // window
    powers = np.square(samples[: count * window], dtype=np.float64).reshape(count, window).mean(axis=1)
    loudest = float(powers.max())
    if loudest == 0.0:
        return -math.inf
    return 10 * math.log10(float(powers[powers >= loudest / 100].mean()))


def loop_start(tokens: list[int], longest: int = 12, rounds: int = 4) -> int | None:
    """Where to cut a text that has begun to repeat itself: after the first round of the loop; None without a loop.

    A loop is a run of tokens that ends the text and stands there `rounds` times, or of one token twice as often, so
    that "no no no no" passes.
    """
    for period in range(1, longest + 1):
        times = rounds if period > 1 else 2 * rounds
        if len(tokens) >= times * period and tokens[-times * period : -period] == tokens[-(times - 1) * period :]:
            return len(tokens) - (times - 1) * period
    return None


def _pieces(samples: Floats) -> list[Floats]:
    """The stretch itself, or consecutive parts of it no longer than LONGEST_SECONDS, cut where 0.1 s is quietest."""
    longest, window = int(LONGEST_SECONDS * RATE), RATE // 10
    parts: list[Floats] = []
    while samples.shape[0] > longest:
        tail = samples[longest // 2 : longest]
        powers = np.square(tail[: tail.shape[0] // window * window]).reshape(-1, window).mean(axis=1)
        cut = longest // 2 + int(powers.argmin()) * window + window // 2
        parts.append(samples[:cut])
        samples = samples[cut:]
    return [*parts, samples]
