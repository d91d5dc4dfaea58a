"""What is right about an item: the acts whose words overlap its trigger against its target, any other act a false execution.

The rules, frozen:

- A word, or an utterance whose words have no times, overlaps the trigger where the two share at least half of the shorter. An
  act overlaps it where one of its words does. An item without a trigger is all trigger.
- A system that gives no times gives one verdict on the item, so its act overlaps the trigger.
- Exactly one act may overlap it: a second one is one too many, and neither tool nor answer is right then.
- A tool is right by its name; a parameter as `values.same_value` says; a call is exact where all are. Parameters count only
  where the tool is right.
- A failure executes nothing: it is scored as a mute, and counted as an error beside it.
- Side-talk is labelled by whom the words of all acts were said to: `assistant`, `bystander`, `both` or `neither`. Without
  times an act belongs to the utterance that holds the larger share of its words (a call: the words of its values; an answer:
  its own); where the shares are equal, to both, and where it shares none with either, to the utterance in the trigger.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from voxgate.bench.items import Item, Placed
from voxgate.bench.systems.outcome import Act, Outcome, Span
from voxgate.bench.systems.values import compare, plain
from voxgate.models.tools.grammar import MUTE

RULES = 2
"""Version of the rules above: records of different ones are not compared. 2: durations behind a preposition, times against two
references, no other leading preposition dropped."""
ANSWER = "answer"
TO_ASSISTANT = ("request", "question")
TO_PERSON = ("person",)


def shares(span: Span, other: Span) -> bool:
    """Whether two stretches share at least half of the shorter; one without length must lie in the other."""
    shared = min(span[1], other[1]) - max(span[0], other[0])
    shorter = min(span[1] - span[0], other[1] - other[0])
    return shared >= shorter / 2 if shorter > 0 else shared >= 0


def overlaps(act: Act, trigger: Span | None) -> bool:
    """Whether an act is scored against the target."""
    return trigger is None or not act.spans or any(shares(span, trigger) for span in act.spans)


def wanted(item: Item) -> str:
    """What kind of output the target is: `mute`, `tool` or `answer`."""
    return {MUTE: "mute", ANSWER: "answer"}.get(item.target, "tool")


def trigger_segment(item: Item) -> Placed | None:
    """The segment that shares most time with the trigger; without a trigger the last, whose words are what it is about."""
    if not item.segments or item.trigger is None:
        return item.segments[-1] if item.segments else None
    start, end = item.trigger
    return max(item.segments, key=lambda placed: min(placed.t1, end) - max(placed.t0, start))


def side(item: Item, acts: Sequence[Act]) -> str:
    """Whom the acts of a side-talk item serve."""
    served: set[str] = set()
    for act in acts:
        served |= _served_by_time(item, act) if act.spans else _served_by_words(item, act)
    if len(served) == 2:
        return "both"
    return served.pop() if served else "neither"


def _parts(item: Item) -> dict[str, list[Placed]]:
    return {
        "assistant": [placed for placed in item.segments if placed.role in TO_ASSISTANT],
        "bystander": [placed for placed in item.segments if placed.role in TO_PERSON],
    }


def _served_by_time(item: Item, act: Act) -> set[str]:
    return {
        name
        for name, parts in _parts(item).items()
        if any(shares(span, (placed.t0, placed.t1)) for placed in parts for span in act.spans)
    }


def _served_by_words(item: Item, act: Act) -> set[str]:
    said = _words(" ".join(map(str, _values(act.params)))) if act.action == "tool" else _words(act.output)
    share = {
        name: len(said & _words(" ".join(placed.text for placed in parts))) / max(len(said), 1)
        for name, parts in _parts(item).items()
    }
    most = max(share.values())
    if most == 0:
        about = trigger_segment(item)
        return {"bystander" if about is not None and about.role in TO_PERSON else "assistant"}
    return {name for name, value in share.items() if value == most}


def _values(params: Mapping[str, Any]) -> list[Any]:
    return [one for value in params.values() for one in (value if isinstance(value, list) else [value])]


def _words(text: str) -> set[str]:
    return set(plain(text).split())


def score(item: Item, outcome: Outcome, voices: Mapping[str, str]) -> dict[str, Any]:
    """One line of `predictions.jsonl` without its id. `voices`: segment id -> voice, of the set's manifest.

    `mute`, `tool_right`, `exact` and the like are about the acts on the trigger; `stray_acts` counts the others.
    `action_right`: the mute, the tool by name, or the answer that was wanted.
    """
    on = [act for act in outcome.acts if overlaps(act, item.trigger)]
    stray = [act for act in outcome.acts if not overlaps(act, item.trigger)]
    only = on[0] if len(on) == 1 else None
    target = wanted(item)
    tool_right = target == "tool" and only is not None and only.action == "tool" and only.tool == item.tool
    params_right = compare(item.params, only.params) if tool_right and only is not None else None
    exact_call = params_right is not None and all(params_right.values())
    answered = only is not None and only.action == "answer"
    right = {"mute": not on, "tool": tool_right, "answer": answered}[target]
    about = trigger_segment(item)
    return {
        **{name: getattr(item, name) for name in ("family", "variant", "pair", "cell", "array", "line")},
        "held": list(item.held),
        "facts": item.facts,
        "audio": item.audio,
        "target": item.target,
        "target_kind": target,
        "target_tool": item.tool,
        "output": MUTE if not on else only.output if only is not None else None,
        "acts": [_told(act, item.trigger) for act in outcome.acts],
        "mute": not on,
        "tool_acted": any(act.action == "tool" for act in on),
        "answered": answered,
        "tool_right": tool_right,
        "params_right": params_right,
        "exact": exact_call if target == "tool" else right,
        "action_right": right,
        "stray_acts": len(stray),
        "false_execution": bool(stray) or (target == "mute" and bool(on)),
        "false_rejection": target != "mute" and not on,
        "wrong_act": target != "mute" and bool(on) and not right,
        "side": side(item, outcome.acts) if item.family == "side-talk" else None,
        "error": outcome.error,
        "notes": list(outcome.notes),
        "raw": outcome.raw,
        "scores": dict(outcome.scores),
        "reasons": list(outcome.reasons),
        "heard": outcome.heard,
        "truth": {
            "wearer": about.who == "wearer" if about else None,
            "near": about.near if about else None,
            "addressed": about.role in TO_ASSISTANT if about else None,
        },
        "voice": voices.get(about.segment, about.segment) if about else "text",
        "command": item.line or (about.text if about else item.text or item.id),
        "said": [{"who": placed.who, "role": placed.role, "text": placed.text} for placed in item.segments],
    }


def _told(act: Act, trigger: Span | None) -> dict[str, Any]:
    known = bool(act.spans)
    return {
        "action": act.action,
        "tool": act.tool,
        "params": dict(act.params),
        "output": act.output,
        "t0": round(min(start for start, _ in act.spans), 3) if known else None,
        "t1": round(max(end for _, end in act.spans), 3) if known else None,
        "on_trigger": overlaps(act, trigger),
    }
