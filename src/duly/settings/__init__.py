"""The settings, and how they are loaded."""

from duly.settings.keywords import Keywords
from duly.settings.loading import Described, checked_setting, described, load, problems, variable
from duly.settings.settings import ADDRESSES, CENTURY, DEFAULT_NAMESPACE, SECRETS, Settings
