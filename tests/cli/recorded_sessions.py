"""Recorded sessions: commands and the whole of what they answer, compared line by line.

After a wanted change one command records all of them anew; read what `git diff` shows before it is committed:

    AM_RECORD=1 ctest --test-dir build -R session_test
"""

import difflib
import os
import re

RECORD = bool(os.environ.get("AM_RECORD"))

# What differs from one run to the next.
TIMES = re.compile(r"\bin \d+(\.\d+)? [mu]?s\b")


def replay(path, prompt, answer):
    """The session at `path` with today's answers: `answer(command)` for each line that begins with `prompt`."""
    lines = []
    for line in path.read_text().splitlines():
        if line.startswith(prompt):
            command = line.removeprefix(prompt)
            lines += [line, *TIMES.sub("in TIME", answer(command)).splitlines()]
        elif line.startswith("#") and (not lines or lines[-1].startswith("#")):
            lines.append(line)  # the head of the session
    return "\n".join(lines) + "\n"


def hold(case, path, prompt, answer):
    """Compares the session with today's answers, or records them."""
    recorded = path.read_text()
    now = replay(path, prompt, answer)
    if RECORD:
        path.write_text(now)
    elif now != recorded:
        parts = difflib.unified_diff(recorded.splitlines(), now.splitlines(), "recorded", "now", lineterm="")
        case.fail(f"{path.name}:\n" + "\n".join(parts))
