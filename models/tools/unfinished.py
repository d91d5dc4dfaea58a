"""Clauses that break off, refuse or forbid: "I'm not going to", "nobody should", "don't you dare", "maybe I should". What
follows one, behind a comma or a stop, is what it speaks of, however much it looks like a request."""

from __future__ import annotations

import itertools
import re

from voxgate.models.tools import lexicon
from voxgate.models.tools.tokens import Tokens, sentences

_MODAL = "(can|could|would|will|shall|should|may|might|must|ought)"
_FINISHED = re.compile(
    rf"\b(if|when|whenever|once)( ever| only)? you( possibly| kindly| just| please)* {_MODAL}$"
    rf"|\bas [a-z]+ as (i|you|we|he|she|they)( possibly| ever)? {_MODAL}$"
    r"|^(can|could|will|would)(n't)? you$"
    r"|\b(a|the|in|of|since|until|by|last|next|this|with|to|for|from|and|at|my|all|free|good|own) (may|will|must|might)$"
    r"|\bas i('ve)? (just )?(say|said|was saying)$"
    r"|^(and |oh |so |but |well )*i (just |almost |nearly |completely |totally )*forgot$"
    r"|\b(if|as|when|whenever) you (wish|want|like)$|^(before i forget|not to worry|why not)$"
)
"""What ends as a clause that breaks off does and is whole: "if you could", "as fast as I can", "in May"."""

_TRAILING = re.compile(
    r"( (just|ever|even|almost|please|though|always|also|still|maybe|perhaps|then|yet|now|soon|again|"
    r"(?!family|fly|reply|apply)[a-z]+ly))+$"
)
_BREAKS_OFF = re.compile(
    rf"\b(to|not|never|cannot|{_MODAL}|gonna|wanna|gotta|oughta|supposed|allowed|let's|let me|if|unless|whether|because|"
    r"until|or|than|the|a|an|my|our|your|their|i|we|nobody|no one|"
    r"(?<!was )(?<!were )(?<!been )(?<!what i )(?<!all i )(?<!as i )"
    r"(refused|forgot|wanted|meant|tried|decided|promised|intended|wished)|"
    r"refuse|want|wish|trying|hoping|intend|said|says|say|(not|never) going|(was|were|am|i'm|we're|is|are) about|"
    r"(had|i'd|we'd|you'd|he'd|she'd|they'd) better|(would|i'd|we'd|you'd|he'd|she'd|they'd) rather|"
    r"whatever (you|i|we|they) do|"
    r"(asked|asks|told|tells|begged|ordered|expects?|expected|wants?|wanted|made|makes|lets?) "
    r"(me|us|him|her|them|you|everyone|everybody|somebody|someone))$"
    r"|n't( going)?$|\b(i|we|he|she|they|you|it|nobody|who|that)('d|'ll|'ve)$"
)
_REFUSES = re.compile(
    r"\b(no way( on earth| in hell)?|(no|not a|fat) chance( in hell)?|not in a (million|thousand) years|like hell|hell no|"
    r"under (no|any) circumstances|on (no|any) account|by no means|at no (time|point)|out of the question|not happening|"
    r"over my dead body|not likely|as if|not on (my|your) (life|watch)|no (good )?(reason|need)|forbidden|"
    r"forbid (it|that|this|you)|avoid)$"
)
_FORBIDS = re.compile(
    r"(oh |no |nope |nah |and |but |so |well |please |hey |just |okay |ok |hell |god |wait |absolutely |certainly |"
    r"definitely )*"
    r"((do not|don't)( (you|ever|even|anyone|anybody|everyone|please|just))*"
    r"( (dare|try|bother|touch|think about|think of|do|start)( (it|that|this|so|anything))?)?"
    r"|(you )?(better|had better|dare|must|may|should) not( do (it|that))?"
    r"|(you )?(mustn't|shouldn't|can't|cannot) (do|touch) (it|that|this)"
    r"|never( ever)*( (again|do (it|that)))?"
    r"|not( (now|yet|ever|today|tonight|tomorrow|again|at all|like|this|that|here|me|you|time))+|not (so|that) fast"
    r"|stop( (it|that|this|there|right there))?|quit( it| that)?|i said (no|not|never|stop|don't))"
)


def forbids(words: str) -> bool:
    """Whether plain words are a prohibition and nothing else: "never", "don't you dare", "absolutely not"."""
    return bool(_FORBIDS.fullmatch(words))


def withholds(words: str) -> bool:
    """Whether a clause, as plain words, breaks off, refuses or forbids, so that a request right behind it is not meant."""
    while not forbids(words):
        if _FINISHED.search(words):
            return False
        if _BREAKS_OFF.search(words) or _REFUSES.search(words):
            return True
        shorter = _TRAILING.sub("", words)
        if shorter == words:
            return False
        words = shorter
    return True


def withheld(before: Tokens) -> bool:
    """Whether words withhold what begins right behind them: a clause of the same sentence, or the last clause of the sentence
    before, or all of that one. Sentences of fillers alone ("Okay.") are stepped over."""
    parts = sentences(before)
    here = parts.pop() if parts and parts[-1][-1].stop not in {".", "?", "!"} else []
    said = [part for part in parts if any(token.norm not in lexicon.FILLERS for token in part)]
    clauses = _clauses(here) + ([_plain(said[-1]), *_clauses(said[-1])[-1:]] if said else [])
    return any(withholds(words) for words in clauses)


def _clauses(sentence: Tokens) -> list[str]:
    """Plain words between commas, without clauses of fillers alone."""
    cuts = [0, *(at + 1 for at, token in enumerate(sentence) if token.stop == ","), len(sentence)]
    parts = [sentence[start:end] for start, end in itertools.pairwise(cuts)]
    return [_plain(part) for part in parts if any(token.norm not in lexicon.FILLERS for token in part)]


def _plain(tokens: Tokens) -> str:
    return " ".join(token.norm for token in tokens)
