"""`duly verify`: checks the signature of a received webhook."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated

from cyclopts import Parameter

from duly.domain.endpoints.signatures import ID, SIGNATURE, TIMESTAMP, SignatureRefused
from duly.domain.time.durations import duration
from duly.errors import InvalidInput
from duly.receiving import verify as verified_id
from duly.surfaces.cli.receiving.secret import Secret, given_secret
from duly.surfaces.cli.terminal.delivery_options import STDIN, bytes_of
from duly.surfaces.cli.terminal.flags import Json
from duly.surfaces.cli.terminal.headers import Headers, each_once, pairs
from duly.surfaces.cli.terminal.output import answer

File = Annotated[str, Parameter(allow_leading_hyphen=True, show_default=False)]
Text = str | None


@Parameter(name="*")
@dataclass(frozen=True)
class Message:
    """The headers of the message."""

    id: Annotated[Text, Parameter(help=f"Its {ID}.")] = None
    timestamp: Annotated[Text, Parameter(help=f"Its {TIMESTAMP}.")] = None
    signature: Annotated[Text, Parameter(help=f"Its {SIGNATURE}.")] = None
    headers: Headers = ()

    def given(self) -> dict[str, str]:
        """The headers, each once."""
        flags = {ID: self.id, TIMESTAMP: self.timestamp, SIGNATURE: self.signature}
        named = [(name, value) for name, value in flags.items() if value is not None]
        return each_once([*named, *pairs(self.headers)])


@dataclass(frozen=True)
class _Check:
    """What a body is checked with."""

    headers: dict[str, str]
    secret: str
    tolerance: timedelta

    def id_of(self, body: bytes) -> str:
        return verified_id(body, self.headers, self.secret, tolerance=self.tolerance)


MESSAGE = Message()


def verify(
    file: File = STDIN,
    /,
    *,
    message: Message = MESSAGE,
    secret: Secret = None,
    tolerance: Annotated[str, Parameter(help="How old it may be, as in 5m or 30d.")] = "5m",
    json: Json = False,
) -> None:
    """Check the signature of a webhook; exit 1 if it is not valid.

    Parameters
    ----------
    file
        The body, byte for byte as received; - or nothing reads stdin.
    """
    check = _Check(message.given(), _needed(secret), duration("tolerance", tolerance))
    try:
        id = _id_of(check, bytes_of("file", file))
    except SignatureRefused as error:
        if json:
            answer(True, {"verified": False, "id": None, "why": str(error)}, str)
        raise
    answer(json, {"verified": True, "id": id, "why": None}, lambda: f"the signature is valid: {id}")


def _needed(flag: str | None) -> str:
    secret = given_secret(flag)
    if not secret:
        raise InvalidInput("secret", "it is missing; set DULY_WEBHOOK_SECRET or give --secret")
    return secret


def _id_of(check: _Check, body: bytes) -> str:
    try:
        return check.id_of(body)
    except SignatureRefused as error:
        if body.endswith(b"\n") and _is_right(check, body[:-1]):
            # Editors and echo add a newline, and the error would suggest a wrong secret.
            raise SignatureRefused(
                "the body has a newline at its end that was not signed; remove it, for example "
                "with printf instead of echo"
            ) from error
        raise


def _is_right(check: _Check, body: bytes) -> bool:
    try:
        return bool(check.id_of(body))
    except SignatureRefused:
        return False
