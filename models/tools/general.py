"""Requests that no tool covers: questions and commands that are handed to the assistant as an answer."""

from __future__ import annotations

import re

from voxgate.models.tools.forms import Opening, is_self_talk, is_to_somebody, plain
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
    r"(what|how) about the weather|lock (the|my|all|up)|close the (garage|front|back|gate|blinds|curtains)|check (my|"
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
    r"will the|does the|did the|do i have|have i got|am i free|is my|are my|was the|can i (bring|take|eat|drink|use|"
    r"park|watch|see)|can you (tell|explain|show))\b"
)
_RHETORICAL = re.compile(
    r"^(what's (the point|up|wrong|going on|happening|that|this|it|with|your|his|her|their|for dinner|for lunch|he|"
    r"she|the matter|the deal|the big deal|taking|next|new|so)|what is (it|this|that|wrong|going on|he|she|your|his|"
    r"her|the point|happening|with)|"
    r"what are (you|we|they|the odds|these|those)|what was (that|i|it|he|she|this)|what were|who's (there|that|this|"
    r"he|she|coming|your|going|he)|who is (this|that|he|she|it|your|going)|"
    r"who are (you|they|we|those|these)|where's (my|he|she|your|the (remote|fun))|where is (my|he|she|everyone|"
    r"everybody|it)|where are (my|you|we|they|the (keys|kids))|"
    r"when is (he|she|it going|this|that|your)|when are (you|we|they)|which one|how is (it|this|that|he|she|your) |"
    r"why is (it always|this|that|everything|nothing|he|she|it so|everyone|my)|why are (you|they|we|people|these|men|"
    r"you guys)|"
    r"how much (longer|more|worse) |how long (have|has|are|were|will|is) (we|i|you|this|he|she|it|they)|how many "
    r"times|how old (am i|are you|is he|is she)|how hard|how bad|is it (just me|me|over|me or|too|really|worth|just|"
    r"because|that|ok|okay|weird)|"
    r"is there (anyone|anybody|something wrong|any point)|are there any (left|more)|is the (world|universe)|is that|"
    r"what do i (even|do|know|care|say)|how do (i|we) (even|always|keep|get into)|how does (he|she|it|this|that|one) "
    r"(even|always|keep)|what does (he|she|it matter|that|this|it) ?)"
)


def general_request(tokens: Tokens, opening: Opening, end: int) -> float | None:
    """Log-odds that words without a tool still ask the assistant something; None where they do not."""
    text = plain(tokens[opening.start : end])
    words = text.split()
    whole = plain(tokens[:end])
    if len(words) < 2 or is_self_talk(text) or text.startswith("tell me about it"):
        return None
    if opening.framed:
        return ASKED_COMMAND + 0.8 * opening.named if _COMMAND.match(text) or _after_asking(text) else None
    if is_to_somebody(text) or is_to_somebody(whole):
        return None
    if _COMMAND.match(text):
        return COMMAND + 0.8 * opening.named
    if _QUESTION.match(text) and not _RHETORICAL.match(text + " ") and len(words) >= 3:
        about_people = bool(
            re.search(r"\b(should (i|we)|you|your|we|our|he|she|they|his|her|their|him|them|us)\b", text)
        )
        says_wh = tokens[end - 1].stop == "?" or not re.search(r"\b(i|me)\b", text)
        if not about_people and says_wh:
            return QUESTION + 0.8 * opening.named
    return 1.0 if opening.named else None


def _after_asking(text: str) -> bool:
    return bool(
        re.match(
            r"(tell me|show me|find|look up|check|set|play|turn|read|remind me|add|search|translate|explain|"
            r"lock|cancel|create|give me|recommend|suggest|calculate|book|order|send|buy|reserve|schedule|convert|"
            r"dim|pause|skip|"
            r"reschedule|summari[sz]e|unlock|call|text|share|pay|transfer|spell|define|navigate)\b",
            text,
        )
    ) and not re.match(
        r"(tell me|show me) (why|how) (you|he|she|they)|find out (why|if) (he|she|they)|call it|make it stop|make "
        r"(sense|me|up)|put up with|give me (a break|a hand|that|your)",
        text,
    )
