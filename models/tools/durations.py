"""Spoken durations with a number in them, and their ISO 8601 values."""

from __future__ import annotations

from voxgate.models.tools.numbers import read_number
from voxgate.models.tools.tokens import Tokens

UNIT_SECONDS = {"second": 1, "minute": 60, "min": 60, "hour": 3600, "hr": 3600, "day": 86400, "week": 604800}


def read_duration_value(tokens: Tokens, at: int) -> tuple[int, float] | None:
    """ "an hour and a half", "two hours", "20 minutes" -> (end, seconds), or None."""
    words = [token.norm for token in tokens[at : at + 6]]
    if words[:3] in (["half", "an", "hour"], ["a", "half", "hour"], ["half", "a", "day"]):
        return at + 3, 43200 if words[2] == "day" else 1800
    if words[:3] in (["quarter", "of", "an"],) or words[:4] == ["a", "quarter", "of", "an"]:
        return (at + 4 + (words[0] == "a"), 900) if "hour" in words else None
    if words[:2] in (["half", "hour"], ["quarter", "hour"]):  # "the next half hour"
        return at + 2, 1800 if words[0] == "half" else 900
    number = read_number(tokens, at)
    if number and number.unit:
        return None
    if number:
        value, end = number.value, number.end
    elif words[:1] and words[0] in {"a", "an"}:
        value, end = 1.0, at + 1
    else:
        return None
    if end >= len(tokens):
        return None
    unit = UNIT_SECONDS.get(tokens[end].norm.removesuffix("s"))
    if unit is None:
        return None
    end, seconds = end + 1, value * unit
    if [token.norm for token in tokens[end : end + 3]] == ["and", "a", "half"]:
        return end + 3, seconds + unit / 2
    if end < len(tokens) and tokens[end].norm == "and" and unit > 60:
        more = read_duration_value(tokens, end + 1)
        if more and more[1] < unit:
            return more[0], seconds + more[1]
    return end, seconds


def normalise_duration(tokens: Tokens) -> str | None:
    """ISO 8601 duration ("PT1H30M", "P1D"), or None for one without a number ("until six")."""
    words = [token.norm for token in tokens]
    if words[:2] == ["the", "next"]:
        tokens = tokens[2:]
        if len(tokens) == 1 and words[2] in UNIT_SECONDS:
            found: tuple[int, float] | None = (1, UNIT_SECONDS[words[2]])
        else:
            found = read_duration_value(tokens, 0)
    else:
        found = read_duration_value(tokens, 0)
    if found is None or found[0] != len(tokens):
        return None
    left = round(found[1])
    days, left = divmod(left, 86400)
    hours, left = divmod(left, 3600)
    minutes, seconds = divmod(left, 60)
    clock = "".join(f"{n}{unit}" for n, unit in ((hours, "H"), (minutes, "M"), (seconds, "S")) if n)
    text = "P" + (f"{days}D" if days else "") + (f"T{clock}" if clock else "")
    return text if text != "P" else None
