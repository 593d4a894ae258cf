"""The pages `/` and `/docs`, with nothing that must come from elsewhere."""

from collections.abc import Iterator, Mapping
from typing import Any

from markupsafe import Markup, escape

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem;
  color: #1b1b1b; background: #fff; }
h2 { margin: 2rem 0 .25rem; font-size: 1.05rem; }
code { font-family: ui-monospace, monospace; }
.method { display: inline-block; min-width: 3.5rem; color: #fff; background: #24557a;
  border-radius: .2rem; padding: 0 .4rem; text-align: center; }
table { border-collapse: collapse; margin: .5rem 0; }
td, th { padding: .1rem .8rem .1rem 0; text-align: left; vertical-align: top; }
"""
PLACES = {
    "docs": "all routes",
    "review": "what waits for a label",
    "watch": "drift, risk and accuracy of the guards",
}


def description_page(schema: Mapping[str, Any]) -> str:
    """The page of a description, the `schema` of `/openapi.json`."""
    info = schema["info"]
    routes = [
        _route(path, method, one)
        for path, methods in schema["paths"].items()
        for method, one in methods.items()
    ]
    content = Markup(
        '<p>{summary}</p><p>The same for programs: <a href="openapi.json">openapi.json</a>.</p>'
        "{routes}"
    ).format(summary=info.get("summary", ""), routes=Markup("").join(routes))
    return _page(info["title"], info["version"], content)


def start_page(version: str, *, has_log: bool) -> str:
    """The page where people begin: links to the others.

    version: of nescio.
    has_log: whether there is a log, without which nothing is reviewed or watched.
    """
    links = Markup("").join(
        Markup('<li><a href="{0}">/{0}</a>: {1}</li>').format(path, about)
        for path, about in PLACES.items()
        if has_log or path == "docs"
    )
    content = Markup("<p>A service of guards: answer, or abstain.</p><ul>{}</ul>").format(links)
    return _page("nescio", version, content)


def _page(title: str, version: str, content: Markup) -> str:
    """A page with a title."""
    return str(
        Markup(
            '<!doctype html><html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            "<title>{title}</title><style>{style}</style></head><body><main>"
            "<h1>{title} {version}</h1>{content}</main></body></html>"
        ).format(title=title, version=version, style=Markup(STYLE), content=content)
    )


def _route(path: str, method: str, one: Mapping[str, Any]) -> Markup:
    """One route: what it does, what it reads, and its answers."""
    kinds = one.get("requestBody", {}).get("content", {})
    reads = Markup("<p>Reads {}.</p>").format(_listed(kinds)) if kinds else Markup("")
    rows = Markup("").join(
        Markup("<tr><th scope='row'>{}</th><td>{}</td><td>{}</td></tr>").format(
            code, answer.get("description", ""), _listed(answer.get("content", {}))
        )
        for code, answer in one.get("responses", {}).items()
    )
    return Markup(
        "<section><h2><span class='method'>{method}</span> <code>{path}</code></h2>"
        "<p>{about}</p>{reads}<table>{rows}</table></section>"
    ).format(
        method=method.upper(),
        path=path,
        about=one.get("description", ""),
        reads=reads,
        rows=rows,
    )


def _listed(kinds: Mapping[str, Any]) -> Markup:
    return Markup(", ").join(_codes(kinds))


def _codes(kinds: Mapping[str, Any]) -> Iterator[Markup]:
    yield from (Markup("<code>{}</code>").format(escape(kind)) for kind in kinds)
