"""Rules said in words: each sentence means one thing, or is refused with the nearest that does."""

import random
import re
from datetime import UTC, datetime, timedelta

import pytest

from duly.domain.time import sentences
from duly.domain.time.cron import pattern
from duly.domain.time.descriptions import of_cron
from duly.domain.time.phrases import PHRASES
from duly.domain.time.rules import Every, any_of, cron
from duly.errors import InvalidInput
from tests.domain.expressions import expression

pytestmark = pytest.mark.requirement("L5")

UNDERSTOOD = """
every minute                                          | * * * * *
each minute                                           | * * * * *
every second                                          | * * * * * *
every 5 seconds                                       | */5 * * * * *
every 30 secs                                         | */30 * * * * *
every 5 minutes                                       | */5 * * * *
Every 15 Minutes                                      | */15 * * * *
every 10 mins                                         | */10 * * * *
every 1 minute                                        | * * * * *
every 20 min                                          | */20 * * * *
every other minute                                    | */2 * * * *
every half hour                                       | */30 * * * *
every half an hour                                    | */30 * * * *
every 120 seconds                                     | */2 * * * *
every 60 minutes                                      | 0 * * * *
every 120 minutes                                     | 0 */2 * * *
every hour                                            | 0 * * * *
hourly                                                | 0 * * * *
Hourly.                                               | 0 * * * *
every 1 hour                                          | 0 * * * *
every 2 hours                                         | 0 */2 * * *
every other hour                                      | 0 */2 * * *
every 6 hrs                                           | 0 */6 * * *
every 12 hours                                        | 0 */12 * * *
every hour at minute 30                               | 30 * * * *
every hour at :15                                     | 15 * * * *
hourly at :05                                         | 5 * * * *
hourly at minute 45                                   | 45 * * * *
at minute 15 of every hour                            | 15 * * * *
at minutes 5 and 35 of every hour                     | 5,35 * * * *
at minutes 5, 20 and 35 of every hour                 | 5,20,35 * * * *
at minutes 0 to 10 of every hour                      | 0-10 * * * *
at minutes 0 to 40 in steps of 20 of hours 8 to 18    | */20 8-18 * * *
at seconds 15 and 45 of every minute                  | 15,45 * * * * *
every second of minute 30 of every hour               | * 30 * * * *
every minute of hours 8 and 20                        | * 8,20 * * *
every day at 9                                        | 0 9 * * *
every day at 9am                                      | 0 9 * * *
every day at 9 am                                     | 0 9 * * *
every day at 9 a.m.                                   | 0 9 * * *
every day at 9:00                                     | 0 9 * * *
every day at 09:00                                    | 0 9 * * *
every day at 9 o'clock                                | 0 9 * * *
every day at 9AM                                      | 0 9 * * *
every day at 2:30pm                                   | 30 14 * * *
every day at 2:30 PM                                  | 30 14 * * *
every day at 2:30 p.m.                                | 30 14 * * *
every day at 14:00                                    | 0 14 * * *
every day at 14                                       | 0 14 * * *
every day at 0                                        | 0 0 * * *
every day at 12am                                     | 0 0 * * *
every day at 12pm                                     | 0 12 * * *
every day at 12:30am                                  | 30 0 * * *
every day at noon                                     | 0 12 * * *
every day at midnight                                 | 0 0 * * *
every day at 23:59                                    | 59 23 * * *
every day at 09:00:30                                 | 30 0 9 * * *
every day, at 9am                                     | 0 9 * * *
at 9am every day                                      | 0 9 * * *
9am every day                                         | 0 9 * * *
every day 14:00                                       | 0 14 * * *
everyday at 9am                                       | 0 9 * * *
daily at 9                                            | 0 9 * * *
daily at 9am                                          | 0 9 * * *
Daily at 17:45                                        | 45 17 * * *
once a day at 8am                                     | 0 8 * * *
once per day at 8am                                   | 0 8 * * *
twice a day at 9am and 5pm                            | 0 9,17 * * *
twice a day at 9 and 17                               | 0 9,17 * * *
twice a day at 9:30 and 17:30                         | 30 9,17 * * *
twice a day, at noon and midnight                     | 0 0,12 * * *
twice every day at 6am and 6pm                        | 0 6,18 * * *
three times a day at 8am, noon and 8pm                | 0 8,12,20 * * *
3 times a day at 8, 12 and 20                         | 0 8,12,20 * * *
four times a day at 0, 6, 12 and 18                   | 0 0,6,12,18 * * *
every day at 9am and 5pm                              | 0 9,17 * * *
every day at 8am, noon, and 6pm                       | 0 8,12,18 * * *
daily at 9:00 and 9:30                                | 0,30 9 * * *
daily at 8:00, 8:30, 12:00 and 12:30                  | 0,30 8,12 * * *
every weekday at 9am                                  | 0 9 * * MON-FRI
each weekday at 9am                                   | 0 9 * * MON-FRI
weekdays at 9am                                       | 0 9 * * MON-FRI
on weekdays at 9am                                    | 0 9 * * MON-FRI
at 9am on weekdays                                    | 0 9 * * MON-FRI
weekdays at 8:30 and 17:30                            | 30 8,17 * * MON-FRI
every weekend at noon                                 | 0 12 * * SAT,SUN
weekends at 10am                                      | 0 10 * * SAT,SUN
on weekends at 10am                                   | 0 10 * * SAT,SUN
every Monday at 9am                                   | 0 9 * * MON
every monday 9am                                      | 0 9 * * MON
Mondays at 9                                          | 0 9 * * MON
on Monday at 9                                        | 0 9 * * MON
on Mondays at 9                                       | 0 9 * * MON
at 09:00 on Monday                                    | 0 9 * * MON
every Mon at 9                                        | 0 9 * * MON
every Tues at 9                                       | 0 9 * * TUE
every Wed at 9                                        | 0 9 * * WED
every Thurs at 9                                      | 0 9 * * THU
every Sunday at 23:00                                 | 0 23 * * SUN
every Monday and Thursday at 14:00                    | 0 14 * * MON,THU
every Monday, Wednesday and Friday at 7am             | 0 7 * * MON,WED,FRI
every Mon, Wed, Fri at 7am                            | 0 7 * * MON,WED,FRI
every Sunday and Monday at 7am                        | 0 7 * * MON,SUN
Monday to Friday at 9am                               | 0 9 * * MON-FRI
Monday through Friday at 9am                          | 0 9 * * MON-FRI
mon-fri at 9                                          | 0 9 * * MON-FRI
every Friday to Sunday at 9am                         | 0 9 * * FRI-SUN
Saturday to Tuesday at 9am                            | 0 9 * * MON,TUE,SAT,SUN
every Monday to Wednesday and Saturday at 6:15        | 15 6 * * MON,TUE,WED,SAT
weekly on Monday at 9am                               | 0 9 * * MON
every week on Monday at 9am                           | 0 9 * * MON
every week on Tuesday and Friday at 18:00             | 0 18 * * TUE,FRI
once a week on Sunday at midnight                     | 0 0 * * SUN
on the first of the month at 9am                      | 0 9 1 * *
first of the month at 9am                             | 0 9 1 * *
the first day of the month at 9am                     | 0 9 1 * *
first day of every month at 9am                       | 0 9 1 * *
on the 1st of the month at 9am                        | 0 9 1 * *
on the 1st of each month at 9am                       | 0 9 1 * *
on the 1st at 9am                                     | 0 9 1 * *
every 1st of the month at 9am                         | 0 9 1 * *
monthly on the 1st at 9am                             | 0 9 1 * *
monthly on the 15th at 6:45 p.m.                      | 45 18 15 * *
every month on the 15th at noon                       | 0 12 15 * *
once a month on the 15th at noon                      | 0 12 15 * *
on the 1st and 15th of the month at 9am               | 0 9 1,15 * *
on the 1st, 10th and 20th of the month at 9am         | 0 9 1,10,20 * *
on the 1st to 7th of the month at 0                   | 0 0 1-7 * *
on the 22nd and 23rd at 4                             | 0 4 22,23 * *
on the second of the month at 9                       | 0 9 2 * *
on the 31st of the month at 9                         | 0 9 31 * *
on the last day of the month at 6pm                   | 0 18 L * *
last day of the month at 18:00                        | 0 18 L * *
the last day of every month at 18:00                  | 0 18 L * *
monthly on the last day of the month at 18:00         | 0 18 L * *
on the last weekday of the month at 5pm               | 0 17 LW * *
on the last day from Monday to Friday of the month at 5pm | 0 17 LW * *
on the 15th of the month and the last day of the month at 9 | 0 9 15,L * *
on the first Monday of the month at 9am               | 0 9 * * 1#1
every first Monday of the month at 9am                | 0 9 * * 1#1
every second Monday of the month at noon              | 0 12 * * 1#2
every 2nd Tuesday of the month at 9                   | 0 9 * * 2#2
on the first and third Tuesday of the month at 10:30  | 30 10 * * 2#1,2#3
on the last Friday of the month at 5pm                | 0 17 * * 5L
every last Friday of the month at 5pm                 | 0 17 * * 5L
monthly on the last Sunday of the month at 1am        | 0 1 * * 0L
on the fourth Thursday of the month at 9 in November  | 0 9 * 11 4#4
on Friday and the first Monday of the month at 9      | 0 9 * * FRI,1#1
on 24 December at 8am                                 | 0 8 24 12 *
on December 24 at 8am                                 | 0 8 24 12 *
on the 24th of December at 8am                        | 0 8 24 12 *
on Dec 24th at 8am                                    | 0 8 24 12 *
every year on 1 January at midnight                   | 0 0 1 1 *
yearly on 1 January at midnight                       | 0 0 1 1 *
annually on 31 October at 18:00                       | 0 18 31 10 *
every 24 December at 8am                              | 0 8 24 12 *
on 29 February at 9                                   | 0 9 29 2 *
every day at 9am in June                              | 0 9 * 6 *
every day at 9am in June and July                     | 0 9 * 6,7 *
every day at 9am from June to August                  | 0 9 * 6-8 *
every day at 9am from November to February            | 0 9 * 1,2,11,12 *
in June, every day at 9am                             | 0 9 * 6 *
every weekday at 9am in January, April, July and October | 0 9 * 1,4,7,10 MON-FRI
on the 1st of the month at 0 in Jan and Jul           | 0 0 1 1,7 *
every Monday at 9am in Sept                           | 0 9 * 9 MON
every June on the 1st at 9am                          | 0 9 1 6 *
every year on the 1st in June at 9am                  | 0 9 1 6 *
every 15 minutes from 9am to 5:45pm                   | */15 9-17 * * *
every 15 minutes from 09:00 to 17:45 on Monday to Friday | */15 9-17 * * MON-FRI
every 15 minutes between 9am and 5:45pm on weekdays   | */15 9-17 * * MON-FRI
every 30 minutes from 8:00 to 18:30                   | */30 8-18 * * *
every half hour from 9am to 5:30pm on weekdays        | */30 9-17 * * MON-FRI
every hour from 9am to 5pm                            | 0 9-17 * * *
every hour from 9 to 17 on weekdays                   | 0 9-17 * * MON-FRI
hourly between 8am and 8pm                            | 0 8-20 * * *
every hour from 22:00 to 5:00                         | 0 0,1,2,3,4,5,22,23 * * *
every 2 hours from 8am to 6pm                         | 0 8,10,12,14,16,18 * * *
every minute from 9:00 to 9:59                        | * 9 * * *
every minute from 9:00 to 10:59 on Sunday             | * 9,10 * * SUN
every second from 09:00 to 10:59:59                   | * * 9,10 * * *
every 10 minutes on weekdays                          | */10 * * * MON-FRI
every 10 minutes on the 1st of the month              | */10 * 1 * *
every 15 minutes in June                              | */15 * * 6 *
every 5 minutes every day                             | */5 * * * *
every 15 minutes of hours 1 to 9 in steps of 4        | */15 1-9/4 * * *
every 2 hours on Saturday and Sunday                  | 0 */2 * * SAT,SUN
every hour at minute 30 on weekdays                   | 30 * * * MON-FRI
twice a day at 9am and 5:30pm                         | 0 9 * * *; 30 17 * * *
every day at 9:00, 17:30 and 18:00                    | 0 9,18 * * *; 30 17 * * *
weekdays at 8:15, 12:15 and 18:30                     | 15 8,12 * * MON-FRI; 30 18 * * MON-FRI
every day at 9am, or on Friday at 17:30               | 0 9 * * *; 30 17 * * FRI
every 45 minutes, or every day at noon                | @every 45m; 0 12 * * *
at 04:30 on the 1st and 15th of the month, and also on Friday | 30 4 1,15 * FRI
at 04:30 on the 1st of the month, and also on Friday, only in June | 30 4 1 6 FRI
at 09:00 on Monday, but only on the 1st to 31st in steps of 2 of the month | 0 9 */2 * MON
"""

INTERVALS = {
    "every 45 minutes": timedelta(minutes=45),
    "every 90 seconds": timedelta(seconds=90),
    "every 7 minutes": timedelta(minutes=7),
    "every 90 minutes": timedelta(minutes=90),
    "every 5 hours": timedelta(hours=5),
    "every 24 hours": timedelta(days=1),
    "every 36 hours": timedelta(hours=36),
    "every 1440 minutes": timedelta(days=1),
}

REFUSED = """
nonsense                                  | 'nonsense' does not fit
soon                                      | 'soon' does not fit
tomorrow at 9am                           | 'tomorrow' does not fit
every                                     | 'every' does not fit
at                                        | 'at' does not fit
at 9                                      | on which days
9am                                       | on which days
noon                                      | on which days
at 9am in June                            | on which days
daily                                     | no time of day
every day                                 | no time of day
every weekday                             | no time of day
every Monday                              | no time of day
monthly on the 1st                        | no time of day
on the last day of the month              | no time of day
on 24 December                            | no time of day
from 9 to 5                               | is backwards
in June                                   | no time of day
weekly at 9am                             | name days of the week
every week at 9am                         | name days of the week
weekly on the 1st at 9am                  | name days of the week
weekly on the last Friday of the month at 9am | name days of the week
monthly at 9am                            | name a day of the month
every month at 9am                        | name a day of the month
monthly on Monday at 9am                  | name a day of the month
yearly at 9am                             | name a date
every year on Monday at 9am               | name a date
every day on Monday at 9am                | leave out the other days
daily on weekdays at 9am                  | leave out the other days
twice a day at 9am                        | name as many times
twice a day                               | no time of day
three times a day at 9 and 17             | name as many times
once a day at 9am and 5pm in the evening  | 'evening' does not fit
twice a week on Monday at 9               | 'twice' does not fit
every 2 days at 9am                       | 'days' does not fit
every second day at 9am                   | 'every second day' does not fit
every other Monday at 9am                 | 'every other monday' does not fit
every second Monday at noon               | 'every second monday' does not fit
every 3 weeks on Monday at 9              | 'weeks' does not fit
every second of the month                 | 'of' does not fit
biweekly on Monday at 9                   | 'biweekly' does not fit
every business day at 9am                 | 'business' does not fit
every day at 25:00                        | '25:00' is no time of day
every day at 24                           | '24' is no time of day
every day at 9:60                         | '9:60' is no time of day
every day at 13pm                         | hours go from 1 to 12
every day at 0am                          | hours go from 1 to 12
every day at 9:5                          | does not fit
every day at 9.30                         | does not fit
every day at 9am and 9:00                 | a time of day twice
every day at 9am, or at 9am               | on which days
every day at 9am, or every day at 9am     | the same twice
every day at 9am or on Friday at 10am     | 'or' does not fit
every day at 9am at 5pm                   | another phrase of its kind
every Monday on Tuesday at 9am            | another phrase of its kind
every day at 9am and every Monday at 10am | 'and' does not fit
every day at 9am every 15 minutes         | times of day and an interval
every day at 9am from 8am to 5pm          | need an interval
every 7 minutes on weekdays               | elapsed time
every 5 hours from 9am to 7pm             | elapsed time
every 0 minutes                           | not from 1 minute
every 15 minutes from 9am to 5pm          | from 09:00 to 17:45
every 2 hours from 8am to 5pm             | do not end where
every 15 minutes from 9:05 to 17:45       | from 09:00 to 17:45
every hour of minute 5                    | not larger
every 5 minutes at minute 3               | follows `every hour` only
on the 1st and Friday at 9am              | days of the month and of the week
on 24 December and Friday at 9am          | days of the month and of the week
on 24 December and 1 January at 9am       | a date cannot be joined
on 24 December at 9am in June             | has its month already
on the 32nd of the month at 9am           | 32 is outside 1-31
on 30 February at 9am                     | names no day in 50 years
on Monday, and also on Friday at 9am      | joins days of the month with
on Monday, but only on the 2nd of the month at 9am | these days of the month only
every Monday to Sunday at 9am             | say `every day`
every day at 9am UTC                      | 'utc' does not fit
every weekday at 9 in the morning         | 'morning' does not fit
run every day at 9am                      | 'run' does not fit
every day except Sunday at 9am            | 'except' does not fit
every minute of every minute              | not larger
in the morning                            | does not fit
when it is due                            | does not fit
every day at ٩am                          | plain English letters
every 7 minutes of hours 9 and 10         | do not divide
minute 75 of every hour from 9am to 5pm   | 75 is outside 0-59
every hour at minute 75 from 9am to 5pm   | 75 is outside 0-59
every 1000000000000 hours                 | 100 years
evry 99999999999999999 hours              | 'evry' does not fit
every Monday at 5 and 6pm                 | '5' has no am or pm
every day at 5, 6 and 7pm                 | '5' has no am or pm
every Monday at 9am and 5                 | '5' has no am or pm
every day at 9 and 5                      | do not ascend
every hour from 9 to 5                    | is backwards
every hour between 10 and 2               | is backwards
every hour from 8am to 5                  | '5' has no am or pm
every hour from 9pm to 5am on Monday      | passes midnight
every 30 minutes from 10pm to 1:30am on weekdays | passes midnight
every hour from noon to midnight in June  | passes midnight
every hour from midnight to midnight      | the same time
every second weekday at 9am               | 'every second weekday' does not fit
every second weekend                      | 'every second weekend' does not fit
every second 1st of the month             | does not fit
every second last Friday of the month     | does not fit
every second 24 December                  | does not fit
every third day of the month at 9am       | does not fit
every 10th day of every month at 9am      | does not fit
once a day at 9am and 5pm                 | more than one moment
once a week on Monday and Friday at 9     | more than one moment
once a month on the 1st and 15th at 9     | more than one moment
once a day every hour                     | more than one moment
every year in December on Monday at 9     | name a date
every year on 29 February at 9            | not every year has that day
every month on the 31st at 9              | not every month has that day
every month on the 1st at 9 in June       | name a day of the month
every week on Friday, and also on the 15th of the month at 9 | name days of the week
every day at minute 5                     | say `of every hour`
at second 5 every day                     | say `of every minute`
on the first, and also on the last Friday of the month at 9 | say `of the month`
on the 6th Monday of the month at 9       | needs a number from 1 to 5
every day at 0930                         | 'at 0930' does not fit
"""


def rows(table: str) -> list[tuple[str, str]]:
    found = []
    for line in table.strip().splitlines():
        sentence, expected = line.split("|", 1)
        found.append((sentence.strip(), expected.strip()))
    return found


def test_there_are_sentences_enough() -> None:
    assert len({*rows(UNDERSTOOD), *rows(REFUSED)}) + len(INTERVALS) >= 200
    assert len(rows(REFUSED)) >= 60


@pytest.mark.parametrize(("sentence", "expected"), rows(UNDERSTOOD))
def test_a_sentence_is_a_cron_expression(sentence: str, expected: str) -> None:
    found = [cron(each, "Europe/Oslo") for each in expected.split("; ")]
    rule = found[0] if len(found) == 1 else any_of(*found)
    assert cron(sentence, "Europe/Oslo") == rule


@pytest.mark.parametrize(("sentence", "expected"), INTERVALS.items())
def test_an_interval_that_no_expression_has_is_elapsed_time(
    sentence: str, expected: timedelta
) -> None:
    assert cron(sentence, "Europe/Oslo") == Every(expected)


@pytest.mark.parametrize(("sentence", "reason"), rows(REFUSED))
def test_what_is_not_understood_is_refused_with_the_nearest_that_is(
    sentence: str, reason: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        cron(sentence)
    assert reason in refused.value.problem
    if found := re.search(r"do you mean '(.*)'\?", refused.value.problem):
        assert cron(found[1])


@pytest.mark.parametrize("sentence", [each for each, _ in rows(UNDERSTOOD) + rows(REFUSED)])
def test_no_sentence_can_be_read_in_two_ways(sentence: str) -> None:
    """At each place where a phrase begins, only one kind of phrase matches."""
    text, place = sentences.plain(sentence), 0
    while place < len(text):
        found = [match for each in PHRASES.values() if (match := each.match(text, place))]
        assert len(found) <= 1, (text[place:], found)
        if not found:
            break
        place = found[0].end()
        place += len(text[place:]) - len(text[place:].lstrip(", "))


def test_every_description_is_a_sentence_with_the_same_meaning() -> None:
    chance, around = random.Random(21), datetime(2026, 3, 3, 9, 15, tzinfo=UTC)
    compared = 0
    while compared < 300:
        text = expression(chance, around, by_second=chance.random() < 0.3)
        try:
            given = pattern(text)
        except InvalidInput:
            continue
        described = of_cron(given.fields)
        again = cron(described).preview(20, after=around)
        assert cron(text).preview(20, after=around) == again, described
        compared += 1


@pytest.mark.parametrize(("sentence", "_expected"), rows(UNDERSTOOD))
def test_the_description_of_a_sentence_means_the_same(sentence: str, _expected: str) -> None:
    after = datetime(2026, 3, 3, 9, 15, tzinfo=UTC)
    said = cron(sentence)
    described = said.describe().removesuffix(", UTC")
    assert cron(described).preview(20, after=after) == said.preview(20, after=after), described


@pytest.mark.parametrize(
    "text",
    [
        *("0 9 * * MOO", "61 * * * *", "* * * *", "1 2 3 4 5 6 7", "? 9 1 1 MON", "0 9h 1 1 MON"),
        *("O 9 1 1 MON", "0 9 1 JAN MON", "0 9 1 1 MON", "0 0 9 1 1 MON"),
        *("0/6,15 17-22 24,L APR 6,5#5", "0 12 5,L DEC/3 FRI#1", "0 0 LW JAN-MAR MON,FRI-SUN"),
    ],
)
def test_fields_are_never_taken_for_a_sentence(text: str) -> None:
    assert not sentences.is_sentence(text)


def test_a_description_with_its_zone_is_understood() -> None:
    rule = cron("0 9 * * MON", "Europe/Oslo")
    assert cron(rule.describe(), "Europe/Oslo") == rule
    with pytest.raises(InvalidInput, match="does not fit"):
        cron(rule.describe(), "Asia/Tokyo")


def test_other_arguments_are_checked_beside_an_interval() -> None:
    for wrong in ({"tz": "Europe/Atlantis"}, {"dst_gap": "later"}):
        with pytest.raises(InvalidInput):
            cron("every 45 minutes", **wrong)  # type: ignore[arg-type]


def test_any_text_is_understood_or_refused() -> None:
    chance = random.Random(5)
    words = [
        *sentences.KNOWN_WORDS,
        *[
            "9",
            "9am",
            "17:30",
            "5",
            "75",
            "1st",
            "31st",
            "2nd",
            ",",
            "or",
            "on",
            "at",
            "every",
            "of",
        ],
    ]
    for _ in range(2000):
        text = " ".join(chance.choices(words, k=chance.randint(1, 9)))
        try:
            cron(text)
        except InvalidInput as refused:
            if found := re.search(r"do you mean '(.*)'\?", refused.problem):
                cron(found[1])


def test_a_misspelled_word_is_corrected_in_the_proposal() -> None:
    with pytest.raises(InvalidInput, match="mean 'every day at 9am, or on friday at 5pm'"):
        cron("evry day at 9am, or on friday at 5pm")
    with pytest.raises(InvalidInput, match="do you mean 'every weekday at 7:15pm'"):
        cron("every wekday at 7:15pm")
    with pytest.raises(InvalidInput, match="do you mean 'every monday at 9'"):
        cron("evry mondy at 9")


@pytest.mark.parametrize(
    "text", ["at 1, 1, ", "the 1st, ", "mon, ", "first, ", "in jan and ", "every minute of ", "a "]
)
def test_a_long_sentence_is_refused_at_once(text: str) -> None:
    with pytest.raises(InvalidInput):
        cron((text * 1000)[:1000])
    with pytest.raises(InvalidInput, match="longer than 1000"):
        cron(text * 1000)
