"""What stands before and after a request, set off by a comma: a reason, haste and thanks, or a sign that the words are
read out, rehearsed, quoted or meant ironically.

Tables of word patterns like those of `forms`; a clause that fits none of them in front of a request leaves it unclear.
"""

from __future__ import annotations

import re

from voxgate.models.tools import lexicon
from voxgate.models.tools.dates import read_when
from voxgate.models.tools.tokens import Tokens

_UNABLE = re.compile(
    r"(and |but |so |well |oh |sorry |okay )*i (can't|cannot|couldn't) (quite |really |even )?"
    r"((get (to|at)|reach|find|see|hold|use|touch|look at|let go of|pick up|leave|move) "
    r"(it|this|that|anything|(my|the|this|that|a|any) ((own|left|right|other) )?(phone|mobile|screen|display|keys?|"
    r"keypad|keyboard|buttons?|hands?|fingers?|thumbs?|arms?|glasses|laptop|computer|tablet|watch|bag|pocket|purse|"
    r"wallet|card|mouse|remote|desk|wheel|door|lock|handle|pen|pram|ladder))|talk|type|look|move|reach|leave)"
    r"( (off|on|from) (the wheel|this|it|here|the road))?( (right |just )?now| at the moment| from here| in the dark)?"
)
"""The whole of a clause that gives a reason; "I can't see why", "I can't stop thinking" give none."""

_LEADS_IN = re.compile(
    r"\b(say|says|said|is|was|be|it's|reads?|goes|went|begins|(begin|start|open|end|finish|close)(s|ed)? with|wrote|"
    r"writes|"
    r"(written|printed|painted|announced|posted)( [a-z]+){1,4}|like (this|that|so)|means|quote|called|titled|"
    r"(and|i|we|they) go|going|(tell|tells|telling|told) (me|us|him|her|them|everyone|everybody|people))$|"
    r"^(now |so |okay )*(say|repeat|read|copy|recite|sing|spell)\b"
)
"""Endings after which other words are given, not meant: "the note says", "my line is", "I'd start with"."""

_ASKS_ITSELF = re.compile(r"^(and |so |oh |okay |ooh )*(how|what|what's|how's|which|who|who's|where|where's|why|when) ")
_IN_A_VERB = re.compile(
    r"\b(i|we|he|she|they|you|it|is|are|was|were|am|be|have|has|had|do|does|did|can|will|would|could|should|must|may|"
    r"need|needs|want|wants|got|let)\b|'(m|re|ve|ll|d|s)\b|n't\b"
)
_NAMES_A_USE = re.compile(
    r"^(for (dinner|lunch|breakfast|tea|tonight|today|tomorrow|later|now|me|us|the (party|house|kids|children|office|"
    r"family)|my [a-z]+)|(before|after|when|while|until|once(?! more| again)|as|since|given|because|if)\b.*|"
    r"(good|bad|great|big) news|change of plans?|new plan|(one|last|next|small|another|first) (more )?(thing|favour|"
    r"favor|"
    r"request|job|task)|my turn|no (rush|hurry|problem|worries))$"
)
_HEADS_A_TEXT = re.compile(
    r"^(in|on|at|for|with|from) .*\b(demo|slide|slides|presentation|example|instance|script|play|scene|film|movie|song|"
    r"poem|book|page|chapter|letter|email|sign|advert|english|rehearsal|audience|stage)\b"
)

_ABOUT_WORDS = re.compile(
    r"\b(notes?|signs?|labels?|post-it|headlines?|script|subtitles?|captions?|posters?|leaflet|lyrics|my lines?|"
    r"slides?|prompt|"
    r"billboard|banner|inscription|transcript|dictionary|quiz|crossword|clue|textbook|worksheet|cue|scene|character|"
    r"chorus|verse|"
    r"stanza|my speech|monologue|dialogue|audition|advert|quote|proverb|motto|slogan|practis(e|es|ing)|rehears[a-z]*|"
    r"pronounc[a-z]*|"
    r"accent|intonation|emphasis|deep breath|out loud|aloud|repeat after|take (one|two|three|four)|word for word|"
    r"off by heart|by heart)\b"
)
"""A clause about words: what follows it is most likely those words, not a request."""

_PRAISE = (
    r"(great|lovely|nice|wonderful|brilliant|perfect|fantastic|good|amazing|super|ideal|much appreciated|"
    r"appreciated|a (great |big |huge )?help|helpful|kind of you)"
)
_CODA_ALONE = re.compile(
    r"^((and )?((please )?(be|make it|do it|do that) )?(quick|quickly|fast|snappy|chop chop|hurry|hurry up|sharpish|"
    r"at once|right (now|away)|straight away|immediately|asap|now)( please)?( about it)?"
    rf"|(and )?(that|it|this)('d| would|'ll| will)( really| just)? be {_PRAISE}( thanks| thank you)?"
    r"|(and )?(thanks?( you)?|cheers|ta)( so much| very much| a lot| again| in advance| a million)?"
    r"|(and )?(no (rush|hurry)|that's (all|it)|that's all for now|chop chop|pronto|the sooner the better|don't (wait|"
    r"delay|hang "
    r"about|take long)|(it|this|that) (can't|cannot|won't) wait|there's no time( to lose)?|time is short|time's short)"
    r"|i('d| would|'ll)? owe you( one| big time)?|you'd be doing me a (great |big |huge )?favou?r"
    r"|(that|it)('d| would) (really )?(help|mean a lot)( me)?( a lot| out| no end| to me)?"
    r"|(would|could|will|can|won't) you|if (it's|it is) all the same to you"
    r"|i('m| am) in a (bit of a |real |terrible )?(hurry|rush)|before i forget( again)?"
    r"|i('d| would|'ll)( really| very much)? (appreciate (it|that)|be (so |very |really )?(grateful|thankful))"
    r"|(if|when|whenever|as soon as) (you|that's|it's|possible)( (can|could|would|will|get|have|find|don't|mind|a|the|"
    r"so|"
    r"not|too|much|trouble|moment|minute|chance|second|sec|time|okay|ok|alright|all|right|possible|kind|be|with|that))*"
    r"|(because |as |since |'cause |cause )?(it's|it is|this is|that's|this one's) (kind of |sort of |really |very |"
    r"quite |"
    r"rather |a bit |pretty |so |super |extremely |fairly )*(important|urgent|an emergency|a matter of urgency|overdue)"
    r"|(because |as |since )?i('ve|'d)? (nearly |almost |completely |totally |just |clean |already |had )*(forgot|"
    r"forgotten|"
    r"remembered)( again| all about it| about (it|that))?"
    r"|(because |as |since |'cause |cause )?my (hands?|arms?|fingers?) [a-z' ]+"
    r"|(because |as |since |'cause |cause )?i (can't|cannot|couldn't|don't have|haven't got|left) [a-z' ]*(phone|hand|"
    r"hands|"
    r"glasses|screen))$"
)
_CODA_REASON = re.compile(
    r"^(because |as |since |'cause |cause |for |so )?("
    r"(i'm|i am|we're|we are) (?!(not|going to|gonna|talking|thinking|referring)\b)|i've |we've |"
    r"(i|we) (can't|cannot|haven't|didn't|couldn't) |my [a-z]+ (is|are|has|have|[a-z]+s (at|in|on|soon|now|today|"
    r"tonight)\b)|"
    r"(my|the) [a-z]+'s (here|out|off|late|gone|dead|broken|empty|waiting|coming|not|been|about|so|really|very|too|"
    r"almost|"
    r"nearly|already)\b|the [a-z]+ (is|are|has) (here|out|late|gone|dead|broken|empty|waiting|coming|already)\b|"
    r"(he|she|they|it)('s|'re| is| are) (?!(the|for|not|at|on|in|to|from|a|an|my|our|this|that|due|called|with)\b)|"
    r"there's no )"
)
"""Of the speaker, or of how things are: what names the thing more closely ("it's the blue one") is no mere reason."""

_IRONY = (
    r"money (grows|doesn't grow) on trees|pigs (might|may|can|could|will) fly|(always|never) (ends|works|goes|helps|"
    r"turns "
    r"out|solves)|would (really |surely |totally )?help|could (possibly |ever )?go wrong|nothing better to do|"
    r"all the time "
    r"in the world|(the|whole) world (was|is|has been) waiting|for the privilege|problem solved|hell freezes|"
    r"ever going to happen|(win|won) the lottery|the (queen|king) of|i'm the pope|in another life|fat chance|"
    r"said (no one|nobody)|nobody "
    r"ever said|highlight of my (day|week|life)|made of money|time of my life|best (part|bit) of my (day|week)|"
    r"give me a (prize|medal)|i live to|what a (joy|treat|delight)"
)
_TALK = (
    r"(say|says|said|saying|repeat|repeats|repeated|repeating|shout|shouts|shouted|shouting|yell|yells|yelled|whisper|"
    r"whispers|whispered|insist|insists|insisted|barked|barks|growled|snapped|sang|sings|bellowed|hissed|announced|"
    r"announces|wrote|writes|told|tells|put it|called out|screamed|"
    r"muttered|cried|texted|reads)"
)
_CODA_BACK = re.compile(
    rf"^(yeah |and |so |or |as |like |as though |because |what |oh )*.*\b({_IRONY})\b"
    r"|^(those|these|that) (were|are|was) (his|her|their|my|the|your) (exact |very |last |own |actual )*words?$"
    rf"|^(as |like |or so )?(he|she|they|somebody|someone|everybody|it|(my|the|his|her|our|"
    rf"their) [a-z]+( [a-z]+)?)( just| always| then| "
    rf"actually| kept| keeps| used to| would| has| had| once| had always)* {_TALK}"
    r"( (down|across|over|from|into|to|at|in|every|all|on|it|so|here|right here|me|again|twice|loudly|with)\b.*)?$"
    r"|^(according to|to quote|quoting) .*|^in (his|her|their|the|my) .*words$|^or so .*(say|says|said|told|claim|"
    r"claims|goes)$"
    r"|^(so|as) (they|he|she|people|the saying|the story|the song|the line) (say|says|said|claim|claims|goes|put it|"
    r"puts it)$"
    r"|^that's exactly what "
    r"|^(or )?something (like that|along those lines)$"
)
_CODA_STAGE = re.compile(
    r"^(and |but |or |yeah |no |oh )*("
    r"(that|it|this) (sounds|sounded|didn't sound|doesn't sound|felt|feels) (wrong|right|better|stiff|too|odd|weird|"
    r"strange|natural|"
    r"good|off|awful|silly|rude|polite|fine|more)\b.*"
    r"|(full stop|period|comma|colon|dash|question mark|(three |two )?exclamation (mark|point)s?|new (line|paragraph)|"
    r"hashtag .*)"
    r"|(in|with) (bold|capital|capitals|big|small|red|green|blue|italics|gold|block|large|huge|tiny)\b.*|signed\b.*|"
    r"dated\b.*"
    r"|(and )?so on( and so forth)?|et cetera|blah blah.*|dot dot dot|end (of )?(quote|scene|page)|unquote|and (bow|"
    r"scene|cut|curtain)"
    r"|(that's|that was|that'll be|those|this is) (?!(all|it|that|right|okay|enough|why)\b).*|(says|said|wrote|"
    r"reads) .*"
    r"|(so|how|very|just) [a-z]+|what a [a-z]+|good one|great|brilliant|lovely|in your dreams|no thanks|not likely|"
    r"(i )?don't think so|why don't you|over my dead body|as one does|end of [a-z]+|those words .*|"
    r"(love|best wishes|yours|regards|kisses|kind regards)( [a-z]+)?"
    r"|page [a-z]+|chapter [a-z]+|verse [a-z]+|too (fast|slow|loud|quiet|stiff|formal)|how was that|like that"
    r"|what (fun|a (bargain|laugh|surprise|treat|thrill|shame|idea|deal|great [a-z]+))|that'?s (a|such a|"
    r"one) (brilliant|great|genius|"
    r"fantastic|wonderful|clever|lovely|terrible|stupid) (idea|plan|move|thought)|how (exciting|wonderful|thrilling|"
    r"lovely|delightful|original|fun|nice|marvellous)( for (me|us))?|lucky me|big surprise|"
    r"hooray|hurrah|yippee|whoopee|bravo|oh joy|dream on|as you do|clearly|obviously|naturally|apparently|allegedly|"
    r"supposedly"
    r"|because (clearly|obviously|apparently|of course|why not|that's|i'm (made of|rolling in|so)|i (love|just love|"
    r"live for|enjoy))\b.*"
    r")$"
)
"""Tails of a performance, of a page read out, or of a joke, which may yet be words of a message."""

_NARRATES = re.compile(
    r"^and (then )?(that was|that's|nobody|everybody|somebody|no one|everyone|the [a-z]+ [a-z]+s?|he|she|they|i'd|"
    r"i'll|we|"
    r"a [a-z]+) ?"
)


def lead_kind(lead: Tokens, words: str) -> str:
    """What a clause in front of a request makes of it: "self_talk", "side_talk", "reason" or "" (nothing)."""
    if _UNABLE.fullmatch(words):
        return "reason"
    if _LEADS_IN.search(words) or _ASKS_ITSELF.match(words) or _HEADS_A_TEXT.match(words):
        return "self_talk"
    if _ABOUT_WORDS.search(words) or re.search(rf"\b({_IRONY})\b", words):
        return "self_talk"
    if re.search(r"\byour\b", words):
        return "side_talk"
    corrects = (
        lead[0].index == 0 and lead[0].norm == "no"
    )  # "No, unlock the back door."; later on it answers a question
    rest = [token for token in lead[corrects:] if token.norm not in lexicon.FILLERS]
    if not rest or _IN_A_VERB.search(words) or _NAMES_A_USE.match(words) or read_when(lead, 0) == len(lead):
        return ""
    if any(token.norm in lexicon.ASSISTANTS for token in rest):
        return ""
    return "self_talk"  # a heading, a stage direction: no clause that could be a reason


def takes_back(tokens: Tokens, start: int, end: int) -> bool:
    """A last clause that makes the words somebody's, or a joke: "..., those were her exact words"."""
    return any(_CODA_BACK.match(_words(tokens, at, end)) for at in _cuts(tokens, start, end))


def coda_ends(tokens: Tokens, start: int, end: int) -> tuple[int, int]:
    """Where a request ends -> (before haste, thanks and reasons that are no message; before any reason)."""
    alone = _cut_back(tokens, start, end, _CODA_ALONE)
    return alone, _cut_back(tokens, start, alone, _CODA_REASON)


def _cut_back(tokens: Tokens, start: int, end: int, pattern: re.Pattern[str]) -> int:
    for at in _cuts(tokens, start, end):
        if pattern.match(_words(tokens, at, end)):
            return _cut_back(tokens, start, at, pattern)
    return end


def _cuts(tokens: Tokens, start: int, end: int) -> list[int]:
    return [at for at in range(end - 1, start, -1) if tokens[at - 1].stop == ","]


def _words(tokens: Tokens, start: int, end: int) -> str:
    return " ".join(token.norm for token in tokens[start:end])


def narrates(tokens: Tokens, start: int, end: int) -> bool:
    """ "..., and nobody moved", "..., too stiff": a story or a rehearsal goes on after the words."""
    texts = [_words(tokens, at, end) for at in _cuts(tokens, start, end)]
    return any(_NARRATES.match(words) or _CODA_STAGE.match(words) for words in texts)


def comments(words: str) -> bool:
    """A sentence after the request that judges how it sounded: "No, too stiff." """
    return bool(_CODA_STAGE.match(words) or _CODA_BACK.match(words))


def announces(words: str) -> bool:
    """A sentence before the request that says whose words come: "Let me practise this." """
    return bool(
        re.search(
            r"\b(practis(e|ing)|rehears[a-z]+|repeat after|out loud|aloud|take (one|two|three)|my lines?|quote|"
            r"word for "
            r"word|(read|reads|reading|reading out) (this|that|it))\b",
            words,
        )
    ) or bool(re.search(r"\b(says|reads|goes|like this)$", words))
