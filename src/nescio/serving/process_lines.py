"""The log lines of the process of a service, on stderr."""

import contextlib
import json
import logging
import sys
import time
from collections.abc import Iterator
from typing import Any


class LogLine(logging.Formatter):
    """A line of the log of the process: text, or JSON.

    as_json: whether it is JSON.
    """

    def __init__(self, as_json: bool) -> None:
        super().__init__()
        self.as_json = as_json

    def format(self, record: logging.LogRecord) -> str:
        """The line of `record`."""
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(record.created))
        more: dict[str, Any] = getattr(record, "more", {})
        level, message = record.levelname.lower(), record.getMessage()
        if self.as_json:
            return json.dumps({"time": at, "level": level, "message": message, **more}, default=str)
        said = " ".join(f"{name}={json.dumps(value, default=str)}" for name, value in more.items())
        return f"{at} {level} {message} {said}".rstrip()


@contextlib.contextmanager
def log_lines(as_json: bool) -> Iterator[None]:
    """Write the log lines of the service to stderr while the block runs.

    as_json: whether each is JSON.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LogLine(as_json))
    loggers = {"nescio.serving": logging.INFO, "uvicorn.error": logging.ERROR}
    for name, level in loggers.items():
        logger = logging.getLogger(name)
        logger.setLevel(level)
        logger.propagate = False
        logger.addHandler(handler)
    try:
        yield
    finally:
        for name in loggers:
            logging.getLogger(name).removeHandler(handler)
