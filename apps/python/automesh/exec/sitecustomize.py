"""Python runs this file at the start of a program of `am-run --exec`.

On the launcher's signal, which comes when another rank has failed, the interpreter writes the stacks
of its threads to the rank's log. The program's own sitecustomize, if there is one, runs too.
"""
import faulthandler
import importlib.machinery
import importlib.util
import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))

if "AM_STACK_SIGNAL" in os.environ:
    try:
        faulthandler.register(int(os.environ["AM_STACK_SIGNAL"]), all_threads=True)
    except (OSError, RuntimeError, ValueError):
        pass  # the program runs nevertheless; only its stack is missing from the log

_spec = importlib.machinery.PathFinder.find_spec(
    "sitecustomize", [folder for folder in sys.path if os.path.abspath(folder or ".") != _HERE])
if _spec is not None and _spec.loader is not None:
    _spec.loader.exec_module(importlib.util.module_from_spec(_spec))
