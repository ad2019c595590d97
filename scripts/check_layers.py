#!/usr/bin/env python3
"""Checks the include graph: a folder of lib/am may include itself and folders of a lower layer.

    scripts/check_layers.py               checks this repository; prints FILE:LINE for each violation, exit status 1
    scripts/check_layers.py --self-test   runs the check on a small tree with violations

The layers are those of the map in lib/README.md. A folder that is only on the map, or only in the tree, is a violation
too. Each third-party header may be included in one place only, so that it can be replaced and costs compile time once.
"""

import argparse
import pathlib
import re
import sys
import tempfile

MAP = "lib/README.md"
# Matches the first FOLDERS_END columns of a row of the map: the layer and up to four folders. The
# rest of the row describes the folders.
MAP_ROW = re.compile(r"^(\d+)\s+(.*)$")
FOLDERS_END = 51
# Matches the line of the map below which all folders belong to libautomesh_core.
CORE_LINE = re.compile(r"^-+ +-+ libautomesh_core$")
# Folders of two libraries that are separate from libautomesh: libautomesh_cuda.so and
# libautomesh_compat.so. Each of these folders may include all folders of lib/am except the other
# one. No other folder of lib/am and no app may include them.
BESIDE = ("cuda", "compat")


def read_map(root):
    """Returns {folder: layer} from the map in lib/README.md, and the highest layer of
    libautomesh_core."""
    layers, last_core, below = {}, -1, False
    for line in (root / MAP).read_text(encoding="utf-8").splitlines():
        below = below or CORE_LINE.match(line) is not None
        row = MAP_ROW.match(line[:FOLDERS_END].rstrip())
        if not row:
            continue
        for folder in row[2].split():
            layers[folder] = int(row[1])
        if below:
            last_core = max(last_core, int(row[1]))
        if row[1] == "0":
            break
    top = max(layers.values(), default=0) + 1
    layers.update({folder: top for folder in BESIDE})
    return layers, last_core


# Folders of apps/ that must build without libtorch.
TORCH_FREE_APPS = {"am-plan", "am-run", "am-repl", "calibrate", "common", "job", "repl", "starter"}

# Include rules of third-party headers: (prefixes of the headers' names, library's name, regular
# expressions of the paths that may include the headers, advice for all other paths).
SEAMS = [
    (("CLI/",), "CLI11", [r"apps/"], "parse command lines in apps/"),
    (("toml++/",), "toml++", [r"lib/am/(config|model)/"], "read TOML through am/config/"),
    (("nlohmann/",), "nlohmann-json", [r"lib/am/base/json\.(h|cpp)$"], "include am/base/json.h"),
    (("sodium.h",), "libsodium", [r"lib/am/control/token\.cpp$"], "prove through am/control/token.h"),
    (("yaml.h",), "libyaml", [r"lib/am/config/yaml_reader\.cpp$"], "read YAML through am/config/yaml_reader.h"),
    (("cuda", "nccl.h", "ATen/cuda/", "c10/cuda/", "torch/csrc/distributed/c10d/ProcessGroupNCCL"), "CUDA", [r"lib/am/cuda/"],
     "the CPU build links none of it; go through am/runtime/engine.h"),
]
TORCH_HEADERS = ("torch/", "ATen/", "c10/", "c10d/", "caffe2/", "gloo/")

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
SUFFIXES = {".h", ".cpp", ".cu", ".cuh"}


def sources(root):
    for top in ("lib", "apps"):
        for path in sorted((root / top).rglob("*")):
            if path.suffix in SUFFIXES and path.is_file():
                yield path


def judge(place, quote, header, layers, last_core):
    """Yields a message for each violation by one #include. `place` is the path of the file that has
    the #include, relative to the repository; `quote` is `"` or `<`."""
    parts = place.split("/")
    in_lib = parts[:2] == ["lib", "am"]
    folder = parts[2] if in_lib and len(parts) > 3 else None
    app = parts[1] if parts[0] == "apps" and len(parts) > 2 else None
    torch_free = (in_lib and layers.get(folder, 0) <= last_core) or app in TORCH_FREE_APPS

    if header.startswith("am/"):
        target = header.split("/")[1]
        if target not in layers:
            yield f"{header}: the folder am/{target} is not on the map in {MAP}"
        elif folder in layers and target != folder and layers[target] >= layers[folder]:
            yield f"am/{folder} (layer {layers[folder]}) includes {header} (layer {layers[target]}): only lower layers are allowed"
        elif app is not None and target in BESIDE:
            yield f"apps/{app} includes {header}: no tool includes am/{target}"
        elif app in TORCH_FREE_APPS and layers[target] > last_core:
            yield f"apps/{app} includes {header}, which needs libtorch"
    elif quote == '"' and in_lib:
        yield f'"{header}": write the path from lib/, as "am/{folder or "<folder>"}/..."'

    if torch_free and header.startswith(TORCH_HEADERS):
        yield f"includes <{header}>, but {'am/' + folder if folder else 'apps/' + str(app)} must build without libtorch"
    for prefixes, name, allowed, instead in SEAMS:
        if header.startswith(prefixes) and not any(re.match(pattern, place) for pattern in allowed):
            yield f"includes <{header}>: {name} stays behind its seam ({instead})"


def violations(root):
    layers, last_core = read_map(root)
    for folder in sorted(layers):
        if not (root / "lib/am" / folder).is_dir():
            yield MAP, 1, f"the map has the folder {folder}, and there is no lib/am/{folder}"
    for path in sources(root):
        place = path.relative_to(root).as_posix()
        parts = place.split("/")
        if parts[:2] == ["lib", "am"] and len(parts) > 3 and parts[2] not in layers:
            yield place, 1, f"the folder lib/am/{parts[2]} is not on the map in {MAP}"
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            match = INCLUDE.match(line)
            if match:
                for message in judge(place, *match.groups(), layers, last_core):
                    yield place, number, message


def report(root):
    found = list(violations(root))
    for place, line, message in found:
        print(f"{place}:{line}: error[layers]: {message}")
    if found:
        print(f"{len(found)} violation{'s' if len(found) > 1 else ''} of the layers")
        return 1
    print(f"layers: {sum(1 for _ in sources(root))} files, no violation")
    return 0


def self_test():
    rows = [f"{'6  train inspect':<{FOLDERS_END}}what they do", "5  runtime", "-- -- libautomesh_core", "4  predict gone", "3  launch pipeline",
            "2  config mesh model", "1  term", "0  base", "9  beyond the map"]
    tree = {  # file: (text, lines that must be reported)
        MAP: ("\n".join(rows), [1]),  # "gone" is not in the tree
        "lib/am/base/error.h": ("#pragma once\n#include <string>\n", []),
        "lib/am/base/json.h": ("#include <nlohmann/json.hpp>\n", []),
        "lib/am/base/low.cpp": ('#include "am/term/table.h"\n', [1]),
        "lib/am/term/table.h": ('#include "am/base/error.h"\n', []),
        "lib/am/launch/env.h": ("", []),
        "lib/am/pipeline/order.h": ("", []),
        "lib/am/config/plan.cpp": ('#include <toml++/toml.h>\n#include "am/config/plan.h"\n#include "am/mesh/layout.h"\n', [3]),
        "lib/am/mesh/layout.cpp": ("#include <ATen/ATen.h>\n#include <toml++/toml.h>\n", [1, 2]),
        "lib/am/model/families/llama.cpp": ('#include "am/model/family.h"\n#  include <nlohmann/json.hpp>\n', [2]),
        "lib/am/predict/rules/fsdp2.cpp": ('#include "am/pipeline/order.h"\n#include "am/runtime/group.h"\n', [2]),
        "lib/am/runtime/group.cpp": ('#include <torch/torch.h>\n#include "am/launch/env.h"\n#include "group.h"\n', [3]),
        "lib/am/inspect/repl.cpp": ("#include <CLI/CLI.hpp>\n// #include <nlohmann/json.hpp>\n", [1]),
        "lib/am/cuda/engine.cpp": ('#include <nccl.h>\n#include "am/runtime/group.h"\n', []),
        "lib/am/train/loop.cpp": ('#include <cuda_runtime_api.h>\n#include "am/cuda/engine.h"\n', [1, 2]),
        "lib/am/compat/names.cpp": ('#include "am/train/loop.h"\n#include "am/cuda/engine.h"\n', [2]),
        "lib/am/config/yaml_reader.cpp": ("#include <yaml.h>\n", []),
        "lib/am/config/yaml_writer.cpp": ("#include <yaml.h>\n", [1]),
        "lib/am/odd/new.cpp": ("#include <vector>\n", [1]),
        "apps/am-plan/main.cpp": ('#include <CLI/CLI.hpp>\n#include "am/predict/memory/memory.h"\n#include "am/runtime/group.h"\n', [3]),
        "apps/am-run/main.cpp": ('#include "am/launch/supervise/local.h"\n#include "am/train/loop.h"\n#include "job/options.h"\n', [2]),
        "apps/am-run-rank/main.cpp": ('#include <ATen/ATen.h>\n#include "am/train/loop.h"\n#include "am/compat/names.h"\n', [3]),
    }
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name, (text, _) in tree.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text, encoding="utf-8")
        found = list(violations(root))
    wanted = sorted((name, line) for name, (_, lines) in tree.items() for line in lines)
    got = sorted((place, line) for place, line, _ in found)
    if got == wanted:
        print(f"self-test: all {len(wanted)} planted violations were reported, and nothing else")
        return 0
    print(f"self-test: not reported: {sorted(set(wanted) - set(got))}; wrongly reported: {sorted(set(got) - set(wanted))}")
    return 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--self-test", action="store_true", help="run the check on a small tree with violations")
    parser.add_argument("root", nargs="?", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent,
                        help="the repository (default: the one of this script)")
    arguments = parser.parse_args()
    return self_test() if arguments.self_test else report(arguments.root)


if __name__ == "__main__":
    sys.exit(main())
