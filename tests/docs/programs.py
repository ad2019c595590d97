"""Writes the C++ of the documents as source files for CMake. header_examples.py does so for headers.

programs.py SOURCE OUT prints `NAME is_program` for each file. A block with a main() is a
program. Any other is the body of a function, below the #include lines that it begins with.
"""

import sys
from pathlib import Path

from blocks import blocks, documents

PARTS = ("runtime", "parallel", "layout", "rules", "predict", "job", "frameworks", "checkpoint", "stored", "config", "mesh", "model", "train", "launch")


def snippet(block):
    lines = block.text.splitlines()
    includes = [line for line in lines if line.startswith("#include")]
    body = [line for line in lines if not line.startswith("#include")]
    namespaces = "".join(f"namespace {part} {{}}\n" for part in PARTS)
    given = block.notes.get("given", "")
    return "\n".join([
        *includes, f"namespace am {{\n{namespaces}}}", "using namespace am;", f"void example({given}) {{",
        f'#line {block.line + 1 + len(includes)} "{block.document}"', *body, "}", ""])


def write(path, text):
    if not path.exists() or path.read_text() != text:  # unchanged files are not compiled again
        path.write_text(text)


def main():
    source, out = Path(sys.argv[1]), Path(sys.argv[2])
    out.mkdir(parents=True, exist_ok=True)
    for document in documents(source):
        for block in blocks(document):
            if block.language != "cpp" or "not run" in block.notes:
                continue
            program = block.notes.get("program")
            name = program or f"{document.stem.replace('-', '_')}_{block.line}"
            text = f'#line {block.line + 1} "{block.document}"\n{block.text}' if program else snippet(block)
            write(out / f"{name}.cpp", text)
            print(name, 1 if program else 0)


if __name__ == "__main__":
    main()
