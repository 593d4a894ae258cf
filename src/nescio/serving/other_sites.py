"""Requests that a page of another site sends from a browser on this machine.

A service without keys answers everybody on this machine, and so a browser that runs there. The
browser says in Origin whose page asks, and in Host which name it asked for: a site can let its own
name mean 127.0.0.1, but not change what the browser says.
"""

from collections.abc import Mapping
from functools import lru_cache
from urllib.parse import urlsplit

from nescio.serving.batching import RefusedError
from nescio.serving.service_settings import is_loopback


def refuse_other_sites(headers: Mapping[str, str]) -> None:
    """Refuse what a page of another site sends from a browser on this machine.

    headers: of the request, with names in lower case.
    """
    host, origin = headers.get("host", ""), headers.get("origin")
    if own_host(host) and origin in (None, f"http://{host}", f"https://{host}"):
        return
    raise RefusedError(
        "without keys, only programs and pages of this machine may do this; serve with --keys",
        status=403,
        reason="site",
    )


@lru_cache(maxsize=256)
def own_host(host: str) -> bool:
    """Whether the header `host` names this machine; a page of another name may be sent here, too.

    host: localhost, 127.0.0.1 or [::1], with any port.
    """
    try:
        return is_loopback(urlsplit(f"//{host}").hostname or "")
    except ValueError:
        return False
