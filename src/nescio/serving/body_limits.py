"""How large a request's body may be, and the error that says what is wrong with one."""

from dataclasses import dataclass

from nescio.core import NescioError

UNREADABLE, TOO_LARGE, WRONG_TYPE, WRONG_INPUTS = 400, 413, 415, 422  # of HTTP


@dataclass(frozen=True)
class BodyLimits:
    """What a body may hold at most.

    body_bytes: bytes of the body.
    rows: inputs of the body.
    pixels: pixels of all images of the body, as they are stored; known before one is decoded.
    """

    body_bytes: int = 16 << 20
    rows: int = 4096
    pixels: int = 1 << 24

    def check_bytes(self, count: int) -> None:
        """Refuse a body of `count` bytes where that is too many."""
        if count > self.body_bytes:
            raise BodyError(
                TOO_LARGE,
                f"the body has {count:,} bytes, at most {self.body_bytes:,} are read; send fewer "
                "rows at a time",
            )

    def check_rows(self, count: int) -> None:
        """Refuse a body of `count` rows where these are none, or too many."""
        if count < 1:
            raise BodyError(WRONG_INPUTS, "the body holds no rows; send at least one")
        if count > self.rows:
            raise BodyError(
                TOO_LARGE,
                f"the body has {count:,} rows, at most {self.rows:,} are decided at a time; send "
                "the others in another request",
            )


class BodyError(NescioError):
    """A body that holds no inputs of the guard.

    status: of the answer: 400 the body cannot be parsed, 413 it is too large, 415 its type is not
      read, 422 it can be parsed and is not what the guard reads.
    message: what is wrong, and what to do.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def wrong_inputs(message: str) -> BodyError:
    """The error of a body that can be parsed and is not what the guard reads: a `message`."""
    return BodyError(WRONG_INPUTS, message)
