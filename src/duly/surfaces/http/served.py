"""The App that a request is for, as routes take it."""

from __future__ import annotations

from litestar.di import NamedDependency
from litestar.params import SkipValidation

from duly.app import App

Served = NamedDependency[SkipValidation[App]]
"""`duly_app: Served` in a route: the app of the caller's namespace."""
