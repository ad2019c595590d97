"""Recorded sessions: commands and their complete answers, compared line by line.

After an intended change, this command records all sessions again. Read `git diff` before
committing:

    AM_RECORD=1 ctest --test-dir build -R session_test
"""

import difflib
import os
import re

RECORD = bool(os.environ.get("AM_RECORD"))

# Text that differs between runs.
TIMES = re.compile(r"\bin \d+(\.\d+)? [mu]?s\b")


def replay(path, prompt, answer):
    """Returns the session at `path` with the current answers: `answer(command)` for each line that
    begins with `prompt`."""
    lines = []
    for line in path.read_text().splitlines():
        if line.startswith(prompt):
            command = line.removeprefix(prompt)
            lines += [line, *TIMES.sub("in TIME", answer(command)).splitlines()]
        elif line.startswith("#") and (not lines or lines[-1].startswith("#")):
            lines.append(line)  # comments at the top of the session
    return "\n".join(lines) + "\n"


def hold(case, path, prompt, answer):
    """Compares the session with the current answers, or records them."""
    recorded = path.read_text()
    now = replay(path, prompt, answer)
    if RECORD:
        path.write_text(now)
    elif now != recorded:
        parts = difflib.unified_diff(recorded.splitlines(), now.splitlines(), "recorded", "now", lineterm="")
        case.fail(f"{path.name}:\n" + "\n".join(parts))
