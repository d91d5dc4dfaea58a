"""Other ways to say the same, put into the order that examples have: gerunds ("how about texting Ana"), passives ("get
the shed unlocked"), the thing first ("the shed, unlock it") and requests without a verb, in which something else must ask
("fifty euros to Ana, please").

Nothing is added but a verb that says no more than the words do; the tokens keep their places, so spans stay true.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, replace
from types import MappingProxyType

from voxgate.models.tools import lexicon
from voxgate.models.tools.numbers import read_number
from voxgate.models.tools.tokens import Token, Tokens

LONGEST_THING = 9
_MAKING = frozenset({"get", "have", "getting", "having"})
_POINTING = frozenset({"it", "that", "them", "those", "this"})
_ARTICLES = frozenset({"the", "my", "our", "a", "an", "some"})
_PARTICLES = frozenset({"up", "off", "down", "out", "on"})
_NOUNS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "call": ("make a", "place a"), "video": ("start a", "make a"), "phone": ("make a",),
        "message": ("send a",), "text": ("send a",), "note": ("send a", "make a"), "reply": ("send a",),
        "payment": ("make a", "send a"), "transfer": ("make a", "send a"), "bank": ("make a",),
        "order": ("place an", "make an"),
        "booking": ("make a",), "reservation": ("make a",), "appointment": ("make an",), "cancellation": ("cancel",),
    }
)  # fmt: skip
"""What a request may begin with in place of its verb."""

_ASKING = frozenset({"please", "quickly", "quick", "now"})
"""One of these must stand with words that have no verb, where no question, wish or name of the assistant's asks: a fragment
("fifty euros to Ana", "a letter from Ana, thanks") may be anything."""

_NEW = frozenset({"new", "another"})
_JOINING = frozenset({"to", "from", "for", "with", "on"})
_STATES = lexicon.words(
    "i we he she they you it is are was were am be have has had do does did can will would could should must may "
    "i'm i've i'd i'll we're we've it's that's there's who what when where why how if but or so because not no don't let's let "
    "you're he's she's they're this these those there here"
)


def ungerunded(tokens: list[Token], at: int, verbs: Set[str]) -> list[Token]:
    """The verb in its plain form after "would you mind", "how about": "texting" -> "text"."""
    if at >= len(tokens) or at == 0 or tokens[at - 1].norm not in {"mind", "about", "try", "of"}:
        return tokens
    for place in (at, at + 1):  # "calling", "video calling"
        if place == at + 1 and tokens[at - 2].norm == "don't":
            break
        if place < len(tokens) and (verb := _stem(tokens[place].norm, "ing", verbs)) is not None:
            return [*tokens[:place], replace(tokens[place], norm=verb), *tokens[place + 1 :]]
    return tokens


def _stem(word: str, ending: str, verbs: Set[str]) -> str | None:
    """A verb of the tools whose form this is: "dialling", "sharing" and "getting" are dial, share and get."""
    if not word.endswith(ending) or len(word) < len(ending) + 2:
        return None
    stem = word.removesuffix(ending)
    forms = (stem, stem + "e", stem[:-1] if stem[-1] == stem[-2] else stem)
    return next((form for form in forms if form in verbs), None)


@dataclass(frozen=True, slots=True)
class Named:
    """What tools are asked for by: verbs, and nouns of their names with the verb ("location" -> "share")."""

    verbs: Set[str]
    nouns: Mapping[str, str]


def is_made(tokens: Tokens, start: int) -> bool:
    """ "get ... delivered", "have ... unlocked": a passive before anything else, lest the participle be in a name."""
    return start < len(tokens) and (tokens[start].norm in _MAKING or _is_wanted(tokens, start))


def _is_wanted(tokens: Tokens, start: int) -> bool:
    """ "I want the shed unlocked": a thing right after the wish."""
    before = tokens[start - 1].norm if start else ""
    thing = tokens[start].norm in _ARTICLES or read_number(tokens, start) is not None
    return thing and before in {"want", "need", "like", "have", "get"}


def reworded(
    tokens: list[Token], start: int, end: int, last: int, named: Named, first: bool, asks: bool
) -> Iterator[list[Token]]:
    """tokens[start:end] in the order of an imperative, where they are a passive, name the thing first or have no verb
    (`first`: only at the head of a sentence, which ends at `last`; `asks`: what stands in front of them does). Words outside
    the stretch stay as they are."""
    if end - start < 3:
        return
    if is_made(tokens, start):
        yield from _passive(tokens, start, end, named.verbs)
        return
    verbal = tokens[start].norm in named.verbs
    if not verbal:
        yield from _thing_first(tokens, start, last, named.verbs)
    if not first:
        return
    asks = asks or not _ASKING.isdisjoint(token.norm for token in tokens[start:last])
    if asks or tokens[start].norm in _NEW:
        yield from _by_noun(tokens, start, named)
    if asks and not verbal:
        yield from _verbless(tokens, start, end)


def _passive(tokens: list[Token], start: int, end: int, verbs: Set[str]) -> Iterator[list[Token]]:
    for at in range(start + 1, min(end, start + LONGEST_THING + 2)):
        word = tokens[at].norm
        verb = _stem(word, "ed", verbs) or _verb_of(lexicon.PARTICIPLES.get(word), verbs)
        if verb is not None:
            made = tokens[start].norm in _MAKING
            first = replace(tokens[start] if made else tokens[at], norm=verb)
            yield [*tokens[:start], first, *tokens[start + made : at], *tokens[at + 1 :]]


def _verb_of(verb: str | None, verbs: Set[str]) -> str | None:
    """A verb of the tools that says the same; in a fixed order, since the same words must always ask for the same."""
    if verb in verbs:
        return verb
    return next((one for group in lexicon.VERB_GROUPS if verb in group for one in sorted(group & verbs)), None)


def _thing_first(tokens: list[Token], start: int, end: int, verbs: Set[str]) -> Iterator[list[Token]]:
    for at in range(start + 1, min(end, start + LONGEST_THING + 3)):
        thing = tokens[start:at]
        if tokens[at - 1].norm in lexicon.NOT_PHRASE:
            return
        if tokens[at].norm in {"needs", "need"} and at + 1 < end:
            verb = _stem(tokens[at + 1].norm, "ing", verbs)
            if verb is not None and any(token.norm == "please" for token in tokens[at + 2 : end]):
                yield _moved(tokens, start, thing, [replace(tokens[at + 1], norm=verb)], at + 2)
            return
        if tokens[at - 1].stop != "," or tokens[at].norm not in verbs or at + 1 >= end:
            continue
        following = tokens[at + 1].norm
        if following in _POINTING or (following in _PARTICLES and at + 2 == end):
            kept = [] if following in _POINTING else [tokens[at + 1]]
            yield _moved(tokens, start, thing, [tokens[at], *kept], at + 2)


def _moved(tokens: list[Token], start: int, thing: Tokens, verb: Tokens, after: int) -> list[Token]:
    unstopped = [*thing[:-1], replace(thing[-1], raw=thing[-1].raw.rstrip(",;:"), stop="")]
    return [*tokens[:start], *verb, *unstopped, *tokens[after:]]


def _by_noun(tokens: list[Token], start: int, named: Named) -> Iterator[list[Token]]:
    """A noun in place of its verb: "payment to Ana, fifty euros", "new order, ...", "my location to Ana"."""
    head = [token.norm for token in tokens[start : start + 4]]
    new = head[0] in _NEW
    noun = head[new]
    if noun in _NOUNS and (new or head[1] in _JOINING or head[1] in _NOUNS):
        for words in _NOUNS[noun]:
            yield _behind(tokens, start, words, start + new + (2 if words == "cancel" else 0))
    for place, word in enumerate(head[:3]):
        if (verb := named.nouns.get(word)) is None or place + 1 >= len(head):
            continue
        doing = _stem(head[place + 1], "ing", {verb}) is not None  # "location sharing with Ana"
        following = tokens[start + place + 1 + doing].norm if start + place + 1 + doing < len(tokens) else ""
        if following in _JOINING and not any(_is_verbal(word) for word in head[:place]):
            rest = [*tokens[start : start + place + 1], *tokens[start + place + 1 + doing :]]
            yield [*tokens[:start], Token(tokens[start].index, "", verb), *rest]


def _verbless(tokens: list[Token], start: int, end: int) -> Iterator[list[Token]]:
    """A sum of money for somebody, a thing from somewhere: "four scones from the bakery, please"."""
    stretch = [token.norm for token in tokens[start:end]]
    if _JOINING.isdisjoint(stretch) or any(_is_verbal(word) for word in stretch):
        return
    verbs = ["send", "get", "order"] if "from" in stretch else ["send", "start"]
    verbs += ["get"] if "phone" in stretch or "line" in stretch else []
    for verb in verbs:
        yield _behind(tokens, start, verb, start)


def _is_verbal(word: str) -> bool:
    return word in _STATES or word.endswith(("ing", "ed", "n't"))


def _behind(tokens: list[Token], start: int, verb: str, rest: int) -> list[Token]:
    place = tokens[start].index
    return [*tokens[:start], *(Token(place, "", word) for word in verb.split()), *tokens[rest:]]
