"""A pytest plugin that checks plans, and configurations of other frameworks, as tests.

    pytest --automesh-plans 'plans/*.toml'
    pytest --automesh-plans 'configs/**/*.toml' --automesh-from torchtitan --automesh-model llama-3.1-8b --automesh-world-size 64

or in pytest's configuration:

    automesh_plans = ["plans/*.toml"]

Each file is a test, which fails with am-plan's errors. Requires pytest 7 or newer; in older versions the options have no
effect.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any, FrozenSet, Iterable, List, Optional

import pytest

from . import _commands


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("automesh", "plans of parallel training")
    group.addoption("--automesh-plans", action="append", default=[], metavar="GLOB", help="check these files with am-plan")
    group.addoption("--automesh-from", metavar="FRAMEWORK", help="the framework whose configurations the files are")
    group.addoption("--automesh-model", metavar="CONFIG", help="with --automesh-from: the model")
    group.addoption("--automesh-world-size", type=int, metavar="N", help="the number of ranks")
    parser.addini("automesh_plans", "globs of files that am-plan checks", type="linelist", default=[])


def _globs(config: pytest.Config) -> List[str]:
    return [*config.getini("automesh_plans"), *config.getoption("--automesh-plans")]


@functools.lru_cache(maxsize=None)
def _files(root: Path, glob: str) -> FrozenSet[Path]:
    base = Path(glob).anchor
    return frozenset(Path(base).glob(glob[len(base) :]) if base else root.glob(glob))


if hasattr(pytest, "version_tuple"):  # pytest 7 and newer, whose hooks have file_path

    def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> Optional[PlanFile]:
        root = parent.config.rootpath
        if any(file_path in _files(root, glob) for glob in _globs(parent.config)):
            collected: PlanFile = PlanFile.from_parent(parent, path=file_path)
            return collected
        return None


class PlanFile(pytest.File):
    """A file that am-plan checks."""

    def collect(self) -> Iterable[PlanItem]:
        yield PlanItem.from_parent(self, name="automesh")


class PlanFailure(Exception):
    """am-plan found errors in a file."""


class PlanItem(pytest.Item):
    """The check of a file."""

    def runtest(self) -> None:
        option = self.config.getoption
        result = _commands.check(self.path, framework=option("--automesh-from"), model=option("--automesh-model"),
                                 world_size=option("--automesh-world-size"))
        if not result.ok:
            raise PlanFailure("\n".join(str(one) for one in result.diagnostics))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        if isinstance(excinfo.value, PlanFailure):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, 0, f"automesh: {self.path.name}"
