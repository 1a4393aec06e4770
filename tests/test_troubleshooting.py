"""The messages that the documentation explains are those that the program has."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HEADINGS = re.findall(r"^### \d+\. (.*)$", (ROOT / "docs" / "troubleshooting.md").read_text("utf-8"), re.M)


def messages() -> str:
    """All texts of the program, with … for what is filled in."""
    texts = []
    for path in sorted((ROOT / "purgegate").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.JoinedStr):
                parts = [part.value if isinstance(part, ast.Constant) else "…" for part in node.values]
                texts.append("".join(parts))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts.append(node.value)
    return "\n".join(texts)


def test_ten_messages_are_explained():
    assert len(HEADINGS) == 10


def test_every_message_that_is_explained_is_one_of_the_program():
    known = messages()
    quoted = [part for heading in HEADINGS for part in re.findall(r"`([^`]+)`", heading)]
    assert [part for part in quoted if part not in known] == []
    assert all(re.search(r"`[^`]+`", heading) for heading in HEADINGS)
