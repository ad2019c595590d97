"""Checks that every undefined symbol of the CUDA plugin is defined in a library that the plugin is linked to.

    plugin_links.py PLUGIN FOLDER...      the folders, besides the system's, in which libraries are searched

libtorch_cuda.so, and not the plugin, needs the libraries that this machine lacks (cuBLAS, NCCL, ...). The test fails if
the plugin itself is linked to one of them. The test needs binutils, but no GPU.
"""

import pathlib
import re
import subprocess
import sys


def needed(library):
    text = subprocess.run(["readelf", "-d", library], check=True, capture_output=True, text=True).stdout
    return re.findall(r"\(NEEDED\).*\[(.+)\]", text)


def symbols(library, which):
    text = subprocess.run(["nm", "-D", which, library], check=True, capture_output=True, text=True).stdout
    for line in text.splitlines():
        kind, name = line.split()[-2:]
        yield kind, name.split("@")[0]


def find(name, folders):
    for folder in folders:
        if (folder / name).exists():
            return folder / name
    # Asks the compiler for the path of a library of the system.
    path = subprocess.run(["c++", f"-print-file-name={name}"], check=True, capture_output=True, text=True).stdout.strip()
    return pathlib.Path(path) if "/" in path else None


def main():
    plugin, folders = pathlib.Path(sys.argv[1]), [pathlib.Path(folder) for folder in sys.argv[2:]]
    defined, missing_libraries = set(), []
    for name in needed(plugin):
        library = find(name, folders)
        if library is None:
            missing_libraries.append(name)
        else:
            defined.update(symbol for _, symbol in symbols(library, "--defined-only"))
    wanted = {symbol for kind, symbol in symbols(plugin, "--undefined-only") if kind == "U"}
    nowhere = sorted(wanted - defined)
    print(f"{plugin.name}: {len(wanted)} undefined symbols, {len(nowhere)} of them defined nowhere")
    for name in missing_libraries:
        print(f"error: linked to {name}, which is not here")
    for symbol in nowhere:
        print(f"error: {symbol}")
    exports = {symbol for _, symbol in symbols(plugin, "--defined-only")}
    if "am_cuda_plugin" not in exports:
        print("error: am_cuda_plugin is not exported")
        return 1
    return 1 if nowhere or missing_libraries else 0


if __name__ == "__main__":
    sys.exit(main())
