"""What stands around a request and how else it may be put: carriers, reasons, haste, passives, corrections; words that are
read out, rehearsed or quoted; and questions of any kind. Sentences of this file's own, and the corpus's training lines."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from voxgate.bench.corpus import load, plain, splits
from voxgate.models.tools import ToolSet, load_tools, understand

TOOLS = load_tools()
CALL = ("call_contact", {"contact": "Ana"})
SHED = ("unlock_door", {"door": "shed"})
HAIRCUT = ("cancel_event", {"title": "haircut", "when": "Friday"})


def asked(text: str, tools: ToolSet = TOOLS) -> tuple[str | None, dict[str, Any]]:
    found = understand(text, tools)
    assert found.kind == "tool", (text, found)
    return found.tool, found.params


@pytest.mark.parametrize(
    "carrier",
    [
        "Maybe you could {}.",
        "You might as well {}.",
        "You can {} now, please.",
        "Would you be so kind as to {}?",
        "Would you be kind enough to {}?",
        "I'd be grateful if you would {}.",
        "It would be wonderful if you could {}.",
        "It would help me a lot if you could {}.",
        "I'm going to need you to {}.",
        "All I need is for you to {}.",
        "Be an angel and {}.",
        "Could you do me a favour and {}?",
        "Go on and {}.",
        "Can you go and {}?",
        "As I said, {}.",
        "I confirm, {}.",
        "You heard me, {}.",
        "That's right, {}.",
        "Hurry, {}.",
        "Fast as you can, {}.",
        "If you could {}, that'd be great.",
        "Whenever you get a moment, {}.",
        "When you're ready, {}.",
        "While you're at it, {}.",
        "Any chance you could {}?",
        "Would it be possible to {}?",
        "I was hoping you could {}.",
        "I hate to ask, but can you {}?",
        "I need some help, {}.",
        "I can't reach my phone, {}.",
        "I nearly forgot, {}.",
        "First of all, {}.",
        "I'd love for you to {}.",
        "Will you kindly {}?",
        "You can go ahead and {}.",
        "Ensure you {}.",
        "{} without delay.",
        "{} at your earliest convenience.",
    ],
)
def test_carriers(carrier: str) -> None:
    for words, call in (("call Ana", CALL), ("unlock the shed", SHED)):
        text = carrier.format(words)
        assert asked(text[0].upper() + text[1:]) == call


@pytest.mark.parametrize("carrier", ["How about {}?", "Would you mind {}, please?", "Do you mind {} for me?"])
def test_gerunds_of_any_tool(carrier: str) -> None:
    assert asked(carrier.format("calling Ana")) == CALL
    assert asked(carrier.format("cancelling my haircut on Friday")) == HAIRCUT
    assert asked(carrier.format("getting the shed unlocked")) == SHED
    assert asked(carrier.format("setting the thermostat to twenty")) == ("set_thermostat", {"temperature": 20})


@pytest.mark.parametrize(
    "coda",
    [
        "I'm about to head out", "it's rather urgent", "I nearly forgot", "my hands are full", "we're late", "it can't wait",
        "and be quick", "quick", "thanks so much", "I'd really appreciate it", "I owe you one", "my flight leaves at nine",
        "no rush", "if it's not too much trouble", "please, it's urgent",
    ],
)  # fmt: skip
def test_reasons_haste_and_thanks_at_the_end(coda: str) -> None:
    assert asked(f"Unlock the shed, {coda}.") == SHED
    assert asked(f"Order two scones from the bakery, {coda}.")[1] == {
        "item": "scones",
        "quantity": 2,
        "merchant": "the bakery",
    }


@pytest.mark.parametrize(
    "coda", ["the large ones", "I need them by six", "they're for Ana", "if Ana comes", "not the blue one"]
)
def test_a_clause_that_says_more_of_the_thing_is_not_lost(coda: str) -> None:
    assert understand(f"Order two pizzas, {coda}.", TOOLS).kind != "tool"


def test_a_reason_may_be_part_of_a_message_and_haste_is_not() -> None:
    assert asked("Tell Ana I'm late, I'm stuck in traffic.")[1]["body"] == "I'm late, I'm stuck in traffic"
    assert asked("Tell Ana I'm late, and be quick.")[1]["body"] == "I'm late"
    assert asked("Tell Ana I'm late, that'd be great.")[1]["body"] == "I'm late"


@pytest.mark.parametrize(
    ("text", "body"),
    [
        ("Text Ana and ask if she's home.", "if she's home"),
        ("Text Ana to ask when the train leaves.", "when the train leaves"),
        ("Shoot Ana a text asking who won.", "who won"),
        ("Message Rebecca Stone to ask how much it was.", "how much it was"),
        ("Text my son and ask how it went.", "how it went"),
        ("Text Ana to ask Bob.", "to ask Bob"),
        ("New message to Ana, dinner's in the oven.", "dinner's in the oven"),
        ("Tell the neighbours dinner is ready.", "dinner is ready"),
    ],
)
def test_what_a_message_says(text: str, body: str) -> None:
    assert asked(text)[1]["body"] == body


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Get the shed unlocked.", SHED),
        ("Have the shed unlocked for the builders.", SHED),
        ("I want the shed unlocked.", SHED),
        ("The shed, unlock it.", SHED),
        ("The shed needs unlocking, please.", SHED),
        ("Release the lock on the shed for Grandma.", SHED),
        ("I'd like my haircut on Friday cancelled.", HAIRCUT),
        ("My haircut on Friday, cancel it.", HAIRCUT),
        ("Get two pizzas delivered from Luigi's.", ("place_order", {"item": "pizzas", "quantity": 2, "merchant": "Luigi's"})),
        ("Two pizzas from Luigi's, please.", ("place_order", {"item": "pizzas", "quantity": 2, "merchant": "Luigi's"})),
        ("Two pizzas from Luigi's, order that.", ("place_order", {"item": "pizzas", "quantity": 2, "merchant": "Luigi's"})),
        ("New order, two pizzas from Luigi's.", ("place_order", {"item": "pizzas", "quantity": 2, "merchant": "Luigi's"})),
        ("Buy a pizza from the usual place.", ("place_order", {"item": "pizza", "merchant": "the usual place"})),
        ("Forty pounds to Ana, please.", ("send_money", {"recipient": "Ana", "amount": 40, "currency": "pounds"})),
        ("Please, payment to Ana, forty pounds.", ("send_money", {"recipient": "Ana", "amount": 40, "currency": "pounds"})),
        ("Call to Ana, quickly.", CALL),
        ("Ana on the phone, please.", CALL),
        ("My location to Ana, please.", ("share_location", {"recipient": "Ana"})),
        (
            "Computer, location sharing with Ana for two hours.",
            ("share_location", {"recipient": "Ana", "duration": "two hours"}),
        ),
        (
            "Share my location with Ana until I get home.",
            ("share_location", {"recipient": "Ana", "duration": "until I get home"}),
        ),
        (
            "Share my location with Ana for the next half hour.",
            ("share_location", {"recipient": "Ana", "duration": "the next half hour"}),
        ),
    ],
)  # fmt: skip
def test_other_ways_to_put_it(text: str, expected: tuple[str, dict[str, Any]]) -> None:
    assert asked(text) == expected


def test_a_reworded_request_spans_its_verb_and_keeps_iso_values() -> None:
    """Whoever may act is asked of every word, so the verb counts wherever it stands."""
    assert understand("Okay, get the shed unlocked, we're late.", TOOLS).span == (1, 5)
    assert understand("The wine tasting, cancel it.", TOOLS).span == (0, 5)
    found = understand("Location sharing with Ana for two hours, please.", TOOLS)
    assert found.normalised == {"duration": "PT2H"} and found.span == (0, 8)


@pytest.mark.parametrize(
    "text",
    [
        "My phone's on two per cent.",
        "Whatever happened to Julia from the third floor?",
        "My grandmother crossed the border on foot.",
        "The shed needs unlocking.",
        "Two pizzas from Luigi's.",
        "My colleague removed the meeting on Friday from my calendar.",
    ],
)
def test_a_statement_is_no_request_without_a_verb(text: str) -> None:
    assert understand(text, TOOLS).kind == "none"


@pytest.mark.parametrize(
    ("text", "params"),
    [
        ("Share my location with Bob, no, with Ana.", {"recipient": "Ana"}),
        ("Ring the cleaner, sorry, I mean Uncle Leo.", {"contact": "Uncle Leo"}),
        ("Message Ana that I'm late, no, actually that I'm ill.", {"recipient": "Ana", "body": "I'm ill"}),
        ("Call off our walking tour, wait, no, my tennis match.", {"title": "tennis match"}),
        ("Order a cake, no, a pie from the bakery.", {"item": "pie", "merchant": "the bakery"}),
        ("Buy twenty bags of flour, sorry, six boxes of salt.", {"item": "boxes of salt", "quantity": 6}),
        ("Cancel my lunch tomorrow at noon, no, at one.", {"title": "lunch", "when": "tomorrow at one"}),
    ],
)
def test_corrections(text: str, params: dict[str, Any]) -> None:
    assert asked(text)[1] == params


@pytest.mark.parametrize(
    "frame",
    [
        "The caption under the picture reads, {}.",
        "My line is, {}, and then the curtain falls.",
        "I overheard somebody say, {}, and that was it.",
        "Somebody's written on the wall, {}.",
        "In the demo I'll say, {}.",
        "In French it's, {}.",
        "For example, {}.",
        "Scene four, {}.",
        "Dear customer, {}.",
        "Once more with feeling, {}.",
        "Again from the top, {}.",
        "Polite version, could you {}.",
        "How does this sound, could you {}?",
        "How did it go again, {}.",
        "There's a note here, {}.",
        "Let me practise this. {}.",
        "The note says. {}.",
        "{}, those were her exact words.",
        "{}, he kept repeating.",
        "{}, as my father used to say.",
        "{}, the sergeant barked.",
        "{}, according to the manual.",
        "{}, yeah, and pigs might fly.",
        "{}, as though that would help.",
        "{}, that's exactly what the world was waiting for.",
        "{}, or something like that.",
        "{}. No, too stiff.",
        "{}, and nobody moved.",
        "{}, that sounded odd.",
        "{}, what fun.",
        "{}, says the sign.",
        "{}, that's my cue.",
        "{}, in your dreams.",
        "Repeat after me, {}.",
        "I clear my throat and go, {}.",
        "What kind of person would {}?",
        "Is it so wrong to {}?",
    ],
)
def test_words_that_are_given_and_not_meant(frame: str) -> None:
    for call in ("unlock the shed", "order two pizzas from Luigi's"):
        text = frame.format(call)
        found = understand(text[0].upper() + text[1:], TOOLS)
        assert found.kind == "none" and "side_talk" not in found.reasons, (text, found)


def test_a_story_in_a_message_is_its_own() -> None:
    assert asked("Tell Ana the bell rang, and nobody moved.")[1]["body"] == "the bell rang, and nobody moved"
    assert asked("Tell Ana I got the job, how exciting.")[1]["body"] == "I got the job, how exciting"


@pytest.mark.parametrize(
    "text",
    [
        "Get your phone out, Imran, and call Ana.",
        "Have you got your phone there, darling? Then call Ana.",
        "Call Ana, Imran.",
        "Why don't you call Ana?",
        "You can call Ana now.",
        "How about you call Ana?",
        "Get my husband for me.",
        "Unlock the shed before noon.",
    ],
)
def test_said_to_somebody_or_unclear(text: str) -> None:
    assert understand(text, TOOLS).kind != "tool"


LAMPS = [
    {
        "name": "dim_lamp",
        "parameters": {
            "type": "object",
            "properties": {"lamp": {"type": "string", "format": "phrase"}, "level": {"type": "number"}},
            "required": ["lamp"],
        },
        "examples": ["dim the {lamp} [to {level}]", "dim the {lamp} for {_}"],
    }
]


@pytest.mark.parametrize(
    "text",
    [
        "Dim the blue lantern for the guests.",
        "Would you mind dimming the blue lantern?",
        "Get the blue lantern dimmed, my hands are full.",
        "I'd like the blue lantern dimmed.",
        "The blue lantern, dim it.",
        "Be a dear and dim the blue lantern, and be quick.",
    ],
)
def test_the_same_for_a_tools_file_of_ones_own(tmp_path: Path, text: str) -> None:
    path = tmp_path / "tools.json"
    path.write_text(json.dumps(LAMPS), encoding="utf-8")
    own = load_tools(path)
    found = understand(text, own)
    assert (found.kind, found.tool) == ("tool", "dim_lamp")
    assert str(found.params["lamp"]).removeprefix("the ") == "blue lantern"
    assert understand(f"The sign reads, {text[0].lower()}{text[1:]}", own).kind == "none"


@pytest.mark.parametrize(
    "text",
    [
        "Is Lisbon west of Rome?",
        "Was Marie Curie married?",
        "Does a hedgehog hibernate?",
        "Can dogs eat cheese?",
        "Do they drive on the left in Malta?",
        "Do I need a visa for Malta?",
        "Has anybody ever swum the Channel?",
        "Can you eat the skin of a kiwi?",
        "And how would you say that in German?",
        "And what about Malta, what's the capital there?",
        "So is that more or less than twelve?",
        "What else should I know about jazz?",
        "What should I pack for a week in Malta?",
        "Is it worth learning Maltese?",
        "Any ideas for a rainy afternoon?",
        "What goes well with risotto?",
        "How often should I water a fern?",
        "What causes fog?",
        "How was glass invented?",
        "Why do we have leap years?",
        "Do you happen to know the capital of Malta?",
        "May I ask what the rules of rugby are?",
        "I'd like to know more about jazz.",
        "Could you help me understand jazz?",
        "Would you mind explaining jazz to me?",
        "Name five cities in Malta.",
        "Sum up jazz in two sentences.",
        "Make up a limerick about a fox.",
        "Give me a quick overview of jazz.",
        "Round seventeen to the nearest ten.",
        "If I split sixty dollars between four people, how much is that each?",
        "Hey assistant, how do you say thank you in Maltese?",
        "Who painted the Mona Lisa?",
        "Where do penguins live?",
        "Does sugar cause cavities?",
        "What can I cook with leeks and eggs?",
    ],
)
def test_questions_are_answered(text: str) -> None:
    found = understand(text, TOOLS)
    assert (found.kind, found.tool) == ("answer", None)


@pytest.mark.parametrize(
    "text",
    [
        "Who's a good boy, Rex?",
        "Did Ben finish the report?",
        "Who's covering for Julia on Friday?",
        "How do you like your eggs?",
        "Where's your dad got to?",
        "Is Imran coming?",
        "Are the kids asleep?",
        "Do people even care?",
        "Is a bit of quiet too much to ask?",
        "Can you get sunburnt on a cloudy day?",
        "What happened to the pancakes?",
        "Where's the harm in calling Ana?",
        "Why do I always have to call Ana?",
        "Do you know where my keys are?",
    ],
)
def test_questions_of_people_are_not(text: str) -> None:
    assert understand(text, TOOLS).kind == "none"


def test_training_lines_of_the_corpus() -> None:
    lines = load()
    kept = splits(lines)
    wanted = {"request": "tool", "question": "answer"}
    right: Counter[str] = Counter()
    count: Counter[str] = Counter()
    for line in lines:
        if kept.part(line) == "test":
            continue
        for part in line.utterances:
            found = understand(part.text, TOOLS)
            hit = found.kind == wanted.get(part.role, "none")
            if hit and part.role == "request":
                values = {
                    name: plain(value) if isinstance(value, str) else value for name, value in found.params.items()
                }
                hit = found.tool == part.tool and values == {
                    name: plain(value) if isinstance(value, str) else value for name, value in part.params.items()
                }
            count[part.role] += 1
            right[part.role] += hit
    least = {"request": 0.97, "question": 0.97, "self": 0.99, "context": 0.99, "person": 0.98, "between": 0.98}
    assert count["request"] > 1500 and {role: right[role] >= share * count[role] for role, share in least.items()} == {
        role: True for role in least
    }, (right, count)


def test_words_ask_for_the_same_whatever_the_order_of_sets() -> None:
    program = (
        "from voxgate.bench import corpus; from voxgate.models.tools.schema import load_tools\n"
        "from voxgate.models.tools.understand import understand\n"
        "lines = corpus.load(); splits = corpus.splits(lines); tools = load_tools()\n"
        "texts = [part.text for line in lines if splits.part(line) == 'development' for part in line.utterances]\n"
        "texts += ['Have I sent three hundred dollars to Nina?', 'Get a note sent to Ana saying hello, please.']\n"
        "print([understand(text, tools) for text in texts])"
    )
    said = {
        subprocess.run(
            [sys.executable, "-c", program], env=os.environ | {"PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("0", "1", "2")
    }
    assert len(said) == 1
