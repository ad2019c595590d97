"""Checks the library search paths of binaries, which must not include the current directory.

    run_paths.py FOLDER...      checks that no ELF file below the folders has an empty or relative entry in RPATH or
                                RUNPATH
    run_paths.py --hostile FOLDER...
                                starts the tools (am-*) of the folders in a directory with hostile copies of their
                                libraries, and checks that the tools load none of the copies
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path


def dynamic_section(file):
    return subprocess.run(["readelf", "-d", file], capture_output=True, text=True, check=True).stdout


def bad_entries(file):
    """Returns the entries that depend on the current directory."""
    lists = re.findall(r"\((?:RUNPATH|RPATH)\).*\[(.*)\]", dynamic_section(file))
    return [entry for text in lists for entry in text.split(":") if not entry.startswith(("/", "$ORIGIN"))]


def elf_files(folders):
    for folder in folders:
        for file in sorted(Path(folder).rglob("*")):
            if not file.is_file() or file.is_symlink() or file.suffix in (".o", ".a", ".gch"):
                continue
            with file.open("rb") as stream:
                if stream.read(4) == b"\x7fELF":
                    yield file


def check_entries(folders):
    files = list(elf_files(folders))
    if not files:
        sys.exit(f"no ELF file below {', '.join(folders)}")
    bad = {file: entries for file in files if (entries := bad_entries(file))}
    for file, entries in bad.items():
        print(f"{file}: RUNPATH has entries that depend on the current directory: {entries}", file=sys.stderr)
    print(f"{len(files)} files, {len(bad)} with such entries")
    return 1 if bad else 0


# Source of the hostile library. Its constructor creates the file was-loaded in the current directory.
HOSTILE = r"""
#include <fcntl.h>
__attribute__((constructor)) static void loaded(void) { open("was-loaded", O_CREAT | O_WRONLY, 0600); }
"""


def check_hostile(folders):
    programs = [program for folder in folders for program in sorted(Path(folder).glob("am-*"))]
    with tempfile.TemporaryDirectory(prefix="am-hostile-") as name:
        folder = Path(name)
        source = folder / "hostile.c"
        source.write_text(HOSTILE)
        subprocess.run(["cc", "-shared", "-fPIC", "-o", folder / "hostile.so", source], check=True)
        needed = {lib for program in programs for lib in re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic_section(program))}
        for library in needed | {"libautomesh.so", "libautomesh_cuda.so", "libtorch_cuda.so"}:
            (folder / library).hardlink_to(folder / "hostile.so")
        for program in programs:
            ended = subprocess.run([program.resolve(), "--help"], cwd=folder, capture_output=True, timeout=60)
            # A program that loads a hostile copy usually fails before the copy's constructor runs,
            # because the copy lacks the real library's symbols. A failed program therefore counts
            # as a program that loaded a copy.
            if ended.returncode != 0 or (folder / "was-loaded").exists():
                print(f"{program}: loads a library from the current directory: {ended.stderr}", file=sys.stderr)
                return 1
    print(f"{len(programs)} programs load nothing from the current directory")
    return 0


if __name__ == "__main__":
    if sys.argv[1] == "--hostile":
        sys.exit(check_hostile(sys.argv[2:]))
    sys.exit(check_entries(sys.argv[1:]))
