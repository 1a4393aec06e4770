"""Pages as tests read them."""

import json
from html.parser import HTMLParser
from typing import Any

EMPTY = {"meta", "link", "img", "input"}


class Page(HTMLParser):
    """A page's tags and texts, those of scripts and styles apart; tags must close in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict]] = []
        self.texts: list[str] = []
        self.scripts: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        (self.scripts if self.open and self.open[-1] == "script" else self.texts).append(data)

    def count(self, tag: str) -> int:
        """How many elements of a kind there are."""
        return sum(name == tag for name, _ in self.tags)

    def data(self, name: str) -> Any:
        """What a script of data holds."""
        scripts = [attributes for tag, attributes in self.tags if tag == "script"]
        (place,) = [place for place, attributes in enumerate(scripts) if attributes.get("id") == name]
        return json.loads(self.scripts[place])
