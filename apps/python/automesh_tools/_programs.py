"""Finds am-plan, am-run and am-repl."""

import os
import shutil
import site
import sys
import sysconfig
from pathlib import Path


def find_program(name: str) -> str:
    """Returns the path of am-plan, am-run or am-repl: from the folder in AUTOMESH_BIN, beside the interpreter,
    among the user's scripts, or on PATH. Raises FileNotFoundError."""
    scripts = sysconfig.get_path("scripts")
    for folder in (os.environ.get("AUTOMESH_BIN"), scripts, os.path.dirname(sys.executable),
                   os.path.join(site.getuserbase(), "bin")):
        if folder and os.access(Path(folder) / name, os.X_OK):
            return str(Path(folder) / name)
    found = shutil.which(name)
    if found is None:
        raise FileNotFoundError(f"{name} is neither in {scripts} nor on PATH: install automesh-tools again, or set "
                                "AUTOMESH_BIN to its folder")
    return found
