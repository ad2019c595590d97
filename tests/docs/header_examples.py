"""Writes the examples of public headers, the code in the comment before #pragma once, as C++.

    header_examples.py SOURCE OUT FOLDER...

Writes OUT/FOLDER.cpp for each FOLDER of SOURCE/lib/am. The file contains one function per header,
in a namespace within the header's own. The function's body is the example. Omissions are completed:
`{ .. }` becomes an empty body, and `...` in place of a statement becomes an empty statement.

The indented lines of a comment form paragraphs. A paragraph in which a line ends with `;` is C++.
Two kinds of paragraphs are not C++: a list, which begins with `- `, and a table or drawing, which
contains no call `name(`. Any other paragraph is an error, unless NOT_CPP in header_names.py lists
the header.
"""

import re
import sys
from dataclasses import dataclass
from pathlib import Path

from header_names import ALSO, COMMON, DEFINITIONS, GIVEN, NOT_CPP
from programs import write

STATEMENT = re.compile(r";\s*(//|$)")
CALL = re.compile(r"\w\(")
OMITTED = re.compile(r"\{ \.\. \}|\.\.\.(?=\s*(//|$))", re.M)
NOT_COMPILED = {"cuda"}  # a folder without a target for examples
NAMES = "tests/docs/header_names.py"


@dataclass
class Paragraph:
    line: int  # number of the first line, from 1
    lines: list


def paragraphs(text):
    found = []
    inside = False
    for number, line in enumerate(text.split("#pragma once")[0].splitlines(), 1):
        if line.startswith("//   "):
            if not inside:
                found.append(Paragraph(number, []))
            found[-1].lines.append(line.removeprefix("//   "))
        inside = line.startswith("//   ")
    return found


def is_cpp(paragraph, path, listed):
    if listed or paragraph.lines[0].startswith("- "):
        return False
    if any(STATEMENT.search(line) for line in paragraph.lines):
        return True
    if any(CALL.search(line.split("//")[0]) for line in paragraph.lines):
        sys.exit(f"{path}:{paragraph.line}: end the example's statements with `;`; if it is not C++, "
                 f"list the header in NOT_CPP of {NAMES}")
    return False


def parameters(names):
    """Returns `names`, for example `plan, int64_t bytes`, with a declaration in place of each bare name."""
    def declared(match):
        return match[1] + COMMON.get(match[2], f"const at::Tensor& {match[2]}")
    return re.sub(r"(^|, )(\w+)(?=,|$)", declared, names)


def example(path, header, code):
    """Returns a function with the header's example. Its #line directives let compilers point to the header."""
    spaces = re.findall(r"^namespace (\S+) \{$", path.read_text(), re.M)
    space = [name for name in spaces if name != "detail"][-1]
    name = "example_of_" + re.sub(r"\W", "_", header.removesuffix(".h"))
    texts = [f'#line {paragraph.line} "{path}"\n' + OMITTED.sub("{}", "\n".join(paragraph.lines))
             for paragraph in code]
    outside = [texts.pop(0)] if header in DEFINITIONS else []
    return "\n".join([
        f'#line 1 "{NAMES}: {header}"', f"namespace {space}::{name} {{", *outside,
        f"static auto example({parameters(GIVEN.get(header, ''))}) {{", *texts, "}", "}", ""])


def main():
    source, out = Path(sys.argv[1]), Path(sys.argv[2])
    files = {folder: ([], []) for folder in sys.argv[3:]}
    unused = {*ALSO, *DEFINITIONS, *GIVEN, *NOT_CPP}
    for path in sorted((source / "lib" / "am").rglob("*.h")):
        header = path.relative_to(source / "lib" / "am").as_posix()
        folder = header.split("/")[0]
        indented = paragraphs(path.read_text())
        code = [paragraph for paragraph in indented if is_cpp(paragraph, path, header in NOT_CPP)]
        if code or (indented and header in NOT_CPP):
            unused.discard(header)
        if code and folder in NOT_COMPILED:
            sys.exit(f"{path}: tests/CMakeLists.txt has no target for examples of {folder}")
        if code and folder in files:
            includes, functions = files[folder]
            includes += [f"am/{header}", *ALSO.get(header, [])]
            functions.append(example(path, header, code))
    if unused:
        sys.exit(f"{NAMES}: headers without an example: {', '.join(sorted(unused))}")
    out.mkdir(parents=True, exist_ok=True)
    for folder, (includes, functions) in files.items():
        path = out / f"{folder}.cpp"
        lines = [f"#include <{name}>" for name in dict.fromkeys(["chrono", "iostream", *includes])]
        write(path, "\n".join([*lines, "using namespace std::chrono_literals;", "", *functions]))


if __name__ == "__main__":
    main()
