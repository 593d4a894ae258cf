"""A client of the service, which needs nothing but the standard library and numpy.

Each thread has its own connection, which stays open. What the service cannot take now (503) is
sent again after the seconds it names.
"""

import http.client
import io
import json
import ssl
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import numpy as np

from nescio.core import NescioError

IMAGES = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".webp": "image/webp",
    ".gif": "image/gif",
    ".bmp": "image/bmp",
}
STARTS = {  # of files
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF8": "image/gif",
    b"BM": "image/bmp",
    b"\x93NUMPY": "application/x-npy",
}
PAUSE = 0.2  # seconds before a request is sent again, where the service names none
LONGEST = 30.0  # seconds of a pause that the service may ask for


class ServiceError(NescioError):
    """What the service refused.

    status: of HTTP. message: what it said.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"the service answered {status}: {message}")
        self.status = status


class Client:
    """Asks a service for decisions; for all threads of a process.

    url: of the service, http://HOST:PORT.
    key: to be let in; None: none is needed.
    guard: the guard that decides; None: the only one.
    timeout: seconds that an answer may take.
    retries: how often a request that the service cannot take now is sent again.
    verify: whether the certificate of https is checked; or the file of those that are trusted.
    """

    def __init__(
        self,
        url: str,
        key: str | None = None,
        *,
        guard: str | None = None,
        timeout: float = 30.0,
        retries: int = 5,
        verify: bool | str | Path = True,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise NescioError(f"the URL of a service is http://HOST:PORT, got {url!r}")
        self.url, self.guard, self.timeout, self.retries = url, guard, timeout, retries
        self._parts, self._verify = parts, verify
        self._headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        self._own = threading.local()
        self._every: list[http.client.HTTPConnection] = []
        self._lock = threading.Lock()

    def predict(self, x: Any) -> list[dict[str, Any]]:
        """A decision for each input, in their order.

        x: an array or tensor `(N, ...)`, nested lists, a list of rows of a table (mappings), a
          DataFrame, a mapping of arrays, an image of Pillow, or the path or the bytes of an image
          file or of an .npy file.
        """
        kind, body = encoded(x)
        found: list[dict[str, Any]] = self._asked("POST", self._predict_path, body, kind)[
            "decisions"
        ]
        return found

    def columns(self, x: Any) -> dict[str, list[Any]]:
        """The same as columns by name.

        x: inputs, as for `predict`.
        """
        rows = self.predict(x)
        return {name: [row[name] for row in rows] for name in (rows[0] if rows else ())}

    def about(self) -> dict[str, Any]:
        """What the guard guarantees, and what it assumes."""
        path = "/v1/guard" if self.guard is None else f"/v1/guards/{quote(self.guard, safe='')}"
        found: dict[str, Any] = self._asked("GET", path)
        return found

    def load(self, guard: str, path: str | None = None, *, force: bool = False) -> str:
        """Load a new version of a guard, as an admin; gives the version.

        guard: its name.
        path: the file, in the folder of guards of the service; None: that of its start.
        force: also where inputs or classes differ.
        """
        wanted = {"path": path, "force": force}
        where = f"/v1/guards/{quote(guard, safe='')}/load"
        body = json.dumps(wanted).encode()
        return str(self._asked("POST", where, body, "application/json")["version"])

    def rollback(self, guard: str) -> str:
        """Put the version before the current one in use again, as an admin; gives the version.

        guard: its name.
        """
        where = f"/v1/guards/{quote(guard, safe='')}/rollback"
        return str(self._asked("POST", where, b"", "application/json")["version"])

    @property
    def ready(self) -> bool:
        """Whether the service accepts requests."""
        try:
            status, _, _ = self._sent("GET", "/ready", b"", {})
        except NescioError:
            return False
        return status == 200

    def close(self) -> None:
        """Close the connections of all threads."""
        with self._lock:
            for one in self._every:
                one.close()

    def __enter__(self) -> "Client":
        """The client; its connections are closed at the end of the block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the connections."""
        self.close()

    @property
    def _predict_path(self) -> str:
        if self.guard is None:
            return "/v1/predict"
        return f"/v1/guards/{quote(self.guard, safe='')}/predict"

    def _asked(self, method: str, path: str, body: bytes = b"", kind: str = "") -> Any:
        """The JSON of an answer; a 503 is asked again."""
        headers = {"Content-Type": kind} if kind else {}
        for left in range(self.retries, -1, -1):
            status, said, text = self._sent(method, path, body, headers)
            if status == 503 and left:
                time.sleep(_pause(said.get("Retry-After")))
                continue
            break
        try:
            found = json.loads(text)
        except ValueError:
            raise ServiceError(status, "no JSON came; is this the URL of a service?") from None
        if status != 200:
            raise ServiceError(status, found.get("error", "") if isinstance(found, dict) else "")
        return found

    def _sent(
        self, method: str, path: str, body: bytes, headers: Mapping[str, str]
    ) -> tuple[int, Any, bytes]:
        """Status, headers and body of an answer; a connection that was closed is made again once.

        A decision has no effect but its rows in the log, so sending it again is allowed.
        """
        for again in (True, False):
            connection = self._connection()
            try:
                everything = {**self._headers, **headers}
                connection.request(method, self._parts.path.rstrip("/") + path, body, everything)
                answer = connection.getresponse()
                return answer.status, answer.headers, answer.read()
            except TimeoutError:
                connection.close()
                raise NescioError(
                    f"{self.url} gave no answer in {self.timeout:g} s; is it overloaded?"
                ) from None
            except ssl.SSLError as error:
                connection.close()
                raise NescioError(f"{self.url}: {error}; see verify=") from error
            except (http.client.HTTPException, OSError) as error:
                connection.close()
                if not again:
                    raise NescioError(
                        f"cannot reach {self.url}: {error}; is it running?"
                    ) from error
        raise AssertionError("never reached")

    def _connection(self) -> http.client.HTTPConnection:
        """The connection of this thread."""
        found: http.client.HTTPConnection | None = getattr(self._own, "connection", None)
        if found is None:
            host, port = str(self._parts.hostname), self._parts.port
            if self._parts.scheme == "http":
                found = http.client.HTTPConnection(host, port, timeout=self.timeout)
            else:
                trusted = trust(self._verify)
                found = http.client.HTTPSConnection(
                    host, port, timeout=self.timeout, context=trusted
                )
            self._own.connection = found
            with self._lock:
                self._every.append(found)
        return found


def trust(verify: bool | str | Path) -> ssl.SSLContext:
    """Which certificates are trusted.

    verify: those of this machine, none is checked, or those of a file.
    """
    if verify is False:
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return context
    return ssl.create_default_context(cafile=None if verify is True else str(verify))


def encoded(x: Any) -> tuple[str, bytes]:
    """The type and the bytes of inputs: `x` as for `Client.predict`."""
    if isinstance(x, (str, Path)):
        return _file(Path(x))
    if isinstance(x, (bytes, bytearray, memoryview)):
        return _content(bytes(x))
    if hasattr(x, "getbands") and hasattr(x, "save"):  # an image of Pillow
        return "image/png", _png(x)
    if isinstance(x, Mapping):
        return "application/json", _json({name: _listed(one) for name, one in x.items()})
    if hasattr(x, "to_dict") and hasattr(x, "columns"):  # a DataFrame
        rows = [{str(n): _plain(v) for n, v in row.items()} for row in x.to_dict("records")]
        return "application/json", _json(rows)
    if isinstance(x, (list, tuple)) and len(x) and isinstance(x[0], Mapping):
        return "application/json", _json(
            [{str(name): _plain(value) for name, value in row.items()} for row in x]
        )
    array = _array(x)
    if array.dtype.kind not in "biuf":
        raise NescioError(f"inputs are numbers, or rows of a table as mappings; got {array.dtype}")
    buffer = io.BytesIO()
    np.save(buffer, np.ascontiguousarray(array), allow_pickle=False)
    return "application/x-npy", buffer.getvalue()


def _file(path: Path) -> tuple[str, bytes]:
    kind = "application/x-npy" if path.suffix == ".npy" else IMAGES.get(path.suffix.lower())
    if kind is None:
        raise NescioError(f"{path}: expected an image ({', '.join(IMAGES)}) or an .npy file")
    try:
        return kind, path.read_bytes()
    except OSError as error:
        raise NescioError(f"cannot read {path}: {error.strerror}") from error


def _content(content: bytes) -> tuple[str, bytes]:
    """The type of the bytes of a file, by those at its start; and the bytes."""
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return "image/webp", content
    for start, kind in STARTS.items():
        if content.startswith(start):
            return kind, content
    raise NescioError("bytes are those of a PNG, JPEG, GIF, BMP, WEBP or .npy file; got others")


def _png(image: Any) -> bytes:
    buffer = io.BytesIO()
    try:
        image.save(buffer, "PNG")
    except (OSError, ValueError) as error:
        raise NescioError(
            f"an image of mode {image.mode} cannot be sent: {error}; convert it to L or RGB"
        ) from error
    return buffer.getvalue()


def _array(x: Any) -> Any:
    if hasattr(x, "detach"):  # a tensor, without importing torch
        x = x.detach().cpu()
    try:
        return np.asarray(x)
    except (ValueError, TypeError) as error:
        raise NescioError(f"inputs are an array, or lists of one length: {error}") from error


def _listed(values: Any) -> Any:
    return [_plain(one) for one in values] if isinstance(values, list) else _array(values).tolist()


def _plain(value: Any) -> Any:
    """A value as JSON has it; what is missing is null."""
    value = value.item() if hasattr(value, "item") else value
    return None if isinstance(value, float) and value != value else value


def _json(value: Any) -> bytes:
    try:
        return json.dumps(value, allow_nan=False).encode()
    except (TypeError, ValueError) as error:
        raise NescioError(f"a value of the inputs cannot be sent: {error}") from error


def _pause(said: str | None) -> float:
    """How long to wait, as the service says."""
    try:
        seconds = PAUSE if said is None else float(said)
    except ValueError:
        seconds = PAUSE
    return min(max(seconds, 0.0), LONGEST)
