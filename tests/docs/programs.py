"""Writes the C++ of the documents, and the examples of public headers, as source files for CMake.

programs.py SOURCE OUT prints `NAME is_program` for each file. A block with a main() is a program. Any other is the body
of a function, below the #include lines that it begins with.
"""

import sys
from pathlib import Path

from blocks import blocks, documents

# The examples in the comments that public headers begin with: what their names stand for.
LAYOUT = ("const config::Plan& plan, const model::ModelConfig& config, const planner::Layout& layout, "
          "const runtime::DeviceMesh& mesh")
HEADERS = {
    "mesh/layout.h": "",
    "model/spec.h": "const ModelConfig& config",
    "parallel/parallel_model.h": LAYOUT + ", const at::Tensor& ids, const at::Tensor& labels, "
                                          "parallel::MicroBatches& batches, double labels_in_global_batch",
    "train/trainer.h": "const planner::Job& job, const runtime::World& world, "
                       "const run_folder::RunFolder& run, const launch::StopSignal& stop",
    "stored/tensor_source.h": "",
    "inspect/session.h": "std::unique_ptr<stored::TensorSource> source, const term::Style& style",
    "inspect/command.h": "Session& session",
}
ALSO = {
    "stored/tensor_source.h": ["span", "vector"],
    "parallel/parallel_model.h": ["am/checkpoint/weights.h"],
    "inspect/session.h": ["am/inspect/command.h", "am/inspect/stored_holdings.h"],
    "inspect/command.h": ["iostream"],
}

PARTS = ("runtime", "parallel", "planner", "checkpoint", "stored", "config", "mesh", "model", "train", "launch")


def snippet(block):
    lines = block.text.splitlines()
    includes = [line for line in lines if line.startswith("#include")]
    body = [line for line in lines if not line.startswith("#include")]
    namespaces = "".join(f"namespace {part} {{}}\n" for part in PARTS)
    given = block.notes.get("given", "")
    return "\n".join([
        *includes, f"namespace am {{\n{namespaces}}}", "using namespace am;", f"void example({given}) {{",
        f'#line {block.line + 1 + len(includes)} "{block.document}"', *body, "}", ""])


def header_example(source, header):
    """The lines of code in the comment before #pragma once, in the header's own namespace."""
    path = source / "lib" / "am" / header
    code = []
    for line in path.read_text().split("#pragma once")[0].splitlines():
        if line.startswith("//   "):
            code.append(line.removeprefix("//   ").replace("{ .. }", "{}"))
    assert code, f"{header} has no example: take it from the table"
    includes = [f"#include <{name}>" for name in [f"am/{header}", *ALSO.get(header, [])]]
    return "\n".join([*includes, f"namespace am::{Path(header).parts[0]} {{", f"void example({HEADERS[header]});",
                      f"void example({HEADERS[header]}) {{", f'#line 1 "{path}: example"', *code, "}", "}", ""])


def write(path, text):
    if not path.exists() or path.read_text() != text:  # unchanged: nothing to compile
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
    for header in HEADERS:
        name = "header_" + Path(header).stem
        write(out / f"{name}.cpp", header_example(source, header))
        print(name, 0)


if __name__ == "__main__":
    main()
