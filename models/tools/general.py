"""Requests that no tool covers: questions and commands that are handed to the assistant as an answer."""

from __future__ import annotations

import re
from itertools import pairwise

from voxgate.models.tools import lexicon
from voxgate.models.tools.forms import NAMED, Opening, is_self_talk, is_to_somebody, plain
from voxgate.models.tools.numbers import SCALES, TENS, UNITS
from voxgate.models.tools.tokens import Tokens

QUESTION, COMMAND, ASKED_COMMAND = 1.2, 1.4, 1.8
"""Log-odds of a general question, a general command, and one after "can you"."""

_COMMAND = re.compile(
    r"^(play|pause|resume|skip|translate|calculate|navigate|define|convert|google|search|look up|read (me|my|the|out)|"
    r"remind me|wake me|show me|find (me|a|an|the|out)|give me (directions|the (weather|news|forecast|time|latest|"
    r"score)|a (recipe|summary|joke|fact|list|quote|tip))|"
    r"tell me (a|an|the|what|who|when|where|how|why|if|whether|about (?!it)|more|something|my|some|today's|tomorrow's)|"
    r"(set|start|cancel|stop|create) (a|an|the|my|another) .*(timer|alarm|reminder|stopwatch)|(turn|switch) (on|off|"
    r"up|down) |(turn|switch) .* (on|off|up|down)$|"
    r"(add|put) .* (to|on) (my|the) .*list|(dim|brighten) the|mute the|unmute|take a (note|picture|photo|selfie)|"
    r"take me to|"
    r"(list|summarise|summarize|explain|describe|compare|recommend|suggest|spell|count) |open (spotify|netflix|"
    r"youtube|my|the app)|"
    r"(what|how) about the weather|name (a|an|one|two|three|four|five|six|ten|some|all|the)\b|make up (a|an|some) |"
    r"sum up |"
    r"give me (a|an|some|the|two|three|five|ten) ((quick|brief|short|simple|good|few|rough|one [a-z]+) )*(overview|"
    r"outline|example|"
    r"examples|explanation|definition|rundown|introduction|synonym|antonym|hint|idea|ideas|reason|reasons|poem|story|"
    r"riddle|"
    r"history|fact|facts|tip|tips|name|names|word|words|sentence|translation|plan|exercise)|"
    r"write (me )?(a|an|some) ((short|funny|little|silly|rhyming|[a-z]+ line) )*(poem|limerick|haiku|story|song|rap|"
    r"verse|speech|"
    r"paragraph|essay|toast|riddle|joke)|"
    r"(round|multiply|divide|add|subtract|halve|double|square) (a |an )?(\d|"
    + "|".join([*UNITS, *TENS, *SCALES])
    + r")|"
    r"(work|figure) out (the|what|how|if)|"
    r"lock (the|my|all|up)|close the (garage|front|back|gate|blinds|curtains)|check (my|"
    r"the|if|whether|on)|"
    r"(send|forward|email|book|order|cancel|buy|reserve|schedule|create|add|delete|move|reschedule|change|update|"
    r"pay) (a|an|the|my|me|this|that|some|two|another) )"
)
_QUESTION = re.compile(
    r"^(what's|what is|what are|what were|what was|what time|what day|what date|what year|what kind|what does|what "
    r"do (?!you|we|they)|who's|who is|who was|who were|who won|who wrote|"
    r"who invented|who discovered|who plays|who are|where's|where is|where are|where was|where can i|when's|when is|"
    r"when was|when does|when did|when do i|when are|when will|which|how many|how much|how far|how long|how tall|"
    r"how old|how big|how fast|how high|how deep|how hot|how cold|how do (?!you (feel|do|know)|they|we)|how does|how "
    r"can i|how is the|how's the|how are the|why is|why are|why do(?! i| we| they| you)|why does|is it|is there|is "
    r"the|are there|are the|will it|"
    r"will the|does the|did the (?!plumber|doctor|post|kids|parcel|package|dog|cat|baby)|do i have|have i got|"
    r"am i free|is my|are my|was the|can i (bring|take|eat|drink|use|"
    r"park|watch|see)|can you (tell|explain|show))\b"
)
_SUBJECT = r"(a|an|any|all|most|some|people|humans|babies|adults|children|animals|plants|[a-z]+s)"
_WORLD = re.compile(
    r"^(and |so |but |or |okay |interesting |well |then )*("
    r"(can|do|does|did|will|are|is|were|have|has) "
    rf"(?!(this|his|its|it's|us|yours|theirs|ours|was|does|is|as|things|guys|someones?)\b){_SUBJECT} (?!of (us|you|"
    rf"them)\b)[a-z' ]+"
    r"|(has|have) (anybody|anyone|somebody|someone|humans|people) ever\b"
    r"|(do|did|can|are) they [a-z]+ .*\b(in|at|on) [a-z]+"
    r"|(do|does) (?!i\b|you\b|we\b|they\b|he\b|she\b|it\b|that\b|this\b|anyone|anybody|nobody|everyone)[a-z]+ (cause|"
    r"sleep|have|contain|"
    r"need|dream|fly|swim|eat|live|help|work|count|expire|float|sink|conduct|melt|freeze|lay|hibernate|feel|grow|hunt|"
    r"bite)\b"
    r"|(has|have) (anybody|anyone|somebody|someone) been (to|on|in) "
    r"|who (painted|invented|discovered|wrote|composed|built|founded|directed|designed|sang|killed|created|ruled|"
    r"conquered|"
    r"proposed|developed|led|sculpted|translated|starred in) "
    r"|where (do|does|did|are|is) (a |an |the )?[a-z]+ (live|come from|grow|sleep|breed|nest|originate|found|made|"
    r"spoken)\b"
    r"|what can (i|you|we) (cook|make|use|plant|watch|read|substitute|give|eat|bake) .*(with|for|in|on|from|instead)\b"
    r"|where (should|can|could) (i|you|we) (go|stay|eat|see|find|swim|hike|learn|watch|plant) .*(in|on|near|around|"
    r"for|if|at)\b"
    r"|what (else )?(is|was|are|were) [a-z ]+ (known|famous|used|made|called|named)( for| of| from)?$"
    r"|how do i (say|spell|pronounce) "
    r"|do i need (a|an|any) [a-z]+"
    r"|can you (eat|drink|freeze|microwave|reheat|recycle|compost|boil|grow|catch|breathe|survive|live)\b"
    r"|how (would|do|can|could|does) (you|one|somebody) (say|spell|pronounce|translate|write|make|cook|bake|boil|"
    r"calculate|"
    r"convert|solve|measure|remove|clean|grow|build|tell the|know (if|when|whether) (a|an|the))\b"
    r"|what(?:'s| is) (that|this|it) in [a-z]+"
    r"|is that (more|less|bigger|smaller|longer|shorter|further|farther|closer|higher|lower|heavier|faster|older|"
    r"the same)\b"
    r"|(what|how) about [a-z' ]+ (what|what's|how|who|who's|where|when|is|are)\b"
    r"|what (else )?should i (know|see|pack|wear|ask|read|visit|cook|bring|try|watch|eat|plant|serve|plant|look)\b.*"
    r"\b(about|for|to|in|at|if|on|with|from|as|before|when)\b"
    r"|how (often |long |much |many |far |soon |early )?[a-z]* ?should (i|you|one|a|an) (?!know\b|have\b)[a-z]+ [a-z]+"
    r"|is it (worth|rude|safe|legal|healthy|normal|polite|true|possible|bad|good|okay|ok|hard|easy|dangerous|cheaper|"
    r"better|"
    r"faster) (for |that |to |[a-z]+ing )"
    r"|(got |have you got |do you have |have you )?any (good )?(ideas?|tips?|suggestions?|recommendations?|advice|"
    r"thoughts) "
    r"(for|on|about|how|what|where)\b"
    r"|what (causes|helps|makes (a|an|the|[a-z]+s)|goes (well )?with|happens (if|when|to (a|an|[a-z]+s) )|separates|"
    r"eats|lives|"
    r"counts as|rhymes with|comes (after|before)|kind of|sort of|type of|colou?r|language|country|temperature|size|"
    r"planet|animal)\b"
    r"|how (was|were|is|are) [a-z ]+ (made|invented|built|discovered|formed|founded|named|created|used|grown|produced|"
    r"measured)"
    r"|why (do|does|did|is|are|was|were) (?!you\b|we\b|they\b|i\b|he\b|she\b|it\b|my\b|your\b|our\b|his\b|her\b|"
    r"their\b|"
    r"this\b|that\b|everyone|everybody|everything|nobody|nothing|people\b|these\b|there\b|men\b|the (house|kids|dog|"
    r"car))[a-z]+ "
    r"|why do (we|people|they) (have|call|say|use|dream|yawn|sneeze|celebrate|eat|drink|wear|speak|drive)\b"
    r"|(is|are) [a-z]+ (taught|made|used|found|grown|known|considered|spoken|played|legal|illegal|real|poisonous|"
    r"dangerous|edible|"
    r"contagious|healthy|safe)\b"
    r"|if (i|you|we|a|an|the|one|it) .*\b(how (much|many|long|far|old)|what's|what is|what time)\b"
    r"|who (came|comes|was|is) (after|before|the|first)\b"
    r"|what do (i|you) do (if|when) (a|an|the|somebody|someone)\b"
    r"|(do you (happen to )?know|may i ask|can i ask|could i ask|i (was|am) (just )?wondering|i'm (just )?(wondering|"
    r"curious)|any "
    r"idea|do you have any idea) (about|what|what's|who|who's|when|where|why|how|which|the)\b"
    r")"
)
"""Questions about the world, whoever "you", "they" and "I" are in them."""

_PEOPLE = re.compile(
    r"\b(my|your|yours|our|ours|his|her|hers|their|theirs|him|she|he|us|me|we're|you're|they're|did you|are you|"
    r"have you|"
    r"will you|the (kids|children|baby|dog|cat|car|house|keys|remote|scissors|bins|dishes|plumber|neighbours?|boss|"
    r"office))\b"
)
_ABOUT_PEOPLE = re.compile(
    r"\b(should (i|we)|you|your|yours|we|our|he|she|they|his|her|their|him|them|us|the (kids|children|baby|car|keys|"
    r"plumber))\b"
)
_GRUMBLE = re.compile(
    r"^(and |so |but )*(what's a (guy|girl|person|man|woman) |is (a|some) [a-z ]+ too much|(do|does|can) [a-z]+ (even|"
    r"really|honestly) |are people )"
)
_FULL_NAME = re.compile(
    r"^(and |so |but |interesting |well )*(who (came|comes|was|is|were|are|followed|succeeded|replaced|married|"
    r"killed)|what happened to|"
    r"what did|when did|where did|how did|why did|was|did|is|were|how old|when was|where was)\b"
)
_WANTS_TO_KNOW = re.compile(
    r"^(know|learn|hear|understand|find out|read|ask) (a bit |a little |some )?(more |something |everything )?(about|"
    r"what|how|why|who|"
    r"when|where|which|if|whether)\b"
)

_RHETORICAL = re.compile(
    r"^(what's (the point|up|wrong|going on|happening|that|this|it|with|your|his|her|their|for dinner|"
    r"for lunch|he|"
    r"she|the matter|the deal|the big deal|taking|next|new|so)|what is (it|this|that|wrong|going on|he|she|your|his|"
    r"her|the point|happening|with)|"
    r"what are (you|we|they|the odds|these|those)|what was (that|i|it|he|she|this)|what were|who's (there|covering|"
    r"driving|cooking|bringing|hosting|paying|that|this|"
    r"he|she|coming|your|going|he)|who is (this|that|he|she|it|your|going)|"
    r"who are (you|they|we|those|these)|where's (my|he|she|your|the (remote|fun|harm|sense|point|logic|joy|shame))|"
    r"where is (my|he|she|everyone|"
    r"everybody|it)|where are (my|you|we|they|the (keys|kids))|"
    r"when is (he|she|it going|this|that|your)|when are (you|we|they)|which one|how is (it|this|that|he|she|your) |"
    r"why is (it always|this|that|everything|nothing|he|she|it so|everyone|my)|why are (you|they|we|people|these|men|"
    r"you guys)|"
    r"how much (longer|more|worse) |how long (have|has|are|were|will|is) (we|i|you|this|he|she|it|they)|how many "
    r"times|how old (am i|are you|is he|is she)|how hard|how bad|is it (just me|me|over|me or|too|really|worth it|"
    r"worth$|just|far|"
    r"because|that|ok|okay|weird|so (wrong|bad|hard|much)|wrong)|what (kind|sort) of (person|people|man|woman|idiot|"
    r"fool)|"
    r"is there (anyone|anybody|something wrong|any point)|are there any (left|more)|is the (world|universe)|is that|"
    r"what do i (even|do(?! (if|when))|know|care|say)|how do (i|we) (even|always|keep(?= [a-z]+ing\b)|get into)|"
    r"how does (he|she|it|this|that|one) "
    r"(even|always|keep)|what does (he|she|it matter|that|this|it) ?)"
)


def general_request(tokens: Tokens, opening: Opening, end: int) -> float | None:
    """Log-odds that words without a tool still ask the assistant something; None where they do not."""
    text = plain(tokens[opening.start : end])
    words = text.split()
    whole = plain(tokens[:end])
    if len(words) < 2 or text.startswith("tell me about it"):
        return None
    if is_world_question(tokens, opening.start, end) or (opening.framed and is_world_question(tokens, 0, end)):
        return QUESTION + NAMED * opening.named
    if is_self_talk(text):
        return None
    if opening.framed:
        asked = _COMMAND.match(text) or _after_asking(text) or _WANTS_TO_KNOW.match(text)
        return ASKED_COMMAND + NAMED * opening.named if asked else None
    if is_to_somebody(text) or is_to_somebody(whole):
        return None
    if _COMMAND.match(text):
        return COMMAND + NAMED * opening.named
    if _QUESTION.match(text) and not (_RHETORICAL.match(text + " ") or _GRUMBLE.match(text)) and len(words) >= 3:
        about_people = _ABOUT_PEOPLE.search(text) is not None
        says_wh = tokens[end - 1].stop == "?" or not re.search(r"\b(i|me)\b", text)
        if not about_people and says_wh:
            return QUESTION + NAMED * opening.named
    return 1.0 if opening.named else None


def is_world_question(tokens: Tokens, start: int, end: int) -> bool:
    """A question about the world, not about people around: its form says so, or it names someone or a place in full."""
    text = plain(tokens[start:end])
    if tokens[end - 1].stop != "?" and not re.match(r"(and |so )*(what|how|who|why|i )", text):
        return False
    if _RHETORICAL.match(text + " ") and not _WORLD.match(text):
        return False
    if _PEOPLE.search(text) or _GRUMBLE.match(text):
        return False
    if _WORLD.match(text):
        return True
    named = [
        token
        for token in tokens[start + 1 : end]
        if token.capital and token.norm not in {"i", "i'm", "i've", "i'd", "i'll"}
    ]
    if not named or any(token.norm in lexicon.KIN for token in named):
        return False
    if _FULL_NAME.match(text):
        full = any(one.index + 1 == other.index and not one.stop for one, other in pairwise(named))
        place = re.match(r"(and |so )*(is|are|was|were) ", text) and named[0].norm not in lexicon.NAMES
        return full or bool(place and not _AROUND.search(text))
    return False


_AROUND = re.compile(
    r"\b(coming|going|here|home|okay|ok|back|ready|still|there|in|out|with|asleep|up|late|around|alright|all right|"
    r"free|joining|"
    r"well|better|ill|done)( yet| today| tonight| tomorrow| too)?$"
)


def _after_asking(text: str) -> bool:
    return bool(
        re.match(
            r"(tell me|show me|find|look up|check|set|play|turn|read|remind me|add|search|translate|explain|"
            r"lock|cancel|create|give me|recommend|suggest|calculate|book|order|send|buy|reserve|schedule|convert|"
            r"dim|pause|skip|understand |work out|figure out|with (a|an|this|some) |learn |say (that|this|it) (again|"
            r"in )|repeat |"
            r"(explain|describ|summaris|summariz|translat|spell|list|recommend|suggest)ing |telling me |"
            r"reschedule|summari[sz]e|unlock|call|text|share|pay|transfer|spell|define|navigate)\b",
            text,
        )
    ) and not re.match(
        r"(tell me|show me) (why|how) (you|he|she|they)|find out (why|if) (he|she|they)|call it|make it stop|make "
        r"(sense|me|up)|put up with|give me (a break|a hand|that|your)",
        text,
    )
