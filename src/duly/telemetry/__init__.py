"""Happenings into log lines and numbers."""

from duly.telemetry.histograms import Histogram
from duly.telemetry.telemetry import Telemetry, label_of

__all__ = ["Histogram", "Telemetry", "label_of"]
