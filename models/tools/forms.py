"""Who is spoken to: forms of request, and the marks of talk to oneself or to somebody else.

Everything here is a table of word patterns over the plain words of a clause, so that each rule can be read, tested and
replaced. Weights are log-odds; `understand` adds them up.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from voxgate.models.tools import lexicon
from voxgate.models.tools.tokens import Token, Tokens

BARE, ASKED, WANTED, NAMED = 2.2, 2.6, 1.4, 0.8
"""Log-odds of a request: a bare imperative, "can you ...", "I'd like to ...", and the assistant's name on top."""

LONGEST_FRAME = 24
"""Words that a frame is looked for in: "you can ... please" spans the request."""

BLOCK = -5.0
"""A mark of self-talk or side-talk outweighs every form of request."""

_FRAMES: tuple[tuple[str, float], ...] = (
    ("i was wondering if you (could|can|would)", ASKED), ("i wonder if you (could|can|would)", ASKED),
    ("(can|could|would|will|wouldn't|won't|couldn't|can't) (you|u|ya)( (please|just|kindly|maybe|perhaps|possibly|also|"
     "quickly))*( go( on| ahead)? and)?", ASKED),
    ("(maybe|perhaps) you (could|can|would)( please| just)*", ASKED), ("(how|what) about(?= [a-z]+ing )", WANTED),
    ("((could|can|would|will) you )?(please )?be (so|very) (kind|good)( as)?( to| and)", ASKED),
    ("(could|can|would|will) you be (kind|good|nice) enough to", ASKED),
    ("i('d| would) be (very |so |really |most |ever so )?(grateful|glad|thankful|happy|pleased|obliged|delighted|"
     "over the moon) if you (could|would)", ASKED),
    ("i('m| am|'ll) ?(going to|gonna)? need you to", ASKED),
    ("be (a|an) (dear|star|angel|love|darling|sweetheart|hero|pal|gem) and", BARE),
    ("((can|could|would|will) you )?(please )?do me (a|one|the) (small |big |quick |little |huge )?(favou?r|kindness|"
     "solid)( and| of)?", BARE),
    ("(please )?go (on|ahead)( now)? and", BARE),
    ("(as|like) i('ve)? (just )?(said|told you|say|was saying)( before)?", BARE),
    ("i (can )?confirm( that)?", BARE), ("confirmed", BARE), ("you heard me", BARE), ("that's (right|correct)", BARE),
    ("(as )?(fast|quick|quickly|soon) as you can", BARE), ("hurry up( and)?", BARE),
    ("i( could|'d)? (need|use) (some |a bit of |your )?help", BARE),
    ("((is|would it|might it) (there|be)|any) (any |a )?(chance|possibility|possible)( that)? (of you|you (could|can|"
     "might|would))", ASKED),
    ("would it be possible (for you )?to", ASKED),
    ("i (was|am|'m) (just |really )?hoping (that )?you (could|would|might|can)", ASKED),
    ("i('m| was| am) (just )?(wondering|curious) (if|whether) you (could|would|can|might)", ASKED),
    ("i wonder whether you (could|would|can|might)", ASKED),
    ("(do you think )?you (might|could) (be able to|possibly)", ASKED),
    ("do you (think|suppose|reckon) you (could|can|might)", ASKED), ("(could|can|may) i (please )?have you", ASKED),
    ("(what|all) i( really|'d)? (need|want|like)( right now| now)? is for you to", ASKED),
    ("it('d| would) (really |sure )?(help|mean a lot|make my day)( me)?( a lot| out| no end| so much)? if you (could|"
     "would)", ASKED),
    ("i('d| would)? (ask|asked|'m asking|am asking|urge|authori[sz]e|instruct|beg|trust|'ll need|'ll ask|"
     "insist that) you (to|could)?", ASKED),
    ("i('m| am) (asking|telling|instructing|authori[sz]ing|trusting|counting on) you to", ASKED),
    ("i('ll| will) need you to", ASKED),
    ("(you have|you've got) my (permission|okay|go ahead|blessing) to", ASKED), ("feel free to", BARE),
    ("care to", ASKED),
    ("see if you can", BARE), ("see to it that you", BARE),
    ("while you're at it", BARE), ("(as|at) (a matter of urgency|your convenience)", BARE),
    ("(if|when|whenever|once|as soon as) you( get| have| find|'ve got| can spare) (a |an |the )?(free |spare |"
     "quiet )?(moment|minute|"
     "second|sec|chance|time)( free| to spare)?", BARE),
    ("(if|when|whenever|once|as soon as) you('re| are) (free|ready|done|able|finished|listening)( to| with (that|it|"
     "this))?", BARE),
    ("(if|when|whenever|as soon as) you can", BARE), ("if you (don't|do not|wouldn't) mind", BARE),
    ("(if|when|whenever) (it's|it is|that's|it isn't) (not )?(too much trouble|possible|okay|ok|alright|all right|"
     "convenient)"
     "( with you| for you)?", BARE),
    ("i( really)? hate to (ask|bother you)( but)?", BARE), ("sorry to (ask|trouble you)( but)?", BARE),
    ("by all means", BARE),
    ("(come on|listen up|hear me out|trust me|no rush|no hurry|no problem|on second thoughts?|on my behalf)", BARE),
    ("(as soon as possible|asap|right away|right now|straight away|at once|immediately|urgently|urgent)", BARE),
    ("(can|could|may) (i|we)( please| just)* have(?= .*(ed|sent|paid)( |$))", WANTED),
    ("i need(?= (the|our|two|three|four|five|six|ten) )", WANTED),
    ("i (just |almost |nearly |completely |totally )*forgot( to (mention|say|ask))?", BARE),
    ("i don't want to forget", BARE),
    ("i (have to|must|need to|'ve got to) (run|dash|go|hurry)", BARE), ("in that case", BARE),
    ("(just )?to (confirm|be clear)", BARE),
    ("(one|the) (last|other|next|final) thing", BARE), ("next up", BARE), ("first (things first|of all)", BARE),
    ("i'd appreciate (some|a bit of|your) help", BARE), ("thanks for (that|it)", BARE),
    ("(great|good|nice) (work|job)", BARE),
    ("well done", BARE), ("exactly", BARE), ("correct", BARE), ("affirmative", BARE),
    ("let me repeat( that| myself)?", BARE),
    ("let's have you", ASKED), ("might you", ASKED), ("i wonder if you might", ASKED), ("do please", BARE),
    ("i('d| would)? (like|love|want|prefer) for you to", ASKED), ("i require you to", ASKED),
    ("i need to ask you to", ASKED),
    ("your (next |first |new )?(job|task) (now )?is to", ASKED), ("(help me out|give me a hand)( here)? and", BARE),
    ("would you be (willing|happy|prepared) to", ASKED), ("i('d| would) prefer it if you (could|would)?", ASKED),
    ("(it'd|it would|that'd) be (a |such a )?(big |great |huge |real )?(help|much appreciated) if you (could|"
     "would)", ASKED),
    ("would it be (okay|ok|alright|all right|too much trouble)( for you)? to", ASKED),
    ("make certain (to|you|that you)", BARE),
    ("ensure (that )?you", BARE), ("see that you", BARE), ("you (can|may|could) (now )?go ahead and", ASKED),
    ("have the (goodness|kindness|decency) to", ASKED), ("do us a favou?r( and)?", BARE), ("simply", BARE),
    ("you can( now)?(?= .*please( |$))", ASKED), ("you might as well", WANTED),
    ("(could|can) (you|u) (please )?help me( to)?", ASKED), ("(would|do) you mind( please)?", ASKED),
    ("would you be able to", ASKED), ("(can|could|may) i (trouble|bother|ask|get) you to", ASKED),
    ("(please )?could you kindly", ASKED), ("are you able to", ASKED), ("is it possible to", WANTED),
    ("do you think you (could|can)", ASKED),
    ("i('d| would)? ?(really |much )?(need|want|like|love|appreciate) (it if )?you (to|could|would)( please|"
     " just)*", ASKED),
    ("i('d| would) like you to", ASKED), ("i'd (really )?appreciate it if you (could|would)", ASKED),
    ("(it'd|it would|that'd) be (great|nice|lovely|good|wonderful|helpful|brilliant|amazing) if you (could|"
     "would)( just)?", ASKED),
    ("if you (could|would|can)( please| just| maybe)*", ASKED),
    ("could i (ask|get) you to", ASKED), ("can i (ask|get) you to", ASKED), ("may i ask you to", ASKED),
    ("(make|be) sure (to|you|that you)", BARE), ("help me( to)?", BARE),
    ("try (to|and)", BARE), ("try(?= [a-z]+ing )", BARE),
    ("i('d| would) (really )?(like|love) to", WANTED), ("i (want|wanna)( to)?", WANTED),
    ("i need(?= (a|an|my|some) )", WANTED),
    ("(can|could|may) (i|we)( please)?( just)? (have|get)", WANTED), ("i('d| would) like", WANTED),
    ("we need(?= (a|an) )", WANTED),
        ("if possible", BARE), ("for me", BARE),
    ("i have a request", BARE), ("(go|please go)(?= (call|text|tell|order|book|unlock|open|set|send|pay))", BARE),
    ("one more thing", BARE), ("quick (one|thing|question)", BARE), ("would you", ASKED),
    ("get ready to", BARE), ("yes please", BARE), ("thank you", BARE), ("thanks", BARE), ("let's see", BARE),
    ("you know what", BARE),
    ("by the way", BARE), ("before i forget", BARE), ("real quick", BARE), ("never mind that", BARE),
    ("sorry to bother you", BARE),
)  # fmt: skip
_ANY_FRAME = re.compile("(?:" + "|".join(f"(?:{pattern})" for pattern, _ in _FRAMES) + ")(?: |$)")
_FRAME_PATTERNS = tuple((re.compile(f"(?:{pattern})(?: |$)"), weight) for pattern, weight in _FRAMES)

_I_MODAL = (
    r"(i|we|i'd|we'd|i'll|we'll|i'm|we're|i've)( (really|probably|just|also|still|totally|seriously|honestly|"
    r"definitely|maybe|"
    r"always|never|actually|sort of|kind of|almost|only|might as well|even|already|then|so|nearly|simply|keep|"
    r"finally))* ?"
)
_SELF_TALK = re.compile(
    r"^(and |but |so |well |oh |ugh |god |man |hmm |okay |ok |yeah |no |wait |right |now |then |damn |shoot |gosh |"
    r"like |honestly |think |seriously )*("
    + _I_MODAL
    + r"(should|shouldn't|should've|ought|oughta|must|mustn't|gotta|got to|have to|had to|need to|needed to|could|couldn't|"
    r"can't|might|may|would|wouldn't|better|had better|going to|gonna|was going|was gonna|meant to|forgot|keep|kept|"
    r"wish|hope|"
    r"guess|hate|wonder|think i|thought i|thought about|was thinking|thinking|supposed|swear|promised|remember|regret|"
    r"feel like|could always|can just|can always|can|been meaning|was about|trying to|tried to|was supposed|plan to|"
    r"planning|intend|tend|used to|want to have|wanted to|plan on|don't want|never|bet)\b"
    r"|oh (sure|great|yeah|perfect|fantastic|wonderful|right|brilliant|good|fine)\b|(yeah|sure) (sure|right|great|"
    r"why not)\b|(great|good) idea\b|genius\b|brilliant\b"
    r"|just what i need(ed)?|as though\b"
    r"|(i'll|we'll|i'd|we'd|i'm gonna|i'm going to|i've been meaning|i'd better|we'd better)\b"
    r"|(maybe|perhaps|probably|possibly)\b( (i|we|i'll|i'd|just|it's|that|tomorrow|later|one|not|call|text|send|"
    r"order|book|pay|set|unlock|cancel|schedule|should|a|the|my))?"
    r"|(what if|should i|should we|shall i|shall we|why (did|do|didn't|don't|am|would|should|can't) (i|we)|why not "
    r"just|if only|"
    r"let me|lemme|let's|let us|remind myself|note to self|don't let me forget|gotta|gonna|need to|have to|got to|"
    r"had to|"
    r"should|shouldn't|should've|could've|would've|ought to|better|might|might as well|must|supposed to|time to|"
    r"wouldn't it be|it would be|it'd be (?!great if you|nice if you)|imagine|suppose|supposing|say i|as if i|like i|"
    r"who am i|"
    r"do i (really|need|have to|want|even|just|dare)|am i (supposed|really|going)|can i (even|really|just not|afford)|"
    r"could i (even|really|just)|would i|to think|all i|the plan|my plan|step one|first i|then i|after that i|"
    r"where did i|what was i|what did i|what am i|how did i|how could i|why oh why|talking to myself|dear diary|"
    r"thinking about|"
    r"what's the point|who cares|who knows|the next thing i|the thing is|in hindsight|in my head|knowing me|of "
    r"course i)\b"
    r")"
)
_ORDERING = re.compile(
    r"(let me (get|have|grab)|i'll (have|take|get|do)|i will (have|take)|i'm (going to|gonna) (have|get))(?= (a|an|"
    r"some|the|one|two|three) )"
)
_QUOTED = re.compile(
    r"\b(said|says|saying to|told me|tells me|telling me|asked me|asks me|asking me|texted me|wrote|was like|were "
    r"like|is like|goes like|"
    r"wants me to|wanted me to|expects me|made me|reminded me|shouted|yelled|whispered|mumbled|according to|quote|"
    r"quoting|"
    r"the (sign|note|script|book|line|lyrics|song|movie|message|instructions|recipe|email|text|letter|ad|manual) "
    r"(says|said|reads|goes|read)|"
    r"thinks i should|thought i should|suggested|insisted|begged me|it says|and then he|and then she|he goes|she "
    r"goes|i was like|i said|i told)\b|\b(yells|shouts|screams|cries|whispers|repeats|announces|mutters|replies|"
    r"answers|goes|says|said|all)$"
)
_TAIL_SELF = re.compile(
    r"( (that's|is|was) (all|what|exactly what|the (only )?thing) (he|she|they|i|we|you) [a-z ]{2,30}| (she|he|they|"
    r"it|i|we|someone|somebody|everyone|people|mum|mom|dad|[a-z]+) (said|says|told me|asked|goes|yelled|shouted|"
    r"thinks|thought|wrote)|"
    r" (yeah right|as if|i guess|i suppose|i think|or something|or should i|should i|shouldn't i|or whatever|i keep "
    r"telling myself|"
    r"that's what (he|she|they|i|we) (said|says|should do|need to do|meant|always (say|says|said)|told me)|is what "
    r"(he|she|they|i) (said|says|should do|told me|mean|meant|keep saying)|"
    r"in my dreams|why don't i|why not|wouldn't that be (nice|great|something)|just kidding|kidding|i'm kidding|i'm "
    r"joking|just joking|"
    r"said no one ever|said nobody ever|because that always works|like that's going to happen|like that would (help|"
    r"work)|what could go wrong|"
    r"what was i thinking|that would be (nice|something|great|funny|stupid)|would be the (smart|right|easy) thing( "
    r"to do)?|"
    r"how hard can it be|is that what i (should|have to) do|that's the plan|that was the plan|was the plan|that's my "
    r"plan|"
    r"if only|one of these days|some day|someday|maybe|i wish|sounds like a plan|brilliant|genius|easier said than "
    r"done|"
    r"that'll (fix|solve|show) (it|everything|them|him|her)|great idea|what a (great )?(idea|joke|world)|ha|haha|lol|"
    r"not|"
    r"and then what|that's all it takes|is easy to say|they tell me|i always say|i would say|i was told|i read|i "
    r"heard|i need to remember))$"
)
_PAST_OR_DUTY = re.compile(
    r"^(and |but |so |well |oh |okay |ok |hey |wait )*("
    r"(did|didn't|have|haven't|were|weren't|are|aren't|do|don't|does|was|had|should|shouldn't|shall|must) (you|ya|"
    r"you guys|u)\b(?! (able to|mind))"
    r"|(you|you'd|you'll|you've|you're|u)( (really|just|probably|guys|all|still|always|never|should|better))* "
    r"(should|shouldn't|need|needed|have|had|could|can|can't|must|ought|better|forgot|said|told|promised|were|are|"
    r"will|would|might|may|owe|want|know|never|gotta|going|get|got|look|sound|see|think|go|call|text|send|pay|order|"
    r"book|made|did)\b"
    r"|you (call|text|pay|order|book|tell|ask|go|take|get|pick)\b"
    r"|(why|when|where|what|how|who)('s|'re|'d)? (don't|didn't|do|did|are|were|have|haven't|would|will|can|could|"
    r"should|about) (you|we|he|she|they|your|y'all|everyone)\b"
    r"|(why|when|where|what|how|who) (is|was|are|were) (he|she|they|we|you|your|everyone|everybody)\b"
    r"|how are you|how's it going|how about you|what's up|what's wrong|what do you think|what's your|how was your|"
    r"nice to meet you|good to see you|"
    r"(has|did|does|is|was|will|would|can|could) (he|she|they|anyone|anybody|everyone|somebody|someone|mum|mom|"
    r"dad)\b|tell (him|her|them) i said|"
    r"(ask|tell|call|text|message|pay|ring|phone|give|send) your|(please )?(call|text|message|ring|email|phone|ping) "
    r"me\b(?! (a|an|my) )|give it here|come here|look at|pass me the|hand me|excuse me (sir|miss|ma'am)"
    r")"
)
_CONDITION = re.compile(
    r"^(and |so |but |okay |well )*(if|when|whenever|once(?! more| again)|unless|as soon as|after|before|until|"
    r"every time|suppose) "
    r"(?!you (get|have) a|possible|it's not too|you (could|can|would|don't))"
)
_NEGATED = re.compile(
    r"^(please |just |hey |okay |ok |no |and |whatever you do |oh |wait |but |well |now |so )*(do not|don't|never|"
    r"not|no need to|you don't need to|you don't have to|stop|avoid|dont|quit)\b(?! forget to (?!.))"
)
_NOT_AFTER_FRAME = re.compile(r"^(not|please not|never|stop|avoid)\b")
_CANCELLED = re.compile(
    r"(never mind|nevermind|forget it|forget about it|forget that|cancel that|scratch that|no don't|don't do "
    r"(it|that)|don't bother|"
    r"on second thought|wait no|no wait|changed my mind|i changed my mind|no never mind|actually never mind|actually "
    r"don't|actually no|hold on|not yet|"
    r"no cancel|stop|wait don't|oh wait|no stop|leave it|ignore that|disregard that|just kidding|i was (just "
    r")?(kidding|joking))"
)


@dataclass(frozen=True, slots=True)
class Opening:
    """Where a clause's own words begin, the log-odds of its form, and whether a frame or the assistant's name stood
    there."""

    start: int
    weight: float
    framed: bool
    named: bool


def plain(tokens: Tokens) -> str:
    return " ".join(token.norm for token in tokens)


def open_request(tokens: Tokens, start: int, end: int) -> Opening:
    """Step over fillers, the assistant's name, politeness and frames ("can you", "I need you to")."""
    at, weight, framed, named = start, BARE, False, False
    while at < end:
        token = tokens[at]
        text = plain(tokens[at : min(end, at + LONGEST_FRAME)])
        match = None
        if _ANY_FRAME.match(text):
            match = max(
                ((m, w) for p, w in _FRAME_PATTERNS if (m := p.match(text))), key=lambda one: one[0].end(), default=None
            )
        if match:
            words = len(match[0].group(0).split())
            if at + words >= end:
                break
            weight = match[1] if not framed else max(weight, match[1])
            framed, at = True, at + words
        elif token.norm in lexicon.ASSISTANTS and (at == start or tokens[at - 1].norm in lexicon.FILLERS or token.stop):
            named, at = True, at + 1
        elif token.norm in lexicon.FILLERS:
            at += 1
        else:
            break
    return Opening(at, weight + NAMED * named, framed, named)


def open_order(tokens: Tokens, start: int, end: int) -> Opening | None:
    """ "I'll have a ...", "let me get some ...": an order, where something can be ordered."""
    match = _ORDERING.match(plain(tokens[start:end]))
    return Opening(start + len(match[0].split()), WANTED, True, False) if match else None


def is_self_talk(text: str) -> bool:
    return bool(_SELF_TALK.match(text)) and not re.match(r"(can|could|may) (i|we) (get|have|please)", text)


def is_quoted(text: str) -> bool:
    return bool(_QUOTED.search(text))


def has_self_tail(text: str) -> bool:
    return bool(_TAIL_SELF.search(" " + text))


def is_to_somebody(text: str) -> bool:
    return bool(_PAST_OR_DUTY.match(text))


def is_conditional(text: str) -> bool:
    return bool(_CONDITION.match(text))


def is_negated(text: str) -> bool:
    return bool(_NEGATED.match(text)) or bool(re.match(r"^(please )?(don't|do not) forget", text))


def is_negated_after_frame(text: str) -> bool:
    return bool(_NOT_AFTER_FRAME.match(text))


def is_cancelled(text: str) -> bool:
    return bool(_CANCELLED.fullmatch(text))


def leading_vocative(tokens: Tokens, start: int, end: int, triggers: frozenset[str]) -> bool:
    """ "Mum, ...", "hey Sarah, ...", "hey Sarah can you ...", "Uncle Bob, ..." at the head of a clause."""
    at = start
    greeted = False
    if plain(tokens[at : at + 2]) in {"excuse me", "pardon me"}:
        return True
    while at < end and tokens[at].norm in lexicon.FILLERS | {"excuse", "me", "yo", "psst", "ok"}:
        greeted = greeted or tokens[at].norm in {"hey", "hi", "hello", "yo", "psst", "excuse"}
        at += 1
    if at >= end or tokens[at].norm in lexicon.ASSISTANTS or at + 1 >= end:
        return False
    if plain(tokens[at : at + 2]) == "will you":
        return False
    called = at
    if (
        tokens[at].norm in {"my", "you", "dear", "uncle", "aunt", "mister", "mr", "mrs", "miss", "doctor", "dr"}
        and not tokens[at].stop
    ):
        called += 1
    token = tokens[called] if called < end else tokens[at]
    known = token.norm in lexicon.VOCATIVES or token.norm in lexicon.NAMES
    following = plain(tokens[called + 1 : called + 3])
    asks = bool(
        re.match(
            r"(can|could|would|will|do|did|have|please|you|are|don't|we|should|let's|i|what|where|when|why|how)\b",
            following,
        )
    )
    if (
        token.stop
        and called + 1 < end
        and token.capital
        and token.norm not in triggers
        and tokens[called + 1].norm in lexicon.VOCATIVES
    ):
        return True
    if token.stop and called + 1 < end:
        unknown = _looks_like_name(token, triggers)
        return known or (unknown and (greeted or asks or tokens[called + 1].norm in triggers))
    if known and token.norm not in triggers:
        return asks or greeted or (called + 1 < end and tokens[called + 1].norm in triggers)
    return greeted and _looks_like_name(token, triggers) and asks and token.capital


def _looks_like_name(token: Token, triggers: frozenset[str]) -> bool:
    word = token.norm
    plainword = (
        word in triggers or word in lexicon.FILLERS or word in lexicon.NOT_PERSON or word in lexicon.ASSISTANT_VERBS
    )
    return token.capital and word.isalpha() and not plainword and not word.endswith(("ly", "day", "ing"))


def trailing_vocative(tokens: Tokens, start: int, end: int) -> bool:
    """ "..., honey", "..., Sarah" at the tail of a clause."""
    if end - start < 3 or tokens[end - 2].stop != ",":
        return False
    last, before = tokens[end - 1], tokens[end - 2]
    known = last.norm in lexicon.VOCATIVES or last.norm in lexicon.NAMES
    listed = before.capital or before.norm in lexicon.KIN  # "my brother, Imran"
    return known or (not listed and _looks_like_name(last, frozenset()))


def inner_vocative(tokens: Tokens, start: int, end: int) -> bool:
    """ "Get your phone out, Imran, and ..."; a name in a list ("Ana, Bob, and Tom") is none."""
    return any(
        tokens[at].stop == "," == tokens[at - 1].stop
        and _looks_like_name(tokens[at], frozenset())
        and not tokens[at - 1].capital
        and tokens[at - 1].norm not in lexicon.KIN
        for at in range(start + 1, end - 1)
    )


def only_vocative(tokens: Tokens) -> bool:
    """A sentence that only calls somebody: "Hey Sarah.", "Mum?" """
    rest = [token for token in tokens if token.norm not in lexicon.FILLERS]
    if not 1 <= len(rest) <= 2 or any(token.norm in lexicon.ASSISTANTS for token in rest):
        return False
    return all(
        token.norm in lexicon.VOCATIVES or token.norm in lexicon.NAMES or token.norm in {"my", "uncle", "aunt"}
        for token in rest
    )
