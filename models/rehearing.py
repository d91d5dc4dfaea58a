"""Whether another text of a sound may be acted on where the one decoded first asks nothing."""

from __future__ import annotations

import re

from voxgate.models.evidence import Decoded, Understood
from voxgate.models.tools.choose import triggers
from voxgate.models.tools.match import compile_tools
from voxgate.models.tools.schema import ToolSet

_PLAIN = re.compile(r"[^\w' ]")
_NOT = frozenset("no not never nor none nothing nobody cannot without".split())  # noqa: SIM905 - readable


def worth_it(understood: Understood) -> bool:
    """Whether a text may hide a request: it asks nothing, or is taken for talk to oneself, where a sentence that ended unheard
    makes one of a request ("I walked straight past, if you could just buy ..."). Words to somebody near are left alone: their
    name and a pause are all that tells them from a request."""
    return bool({"no_request", "self_talk"} & set(understood.reasons)) and "side_talk" not in understood.reasons


def request_words(tools: ToolSet) -> frozenset[str]:
    """Words that a request for one of the tools begins with."""
    return triggers(compile_tools(tools))


def same_but_for_the_request(decoded: Decoded, other: Decoded, understood: Understood) -> bool:
    """Whether all words in front of the request that `other` makes stand in `decoded` too, and as many words that deny: neither
    "the sign says" nor "don't" may be heard away."""
    before = _words(" ".join(other.text.split()[: understood.span[0]]))
    return before == _words(decoded.text)[: len(before)] and _denials(other.text) == _denials(decoded.text)


def _words(text: str) -> list[str]:
    return _PLAIN.sub(" ", text.lower().replace("\u2019", "'")).split()


def _denials(text: str) -> int:
    return sum(word in _NOT or word.endswith("n't") for word in _words(text))
