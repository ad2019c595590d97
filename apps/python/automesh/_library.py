"""Loads libautomesh.so into a process that has imported torch."""
import ctypes
import os
import pathlib

import torch


def _candidates():
    if os.environ.get("AM_LIBRARY"):
        yield pathlib.Path(os.environ["AM_LIBRARY"])
        return
    here = pathlib.Path(__file__).resolve().parent
    yield here.parents[2] / "build" / "lib" / "libautomesh.so"  # a source tree with its build
    for folder in ("lib", "lib64", "lib/x86_64-linux-gnu"):  # PREFIX/share/automesh/python/automesh
        yield here.parents[3] / folder / "libautomesh.so"


def path():
    """Returns the path of libautomesh.so. Raises ImportError, with the places searched."""
    places = list(_candidates())
    for place in places:
        if place.exists():
            return place
    listed = ", ".join(str(place) for place in places)
    raise ImportError(f"libautomesh.so was not found in {listed}: set AM_LIBRARY to its path")


def load():
    """Returns two handles of the library: the first for functions that may block, the second for others.

    Calls through the second handle do not release the interpreter's lock (GIL), which makes them
    three times as fast. Raises ImportError if the library is not found or cannot be loaded
    beside the torch of this process.
    """
    place = str(path())
    try:
        return ctypes.CDLL(place), ctypes.PyDLL(place)
    except OSError as error:
        raise ImportError(
            f"{place} does not fit torch {torch.__version__}, which this process has loaded: {error}"
        ) from None
