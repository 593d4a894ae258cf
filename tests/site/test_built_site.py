"""The site as it is built: complete, without a warning, and it works from the disk in Chromium."""

import inspect
import json
import re
from html.parser import HTMLParser
from urllib.parse import unquote, urlsplit

import click
import pytest

from nescio.cli.main import COMMANDS, main


class Read(HTMLParser):
    """The links, anchors and pictures of a page."""

    def __init__(self, path):
        super().__init__()
        self.links, self.anchors, self.pictures = [], set(), []
        self.feed(path.read_text())

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.anchors |= {found[key] for key in ("id", "name") if found.get(key)}
        self.links += [found[key] for key in ("href", "src") if found.get(key)]
        self.pictures += [found] if tag == "img" else []


@pytest.fixture(scope="module")
def pages(site):
    return {path: Read(path) for path in site.folder.rglob("*.html") if "live" not in path.parts}


def test_it_builds_without_a_warning(site):
    assert site.said == []
    assert site.code == 0


def test_every_link_and_anchor_leads_somewhere(site, pages):
    broken = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc or path.name == "404.html":
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            anchor = unquote(parts.fragment)
            known = pages[target].anchors if target in pages else {anchor}
            if not target.is_file() or (anchor and anchor not in known):
                broken.append(f"{path.relative_to(site.folder)}: {link}")
    assert broken == []


def test_nothing_is_loaded_from_elsewhere(site):
    loads = re.compile(
        r"<(?:script|img|iframe|source|video)[^>]* src=\"?(?:https?:)?//|<link[^>]*//"
    )
    assert [p.name for p in site.folder.rglob("*.html") if loads.search(p.read_text())] == []


def test_every_picture_says_what_it_shows(pages):
    bare = [p.name for p, page in pages.items() for one in page.pictures if one.get("alt") is None]
    assert bare == []


def test_every_public_name_and_option_is_in_the_api(site):
    import api

    missing = []
    for namespace, names in api.surface().items():
        text = (site.folder / api.FOLDER / f"{namespace}.html").read_text()
        for name in names:
            path, thing = f"{namespace}.{name}", api.value(namespace, name)
            if inspect.ismodule(thing):
                continue
            missing += [path] if f'id="{path}"' not in text else []
            if api.homes()[path] == path and inspect.isfunction(thing):
                entry = text.split(f'id="{path}"', 1)[-1].split("<h3", 1)[0]
                shown = set(re.findall(r"<code>(\w+)</code>", entry))
                missing += [
                    f"{path}({o})" for o in inspect.signature(thing).parameters if o not in shown
                ]
    assert missing == []


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_its_page_with_every_option(site, name):
    text = (site.folder / "reference" / "commands" / f"{name}.html").read_text()
    command = main.get_command(click.Context(main), name)
    group = isinstance(command, click.Group)
    for one in command.commands.values() if group else [command]:
        for option in (option for part in one.params for option in part.opts):
            assert not option.startswith("--") or option in text


@pytest.mark.parametrize("word", ["OOD", "abstain", "coverage"])
def test_search_knows_the_words(site, word):
    index = json.loads((site.folder / "search" / "search_index.json").read_text())
    assert sum(word in f"{one['title']} {one['text']}" for one in index["docs"]) > 5


def test_programs_find_every_page(site):
    text = (site.folder / "llms.txt").read_text()
    assert text.startswith("# nescio\n\n> ")
    links = re.findall(r"^- \[[^\]]+\]\(([^)]+)\)", text, re.MULTILINE)
    assert len(links) > 100
    assert [link for link in links if not (site.folder / link).is_file()] == []
    assert "def " not in text
    guard = (site.folder / "reference" / "api" / "nescio.md").read_text()
    assert ":::" not in guard
    assert "guard(source: Any" in guard


def test_what_sets_up_a_page_is_not_shown(site):
    shown = [p for p in site.folder.rglob("*") if p.suffix in (".html", ".md", ".txt")]
    assert [p.name for p in shown if re.search("^<!-- setup", p.read_text(), re.MULTILINE)] == []


def test_the_gallery_has_every_picture_with_its_code(site):
    import pictures

    text = (site.folder / "gallery.html").read_text()
    for name in pictures.names():
        assert f"images/{name}.png" in text
        assert f"{name}.py" in text


@pytest.fixture
def opened(browser, site):
    """Opens a page from the disk; fails on a message, an error, or a request elsewhere."""
    contexts, said = [], []

    def open_(path, *, width=1280, scheme="light"):
        size = {"width": width, "height": 900}
        options = {"viewport": size, "color_scheme": scheme, "reduced_motion": "reduce"}
        contexts.append(browser.new_context(**options))
        page = contexts[-1].new_page()
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: said.append(request.url))
        page.goto((site.folder / path).as_uri())
        return page

    yield open_
    for context in contexts:
        context.close()
    assert [one for one in said if not one.startswith(("file:", "data:", "blob:"))] == []


SAMPLES = ["index.html", "methods/calibration.html", "reference/api/nescio.guards.html"]
SAMPLES += ["tutorials/images.html", "gallery.html", "reference/commands/audit.html"]


@pytest.mark.parametrize("path", SAMPLES)
def test_pages_fit_narrow_and_wide_light_and_dark(opened, path):
    colors = set()
    for width, scheme in ((390, "light"), (1280, "dark")):
        page = opened(path, width=width, scheme=scheme)
        assert page.evaluate("document.documentElement.scrollWidth") == width
        colors.add(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert len(colors) == 2


def test_search_works_without_a_server(opened):
    page = opened("index.html")
    page.locator(".md-search__input").click()
    page.keyboard.type("temperature scaling")
    page.wait_for_selector(".md-search-result__item")
    links = page.locator(".md-search-result__item a").evaluate_all("all => all.map(a => a.href)")
    assert any("calibrat" in link for link in links)
    page.goto(links[0].split("?")[0])
    assert page.locator("h1").count() == 1


@pytest.mark.parametrize(
    ("path", "scheme"),
    [
        ("index.html", "light"),
        ("index.html", "dark"),
        ("methods/calibration.html", "light"),
        ("methods/calibration.html", "dark"),
        ("tutorials/images.html", "dark"),
        ("reference/api/nescio.monitoring.shift.html", "dark"),
        ("reference/commands/score.html", "light"),
    ],
)
def test_pages_have_no_serious_barrier(opened, path, scheme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    found = axe.run(opened(path, scheme=scheme), options={"preload": False})
    serious = [
        (one["id"], [node["target"] for node in one["nodes"][:3]])
        for one in found.response["violations"]
        if one["impact"] in ("serious", "critical")
    ]
    assert serious == []
