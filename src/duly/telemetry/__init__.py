"""Turns events into log lines, metrics and spans."""

from duly.telemetry.histograms import Histogram
from duly.telemetry.telemetry import Telemetry, label_of
