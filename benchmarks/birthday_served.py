"""The app that `benchmarks.birthdays` serves: it greets, but does not write a line for each."""

import logging

from duly_birthday.service import BirthdayApp

logging.getLogger("duly_birthday").disabled = True
app = BirthdayApp()
