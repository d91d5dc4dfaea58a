"""Spoken times: where one starts and ends in a text, and its ISO 8601 value against a reference.

Own and small,
because the general parsers tried gave nothing for "next Friday at three" or "half past six". Conventions,
where speech leaves a choice: an hour from 1 to 6 without a part of the day is in the afternoon, 7 to 11 in the morning
and 12 at noon, and where that has already passed and no day was named,
the next time the clock shows it; a weekday is the
next one to come, "next Friday" the Friday of the week that starts on the coming Monday.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta

from voxgate.models.tools.durations import UNIT_SECONDS, read_duration_value
from voxgate.models.tools.numbers import TENS, UNITS, read_number
from voxgate.models.tools.tokens import Tokens

WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
MONTHS = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
    "december",
)  # fmt: skip
_SHORT_DAYS = {"mon": 0, "tue": 1, "tues": 1, "wed": 2, "thu": 3, "thurs": 3, "fri": 4, "sat": 5, "sun": 6}
_SHORT_MONTHS = {"jan": 1, "feb": 2, "aug": 8, "sept": 9, "oct": 10, "nov": 11, "dec": 12}
_PARTS = {"morning": "am", "afternoon": "pm", "evening": "pm", "night": "pm"}
_PART_START = {"morning": time(9), "afternoon": time(14), "evening": time(19), "night": time(20)}
_ORDINALS = {
    "first": 1, "second": 2, "third": 3, "fourth": 4, "fifth": 5, "sixth": 6, "seventh": 7, "eighth": 8, "ninth": 9,
    "tenth": 10, "eleventh": 11, "twelfth": 12, "thirteenth": 13, "fourteenth": 14, "fifteenth": 15, "sixteenth": 16,
    "seventeenth": 17, "eighteenth": 18, "nineteenth": 19, "twentieth": 20, "thirtieth": 30, "twenty-first": 21,
    "twenty-second": 22, "twenty-third": 23, "twenty-fourth": 24, "twenty-fifth": 25, "twenty-sixth": 26,
    "twenty-seventh": 27, "twenty-eighth": 28, "twenty-ninth": 29, "thirty-first": 31,
}  # fmt: skip
_CLOCK = re.compile(r"(\d{1,2})(?:[:.](\d{2}))?(am|pm)?")
_LEADS = {
    "at",
    "on",
    "for",
    "by",
    "around",
    "about",
    "this",
    "in",
    "from",
    "to",
    "until",
    "till",
    "before",
    "after",
    "of",
}


@dataclass(frozen=True, slots=True)
class _Moment:
    """What a spoken time has said so far; `end` is the token after its last word."""

    end: int
    day: Callable[[date], date] | None = None
    hour: int | None = None
    minute: int = 0
    half: str = ""  # "am" or "pm" once known
    part: str = ""
    offset: timedelta | None = None
    exact: bool = False  # the clock time is unambiguous


def read_when(tokens: Tokens, at: int) -> int | None:
    """End of the longest spoken time that starts at a token (its preposition included), or None."""
    moment = _read(tokens, at)
    return moment.end if moment else None


def normalise_when(tokens: Tokens, reference: datetime | None) -> str | None:
    """ISO 8601 of a spoken time: `2026-03-06` for a day, `2026-03-06T15:00` with a time; None where it cannot be
    told."""
    moment = _read(tokens, 0)
    if moment is None or moment.end != len(tokens) or reference is None:
        return None
    try:
        return _resolve(moment, reference)
    except (OverflowError, ValueError):  # a day that no month has, or a year past 9999
        return None


def _resolve(moment: _Moment, reference: datetime) -> str:
    if moment.offset is not None:
        then = reference + moment.offset
        if moment.offset >= timedelta(days=1) and moment.hour is None:
            return then.date().isoformat()
        if moment.hour is None:
            return then.replace(second=0, microsecond=0).isoformat(timespec="minutes")[:16]
        day: date | None = then.date()
    else:
        day = moment.day(reference.date()) if moment.day else None
    if moment.hour is None:
        day = day or reference.date()
        if not moment.part:
            return day.isoformat()
        start = datetime.combine(day, _PART_START[moment.part])
        if moment.day is None and start <= reference.replace(tzinfo=None):
            start += timedelta(days=1)
        return start.isoformat(timespec="minutes")
    hour, half = moment.hour, moment.half or _PARTS.get(moment.part, "")
    if half == "pm" and hour < 12:
        hour += 12
    elif half == "am" and hour == 12:
        hour = 0
    elif not half and not moment.exact and 1 <= hour <= 6:
        hour += 12
    then = datetime.combine(day or reference.date(), time(hour, moment.minute))
    if day is None and then <= reference.replace(tzinfo=None):
        later = then + timedelta(hours=12)
        fits = not half and not moment.exact and later.date() == then.date() and later > reference.replace(tzinfo=None)
        then = later if fits else then + timedelta(days=1)
    return then.isoformat(timespec="minutes")


def _read(tokens: Tokens, at: int) -> _Moment | None:
    moment: _Moment | None = None
    here = at
    while here < len(tokens):
        if moment and here > at and tokens[here - 1].stop in {".", "?", "!"}:
            break
        lead = here
        while lead < len(tokens) and lead - here < 2 and tokens[lead].norm in _LEADS:
            lead += 1
        word = tokens[lead - 1].norm if lead > here else ""
        if lead >= len(tokens):
            break
        step = _step(tokens, lead, moment or _Moment(at), word)
        if step is None and lead > here:  # "in twenty minutes", "on the fifth": the preposition belongs to the piece
            step = _step(tokens, here, moment or _Moment(at), "")
        if step is None:
            break
        moment = step
        here = step.end
    return moment


def _step(tokens: Tokens, at: int, now: _Moment, lead: str) -> _Moment | None:
    """One more piece of a spoken time at a token, or None. Every piece may appear once."""
    words = [token.norm.removesuffix("'s") for token in tokens[at : at + 5]]
    word = words[0]
    if now.day is None and now.offset is None:
        found = _day(tokens, at, words)
        if found:
            end, day, part = found
            return replace(now, end=end, day=day, part=now.part or part)
        ahead = _ahead(tokens, at, lead)
        if ahead:
            return replace(now, end=ahead[0], offset=ahead[1])
    if not now.part:
        for skip in (words[:2] == ["the", words[1] if len(words) > 1 else ""], False):
            piece = words[1] if skip else word
            if piece in _PARTS and (skip or lead or now.day or now.hour is not None):
                return replace(now, end=at + 1 + skip, part=piece)
        if words[:3] == ["first", "thing", "tomorrow"]:
            return replace(now, end=at + 3, day=_after(1), part="morning")
    if now.hour is None:
        return _clock(tokens, at, now, lead)
    if not now.half and word in {"am", "pm"}:
        return replace(now, end=at + 1, half=word)
    return None


def _after(days: int) -> Callable[[date], date]:
    return lambda today: today + timedelta(days=days)


def _weekday(target: int, following_week: bool) -> Callable[[date], date]:
    def day(today: date) -> date:
        if following_week:
            return today + timedelta(days=7 - today.weekday() + target)
        return today + timedelta(days=(target - today.weekday() - 1) % 7 + 1)

    return day


def _month_day(month: int | None, number: int) -> Callable[[date], date]:
    def day(today: date) -> date:
        if month is not None:
            this_year = date(today.year, month, number)
            return this_year if this_year >= today else date(today.year + 1, month, number)
        first = today if number >= today.day else (today.replace(day=1) + timedelta(days=32))
        return first.replace(day=number)

    return day


def _day(tokens: Tokens, at: int, words: list[str]) -> tuple[int, Callable[[date], date], str] | None:
    word = words[0]
    if word == "today":
        return at + 1, _after(0), ""
    if word == "tonight":
        return at + 1, _after(0), "night"
    if word == "tomorrow":
        return at + 1, _after(1), ""
    for phrase in (["the", "day", "after", "tomorrow"], ["day", "after", "tomorrow"]):
        if words[: len(phrase)] == phrase:
            return at + len(phrase), _after(2), ""
    if word in {"this", "next", "coming"} and len(words) > 1:
        if words[1] in _PARTS and word == "this":
            return at + 2, _after(0), words[1]
        if words[1] == "week" and word == "next":
            return at + 2, _after(7), ""
        if words[1] == "weekend":
            return at + 2, _weekday(5, word == "next"), ""
        target = _weekday_number(words[1])
        if target is not None:
            return at + 2, _weekday(target, word == "next"), ""
    target = _weekday_number(word)
    if target is not None:
        return at + 1, _weekday(target, False), ""
    return _calendar(tokens, at, words)


def _weekday_number(word: str) -> int | None:
    if word in WEEKDAYS:
        return WEEKDAYS.index(word)
    return _SHORT_DAYS.get(word)


def _month_number(word: str) -> int | None:
    return MONTHS.index(word) + 1 if word in MONTHS else _SHORT_MONTHS.get(word)


def _day_number(tokens: Tokens, at: int, plain: bool) -> tuple[int, int] | None:
    """A day of the month: "5th", "twenty first", and bare "5" or "five" where `plain`. -> (number, end)"""
    if at >= len(tokens):
        return None
    word = tokens[at].norm
    match = re.fullmatch(r"(\d{1,2})(st|nd|rd|th)?", word)
    if match and (match[2] or plain) and 1 <= int(match[1]) <= 31:
        return int(match[1]), at + 1
    if word in _ORDINALS:
        return _ORDINALS[word], at + 1
    if word in {"twenty", "thirty"} and at + 1 < len(tokens) and _ORDINALS.get(tokens[at + 1].norm, 99) < 10:
        return TENS[word] + _ORDINALS[tokens[at + 1].norm], at + 2
    if plain:
        number = read_number(tokens, at)
        if number and not number.unit and number.value in range(1, 32):
            return int(number.value), number.end
    return None


def _calendar(tokens: Tokens, at: int, words: list[str]) -> tuple[int, Callable[[date], date], str] | None:
    month = _month_number(words[0])
    if month is not None:
        start = at + 2 if words[1:2] == ["the"] else at + 1
        number = _day_number(tokens, start, plain=True)
        return (number[1], _month_day(month, number[0]), "") if number else None
    skip = words[0] == "the"
    number = _day_number(tokens, at + skip, plain=False)
    if number is None:
        return None
    end = number[1]
    if end < len(tokens):
        after = end + (tokens[end].norm == "of")
        month = _month_number(tokens[after].norm) if after < len(tokens) else None
        if month is not None:
            return after + 1, _month_day(month, number[0]), ""
    # "the second door" is no day: a day of the month ends the words, or a time follows it.
    last = end == len(tokens) or bool(tokens[end - 1].stop) or tokens[end].norm in {"at", "in", "with", "from", "until"}
    return (end, _month_day(None, number[0]), "") if skip and last else None


def _ahead(tokens: Tokens, at: int, lead: str) -> tuple[int, timedelta] | None:
    """ "in twenty minutes", "an hour from now" -> (end, offset)"""
    span = read_duration_value(tokens, at)
    if span is None:
        return None
    end, seconds = span
    rest = [token.norm for token in tokens[end : end + 2]]
    if rest == ["from", "now"]:
        return end + 2, timedelta(seconds=seconds)
    return (end, timedelta(seconds=seconds)) if lead == "in" else None


def _clock(tokens: Tokens, at: int, now: _Moment, lead: str) -> _Moment | None:
    word = tokens[at].norm
    following = [token.norm for token in tokens[at + 1 : at + 3]]
    if word in {"noon", "midday", "midnight", "lunchtime"}:
        return replace(now, end=at + 1, hour=0 if word == "midnight" else 12, exact=True)
    past = _past(tokens, at)
    if past:
        hour, minute, end = past
        return _half_day(tokens, replace(now, end=end, hour=hour, minute=minute))
    match = _CLOCK.fullmatch(word)
    hour, minute, end = -1, 0, at + 1
    if match:
        hour, minute = int(match[1]), int(match[2] or 0)
    elif word in UNITS and 1 <= UNITS[word] <= 12:
        hour = UNITS[word]
        minutes = _spoken_minutes(tokens, end)
        if minutes:
            minute, end = minutes
    if not (0 <= hour <= 23 and minute <= 59):
        return None
    clear = bool(match and (match[2] or match[3])) or minute > 0
    if following[:1] == ["o'clock"]:
        clear, end = True, at + 2
    found = replace(
        now, end=end, hour=hour, minute=minute, half=(match[3] or "") if match else "", exact=hour > 12 or hour == 0
    )
    found = _half_day(tokens, found)
    # A bare number is a clock time only after "at", beside a day, or before am, pm, "in the morning".
    timed = lead in {"at", "by", "around", "about", "until", "till", "before", "after"}
    if clear or found.half or timed or (now.day is not None and end == len(tokens)):
        return found
    return None


def _half_day(tokens: Tokens, found: _Moment) -> _Moment:
    if not found.half and found.end < len(tokens) and tokens[found.end].norm in {"am", "pm"}:
        return replace(found, end=found.end + 1, half=tokens[found.end].norm)
    return found


def _spoken_minutes(tokens: Tokens, at: int) -> tuple[int, int] | None:
    """The minutes in "six thirty", "seven oh five". -> (minutes, end)"""
    if at >= len(tokens) or tokens[at - 1].stop:
        return None
    word = tokens[at].norm
    if word in {"oh", "o"} and at + 1 < len(tokens) and 0 < UNITS.get(tokens[at + 1].norm, 0) < 10:
        return UNITS[tokens[at + 1].norm], at + 2
    number = read_number(tokens, at)
    if number and not number.unit and 10 <= number.value <= 59 and word != "a":
        return int(number.value), number.end
    return None


def _past(tokens: Tokens, at: int) -> tuple[int, int, int] | None:
    """ "half past six", "a quarter to five", "ten past three" -> (hour, minute, end)"""
    words = [token.norm for token in tokens[at : at + 5]]
    skip = 1 if words[:1] == ["a"] else 0
    words = words[skip:]
    if len(words) < 3:
        return None
    minutes = {"half": 30, "quarter": 15}.get(words[0], UNITS.get(words[0], TENS.get(words[0], 0)))
    if re.fullmatch(r"[1-5]?\d", words[0]):
        minutes = int(words[0])
    if (
        not 0 < minutes < 60
        or words[1] not in {"past", "to", "after", "till"}
        or (words[0] == "half" and words[1] != "past")
    ):
        return None
    hour = UNITS.get(words[2], int(words[2]) if re.fullmatch(r"\d{1,2}", words[2]) else 0)
    if not 1 <= hour <= 12:
        return None
    end = at + skip + 3
    if words[1] in {"to", "till"}:
        return (hour - 2) % 12 + 1, 60 - minutes, end
    return hour, minutes, end


_STRETCHES = frozenset({"day", "night", "evening", "week", "weekend", "morning", "afternoon", "month"})
_ARRIVAL = re.compile(
    r"(until|till) (i|we)('m|'re)? ?(am |are )?(get|arrive|arrived|make it|come|reach|land|leave|finish)?"
    r"( (home|there|back|here|in|work|downtown)\b)+"
)


def read_duration(tokens: Tokens, at: int) -> int | None:
    """End of a spoken duration at a token ("for" not included): "an hour", "until six", "the rest of the day"."""
    found = read_duration_value(tokens, at)
    if found:
        return found[0]
    words = [token.norm for token in tokens[at : at + 5]]
    if words[:4] == ["the", "rest", "of", "the"] and words[4:] and words[4] in _STRETCHES:
        return at + 5
    if words[:1] and words[0] in {"the", "all", "this"} and words[1:] and words[1] in _STRETCHES:
        return at + 2
    if words[:2] == ["the", "next"]:
        if words[2:] and words[2].removesuffix("s") in UNIT_SECONDS:
            return at + 3
        ahead = read_duration_value(tokens, at + 2)
        return ahead[0] if ahead else None
    if words[:1] and words[0] in {"until", "till"}:
        arrival = _ARRIVAL.match(" ".join(words))
        return at + len(arrival[0].split()) if arrival else read_when(tokens, at)
    return None
