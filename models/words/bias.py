"""Words that are likely to be said: a token prefix tree that gives them a bonus while a text is decoded.

Shallow fusion with subtractive cost, after Zhao et al., "Shallow-fusion end-to-end contextual biasing" (2019): every token
that goes on spelling a word of the vocabulary is favoured, and a word that breaks off gives its favour back.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from voxgate.models.tools.schema import ToolSet
from voxgate.models.words.spoken import spoken_words

SHORTEST_OF_SEVERAL = 3
"""Letters of the shortest word that counts in a value of several words: "a bit of milk" should not favour every "a"."""

BLANK = "\u2581".encode()
"""How a token begins that begins a word."""


def enum_words(tools: ToolSet) -> list[str]:
    """The words of all values that the enum parameters of the tools take: where nothing else is valid anyway, the
    recogniser may lean towards them. Numbers become their words. [] for tools without enums."""
    words: set[str] = set()
    for tool in tools:
        for schema in tool.properties.values():
            nested = schema.get("items")
            for value in [*schema.get("enum", ()), *(nested.get("enum", ()) if isinstance(nested, dict) else ())]:
                said = spoken_words(str(value)) if isinstance(value, str | int) and not isinstance(value, bool) else []
                words.update(word for word in said if len(said) == 1 or len(word) >= SHORTEST_OF_SEVERAL)
    return sorted(words)


class Tokeniser:
    """Text -> token numbers, by byte-pair merges whose order is that of the token numbers."""

    def __init__(self, tokens: Sequence[bytes], first: int) -> None:
        self._numbers: dict[bytes, int] = {}
        for number, token in enumerate(tokens):
            # A letter comes twice: first as a byte, which only unknown letters are written with, then as a token.
            if number >= first and (len(token) == 1 or token not in self._numbers):
                self._numbers[token] = number

    def __call__(self, text: str) -> list[int]:
        """Token numbers of a text that begins a word; [] when a letter has no token."""
        parts = [char.encode() for char in "\u2581" + text.replace(" ", "\u2581")]
        while len(parts) > 1:
            ranked = [
                (number, index)
                for index in range(len(parts) - 1)
                if (number := self._numbers.get(parts[index] + parts[index + 1])) is not None
            ]
            if not ranked:
                break
            _, index = min(ranked)
            parts[index : index + 2] = [parts[index] + parts[index + 1]]
        numbers = [self._numbers.get(part) for part in parts]
        return [] if None in numbers else [number for number in numbers if number is not None]


@dataclass(slots=True)
class Node:
    """A place in the tree: what may follow, whether a word ends here, and the favour collected on the way."""

    children: dict[int, Node] = field(default_factory=dict)
    ends: bool = False
    favour: float = 0.0


class WordBias:
    """The tree over a vocabulary, with `bonus` (natural-log units) for each complete word.

    The bonus is spread evenly over a word's tokens and paid as they come; a word counts as complete when the next token
    begins another word, is punctuation or ends the text.
    """

    def __init__(self, words: Iterable[str], tokens: Sequence[bytes], first: int, bonus: float) -> None:
        self.root = Node()
        # What may follow a complete word: a new word, punctuation, the end of the text, or the digit of "M4".
        self._may_follow = np.array(
            [(not token[:1].isalpha() and token[:1] < b"\x80") or token.startswith(BLANK) for token in tokens]
        )
        tokenise = Tokeniser(tokens, first)
        for spelling in sorted({form for word in words for form in _forms(word)}):
            numbers = tokenise(spelling)
            node = self.root
            for step, number in enumerate(numbers, 1):
                node = node.children.setdefault(number, Node())
                node.favour = max(node.favour, bonus * step / len(numbers))
            node.ends = node.ends or bool(numbers)

    def candidates(self, node: Node, likely: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Tokens worth a look at `node` (the `likely` ones and all that a bonus speaks for), and what each changes about
        the score, in natural-log units."""
        gains: dict[int, float] = {}
        for token in likely.tolist():
            broken = not node.ends or not self._may_follow[token]
            gains[token] = -node.favour if broken else 0.0
        back = 0.0 if node.ends else node.favour
        for token, child in self.root.children.items():
            gains[token] = child.favour - back
        for token, child in node.children.items():
            gains[token] = child.favour - node.favour
        return np.fromiter(gains, np.int64), np.fromiter(gains.values(), np.float64)

    def follow(self, node: Node, token: int) -> Node:
        """The place after one more token."""
        return node.children.get(token) or self.root.children.get(token) or self.root


def _forms(word: str) -> set[str]:
    """How a recogniser may write a word: small and with a capital; a letter, which would be the article "a", as a capital."""
    plain = word.strip().lower()
    return {plain.upper()} if len(plain) == 1 else {form for form in (plain, plain.capitalize()) if form}
