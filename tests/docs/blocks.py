"""Reads the fenced blocks of README.md and lib/docs/*.md, for the tests that run and compile them.

Every block names its language. A comment in the line before it adds properties:

    <!-- file: plan.toml -->        the block is this file, in the folder in which the document's commands run
    <!-- file: bad.toml, wrong -->  the same, for a plan that does not pass
    <!-- program: train -->         C++ with a main(); commands call it as ./train
    <!-- given: const X& x -->      C++ without main(): the body of a function with these parameters
    <!-- not run: the reason -->    the block cannot run here
"""

import re
from dataclasses import dataclass, field
from pathlib import Path

LANGUAGES = {"console", "sh", "toml", "cpp", "cmake", "json", "python", "text"}
FENCE = re.compile(r"^```(\w*)$")
NOTE = re.compile(r"^<!-- (file|program|given|not run): ?(.*?) ?-->$")


@dataclass
class Block:
    document: Path
    line: int  # of the fence, from 1
    language: str
    text: str = ""
    notes: dict = field(default_factory=dict)

    @property
    def place(self):
        return f"{self.document.name}:{self.line}"


def documents(source):
    return [Path(source) / "README.md", *sorted((Path(source) / "lib" / "docs").glob("*.md"))]


def blocks(document):
    found, open_block, before = [], None, ""
    for number, line in enumerate(document.read_text().splitlines(), 1):
        fence = FENCE.match(line)
        if open_block is not None:
            if line == "```":
                found.append(open_block)
                open_block = None
            else:
                open_block.text += line + "\n"
        elif fence:
            note = NOTE.match(before)
            open_block = Block(document, number, fence[1], notes={note[1]: note[2]} if note else {})
        before = line
    assert open_block is None, f"{document}: a block that does not end"
    return found
