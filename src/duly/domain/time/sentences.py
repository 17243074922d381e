"""Rules said in English: "every weekday at 9am", "at 09:00 on the last day of the month".

A sentence is a series of phrases in any order: when on a day, on which days, in which months.
Several are joined by `, or`. Every description that duly gives of a cron expression is such a
sentence.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import timedelta
from difflib import get_close_matches

from duly.domain.time.cron import MONTH_NAMES, WEEKDAY_NAMES, pattern
from duly.domain.time.descriptions import MONTHS, WEEKDAYS
from duly.domain.time.phrases import MONTH, PHRASES, WEEKDAY
from duly.domain.time.sentence_fields import expressed
from duly.domain.time.sentence_parts import MEANINGS, Said, Unclear
from duly.errors import InvalidInput, quoted

LONGEST_SENTENCE = 1000
LONGEST_CORRECTED = 100
BEGINNINGS = {"at", "on", "every", "in", "from", "between", "the"}
"""Words with which phrases begin."""
NUMBERS = re.compile(r"\d+(?:[,/-]\d+)*")
FIELD = re.compile(
    rf"(?:[\d?#/-]|,(?!$)|L|W|{'|'.join((*MONTH_NAMES, *WEEKDAY_NAMES))})+", re.IGNORECASE
)
"""A field of a cron expression without `*`."""
OR = re.compile(r"\s*,\s*or\s+", re.IGNORECASE)
SAME = {
    r"\b([ap])\.m\b\.?": r"\1m",
    r"(?<=\d) (?=[ap]m\b)": "",
    r" o'clock": ":00",
    r"\beach\b": "every",
    r"\beveryday\b": "every day",
    r"\bhourly\b": "every hour",
    r"\bannually\b": "yearly",
    r"\b(?:through|until|till)\b": "to",
    r"\b(?:an|per)\b": "a",
    r"\bmin(s?)\b": r"minute\1",
    r"\bhr(s?)\b": r"hour\1",
    r"\bsec(s?)\b": r"second\1",
    r"\bhalf(?: an?|-)? hour\b": "30 minutes",
    rf"\b({WEEKDAY})-({WEEKDAY})\b": r"\1 to \2",
    r"\blast weekday of\b": "last day from monday to friday of",
}
"""Several ways to say something, and the one that phrases have."""
EXAMPLES = (
    "every 15 minutes",
    "every 2 hours",
    "every hour at minute 30",
    "every day at 9am",
    "every weekday at 9am",
    "every Monday at 9am",
    "every Monday and Thursday at 14:00",
    "every weekend at noon",
    "twice a day at 9am and 5pm",
    "every 15 minutes from 9am to 5:45pm on weekdays",
    "on the first of the month at 9am",
    "on the 1st and 15th of the month at 9am",
    "on the last day of the month at 6pm",
    "on the last Friday of the month at 5pm",
    "on 24 December at 8am",
    "every day at 9am in June and July",
)

KNOWN_WORDS = sorted(
    {
        *re.findall("[a-z]+", " ".join((*EXAMPLES, *MONTHS, *WEEKDAYS)).lower()),
        *(
            "twice",
            "times",
            "daily",
            "weekly",
            "monthly",
            "yearly",
            "week",
            "year",
            "second",
            "third",
        ),
        *("fourth", "fifth", "midnight", "between", "other", "only", "also", "but", "to", "once"),
    }
)
"""Words with which a misspelled one is compared."""
KNOWN = re.compile(rf"{'|'.join(KNOWN_WORDS)}|{MONTH}|{WEEKDAY}")


def is_sentence(text: str) -> bool:
    """Whether a text is meant as a sentence, not as fields of a cron expression."""
    words = text.split()
    if "*" in text or text.lstrip().startswith("@") or not re.search("[A-Za-z]{2}", text):
        return False
    if len(words) in (5, 6) and not BEGINNINGS & {each.lower() for each in words}:
        return sum(bool(FIELD.fullmatch(each)) for each in words) < 3
    return not all(NUMBERS.fullmatch(each) for each in words[:2])


def read(sentence: str) -> list[str | timedelta]:
    """The cron expressions, and intervals that no expression says, of which a sentence consists."""
    if len(sentence) > LONGEST_SENTENCE:
        raise InvalidInput("expression", f"it is longer than {LONGEST_SENTENCE} characters")
    if not sentence.isascii():
        raise InvalidInput("expression", f"{quoted(sentence)} is not in plain English letters")
    try:
        return _meant(sentence)
    except Unclear as problem:
        raise InvalidInput(
            "expression",
            f"{quoted(sentence)} is not understood: {problem}; do you mean "
            f"{quoted(_nearest(sentence))}? (Cron expressions have 5 or 6 fields.)",
        ) from None


def _meant(text: str) -> list[str | timedelta]:
    found = [each for sentence in OR.split(text) for each in _understood(sentence)]
    if len(set(found)) < len(found):
        raise Unclear("it says the same twice")
    for each in found:
        if isinstance(each, str):
            try:
                pattern(each)
            except InvalidInput as error:
                raise Unclear(str(error)) from None
    return found


def _understood(sentence: str) -> Sequence[str | timedelta]:
    said = Said()
    for kind, found in phrases_of(sentence):
        if getattr(said, kind) is not None:
            raise Unclear(f"{quoted(found[0])} comes after another phrase of its kind")
        setattr(said, kind, MEANINGS[kind](found))
    return expressed(said)


def phrases_of(sentence: str) -> Iterator[tuple[str, re.Match[str]]]:
    """The phrases of a sentence, with their kinds; Unclear at the first word that is in none."""
    text = plain(sentence)
    place = 0
    while place < len(text):
        for kind, phrase in PHRASES.items():
            if found := phrase.match(text, place):
                yield kind, found
                place = found.end()
                break
        else:
            raise Unclear(f"{quoted(_strange(text[place:].split()))} does not fit there")
        place += len(text[place:]) - len(text[place:].lstrip(", "))


def _strange(words: list[str]) -> str:
    """What is probably wrong: a word that no phrase has, or else the next phrase."""
    end = next((place for place, each in enumerate(words[1:], 1) if each in BEGINNINGS), len(words))
    phrase = words[:end] if words[0] in BEGINNINGS else words[:1]
    unknown = [each for each in words if each.isalpha() and not KNOWN.fullmatch(each)]
    return unknown[0] if unknown else " ".join(phrase)


def plain(sentence: str) -> str:
    """The sentence in lower case, with one word for each meaning."""
    text = re.sub(r"\s*,\s*", ", ", " ".join(sentence.lower().split())).rstrip(".,")
    for usual, one in SAME.items():
        text = re.sub(usual, one, text)
    return text


def _nearest(text: str) -> str:
    """A sentence that is understood and most like this one."""
    if len(text) <= LONGEST_CORRECTED:
        corrected = ", or ".join(_corrected(each) for each in OR.split(text))
        try:
            _meant(corrected)
        except (Unclear, InvalidInput):
            pass
        else:
            return corrected
    return get_close_matches(text[:LONGEST_CORRECTED], EXAMPLES, 1, 0.0)[0]


def _corrected(sentence: str) -> str:
    """The sentence with known words instead of misspelled ones."""
    return " ".join(
        (get_close_matches(each, KNOWN_WORDS, 1) or [each])[0]
        if each.isalpha() and not KNOWN.fullmatch(each)
        else each
        for each in plain(sentence).split()
    )
