"""The app that `benchmarks.birthdays` serves: it greets without writing a log line for each."""

import logging

from duly_birthday.service import BirthdayApp

logging.getLogger("duly_birthday").disabled = True
app = BirthdayApp()
