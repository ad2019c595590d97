"""Commands of am-plan as functions. Each runs am-plan with --json and converts its output to dataclasses."""

import collections.abc
import dataclasses
import json
import os
import subprocess
import types
import typing
from typing import Any, Mapping, Optional, Sequence, Tuple, TypeVar, Union

from ._programs import find_program

Path = Union[str, "os.PathLike[str]"]
T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class Diagnostic:
    """A finding about a plan or another file. `line` and `column` count from 1; None: the whole file."""

    rule: str
    severity: str  # "error", "warning" or "note"
    file: str
    line: Optional[int]
    column: Optional[int]
    message: str
    help: str

    def __str__(self) -> str:
        place = ":".join(str(part) for part in (self.file, self.line, self.column) if part)
        text = f"{place}: {self.severity}: {self.message} [{self.rule}]"
        return f"{text}\n    {self.help}" if self.help else text


class PlanError(Exception):
    """am-plan refused a request. `diagnostics` has its findings."""

    def __init__(self, diagnostics: Sequence[Diagnostic]) -> None:
        self.diagnostics = tuple(diagnostics)
        super().__init__("\n".join(map(str, self.diagnostics)))


@dataclasses.dataclass(frozen=True)
class CheckResult:
    """The verdict on one file. `runs`: whether am-run can run the plan; None for files of other frameworks."""

    file: str
    ok: bool
    diagnostics: Tuple[Diagnostic, ...]
    runs: Optional[bool] = None
    unsupported: Tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self.ok


@dataclasses.dataclass(frozen=True)
class Gpu:
    """The GPU of a prediction. `assumed`: whether it was assumed because the plan names no GPU."""

    name: str
    memory_bytes: int
    assumed: bool


@dataclasses.dataclass(frozen=True)
class StageMemory:
    """Memory of the rank with the largest peak among those of one pipeline stage."""

    stage: int
    rank: int
    peak_bytes: int
    moment: str
    components: Mapping[str, int]
    host_bytes: int


@dataclasses.dataclass(frozen=True)
class Memory:
    """Predicted memory of the rank with the largest peak, or of the rank that was asked for. `fit`: "fits",
    "may fit" or "does not fit"."""

    peak_bytes: int
    rank: int
    moment: str
    components: Mapping[str, int]
    host_bytes: int
    implementation: str
    reserved_bytes: int
    process_bytes: int
    stages: Tuple[StageMemory, ...] = ()
    gpu: Optional[Gpu] = None
    fit: Optional[str] = None


@dataclasses.dataclass(frozen=True)
class NearestRun:
    """A published run of a similar job, with its measured step time and the step time that am-plan predicts for it."""

    id: str
    source: str
    model: str
    gpu: str
    ranks: int
    step_seconds: float
    predicted_seconds: float


@dataclasses.dataclass(frozen=True)
class Cost:
    """Predicted time of a step. `interval_seconds`: contains the measured time in nine of ten cases. `seconds`: the
    parts of step_seconds."""

    step_seconds: float
    tokens_per_second_per_gpu: float
    mfu: float
    bubble_fraction: float
    gpu: str
    implementation: str
    precision: str
    basis: str
    seconds: Mapping[str, float]
    communication: Mapping[str, int]
    interval_seconds: Optional[Tuple[float, float]] = None
    nearest_runs: Tuple[NearestRun, ...] = ()


@dataclasses.dataclass(frozen=True)
class Layout:
    """A layout that a search found. `plan` has all keys of a plan file, by section."""

    plan: Mapping[str, Any]
    peak_bytes: int
    step_seconds: float
    mfu: float
    precision: str
    tokens_per_second_per_gpu: float
    bubble_fraction: float
    pareto: bool
    runs: bool
    why: str = ""
    goodput: Optional[float] = None


@dataclasses.dataclass(frozen=True)
class Shard:
    """The part of a parameter that a rank holds."""

    name: str
    shape: Tuple[int, ...]
    placements: Mapping[str, str]
    local_shape: Tuple[int, ...]
    local_offset: Tuple[int, ...]
    stage: int
    rank: int
    stored_elements: int


@dataclasses.dataclass(frozen=True)
class Setting:
    """A setting of another framework's file that the plan does not have."""

    key: str
    value: Any
    why: str


@dataclasses.dataclass(frozen=True)
class Import:
    """A plan made from another framework's file."""

    plan: Mapping[str, Any]
    ignored: Tuple[Setting, ...]
    lost: Tuple[Setting, ...]
    notes: Tuple[str, ...]


def _convert(kind: Any, value: Any) -> Any:
    """Converts a value of JSON to the type `kind`."""
    origin = typing.get_origin(kind)
    parts = typing.get_args(kind)
    if origin is Union or origin is getattr(types, "UnionType", Union):
        return None if value is None else _convert(parts[0], value)
    if origin is tuple:
        each = parts[0] if parts[-1] is Ellipsis else None
        return tuple(_convert(each if each is not None else parts[i], one) for i, one in enumerate(value))
    if origin is collections.abc.Mapping:
        return types.MappingProxyType(dict(value))
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return _made(kind, value)
    return value


def _made(kind: "type[T]", answer: Mapping[str, Any]) -> T:
    """Makes a dataclass from an answer. Ignores members that the dataclass lacks, which newer programs may add."""
    hints = typing.get_type_hints(kind)
    return kind(**{name: _convert(hint, answer[name]) for name, hint in hints.items() if name in answer})


def _ask(command: str, *arguments: str, may_fail: bool = False) -> Any:
    """Runs `am-plan command arguments --json` and returns its answer. Raises PlanError if the command fails with
    diagnostics, unless `may_fail`, and RuntimeError if it prints no JSON."""
    program = find_program("am-plan")
    ended = subprocess.run([program, command, *arguments, "--json"], stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, text=True, check=False)
    try:
        answer = json.loads(ended.stdout)
    except ValueError:
        raise RuntimeError(f"{program} {command} ended with status {ended.returncode}: {ended.stderr}") from None
    if ended.returncode != 0 and not may_fail:
        raise PlanError([_made(Diagnostic, one) for one in answer.get("diagnostics", [])])
    return answer


def _options(**values: Any) -> "list[str]":
    """Returns the options whose values are neither None nor False: `seq_len=4096` becomes --seq-len 4096."""
    words = []
    for name, value in values.items():
        if value is None or value is False:
            continue
        words.append("--" + name.replace("_", "-"))
        if value is not True:
            several = isinstance(value, (list, tuple))
            words.append(",".join(map(str, value)) if several else os.fspath(value) if isinstance(value, os.PathLike)
                         else str(value))
    return words


def _sets(overrides: Optional[Mapping[str, Any]]) -> "list[str]":
    words = []
    for key, value in (overrides or {}).items():
        words += ["--set", f"{key}={value if isinstance(value, str) else json.dumps(value)}"]
    return words


def check(file: Path, *, framework: Optional[str] = None, model: Optional[Path] = None,
          world_size: Optional[int] = None, dialect: Optional[str] = None, plan_only: bool = False,
          overrides: Optional[Mapping[str, Any]] = None) -> CheckResult:
    """Checks a plan file. `overrides` replace its keys: {"mesh.tp_size": 4}.

    With `framework`, the file is a configuration of torchtitan, megatron, nemo-automodel, accelerate or deepspeed;
    `model` is the model's config.json, its folder, or a name such as "llama-3.1-8b". A plan that cannot be read is a
    finding too. Raises PlanError for arguments that am-plan refuses, and for a model that cannot be read.
    """
    answer = _ask("check", os.fspath(file), *_sets(overrides),
                  *_options(model=model, world_size=world_size, dialect=dialect, plan_only=plan_only),
                  *(["--from", framework] if framework else []), may_fail=True)
    if "plans" not in answer:
        raise PlanError([_made(Diagnostic, one) for one in answer["diagnostics"]])
    return _made(CheckResult, answer["plans"][0])


def memory(plan: Path, *, rank: Optional[int] = None, world_size: Optional[int] = None,
           overrides: Optional[Mapping[str, Any]] = None) -> Memory:
    """Predicts the memory of a rank; by default, of the one with the largest peak."""
    return _made(Memory, _ask("memory", os.fspath(plan), *_sets(overrides), *_options(rank=rank, world_size=world_size)))


def cost(plan: Path, *, world_size: Optional[int] = None, overrides: Optional[Mapping[str, Any]] = None) -> Cost:
    """Predicts the time of a step."""
    return _made(Cost, _ask("cost", os.fspath(plan), *_sets(overrides), *_options(world_size=world_size)))


def search(model: Optional[Path] = None, *, plan: Optional[Path] = None, gpus: Optional[int] = None,
           gpu: Optional[str] = None, seq_len: Optional[int] = None, global_batch_size: Optional[int] = None,
           tp: Sequence[int] = (), pp: Sequence[int] = (), cp: Sequence[int] = (), ep: Sequence[int] = (),
           precision: Sequence[str] = (), strategy: Optional[str] = None, implementation: Optional[str] = None,
           headroom: Optional[float] = None, top: Optional[int] = None, runnable: bool = False,
           write: Optional[Path] = None) -> Tuple[Layout, ...]:
    """Searches for the fastest layouts of a model, or of a plan, on `gpus` GPUs; the fastest is first. Empty if no
    layout fits. `write`: a file to which the first layout is written as a plan."""
    words = [os.fspath(plan)] if plan is not None else []
    words += _options(model=model, gpus=gpus, gpu=gpu, seq_len=seq_len, global_batch_size=global_batch_size,
                      tp=tp or None, pp=pp or None, cp=cp or None, ep=ep or None, precision=precision or None,
                      strategy=strategy, implementation=implementation, headroom=headroom, top=top,
                      runnable=runnable, write=write)
    answer = _ask("search", *words, may_fail=True)
    if "layouts" not in answer:
        raise PlanError([_made(Diagnostic, one) for one in answer["diagnostics"]])
    return tuple(_made(Layout, one) for one in answer["layouts"])


def shards(plan: Path, *, param: Optional[str] = None, rank: Optional[int] = None, world_size: Optional[int] = None,
           overrides: Optional[Mapping[str, Any]] = None) -> Tuple[Shard, ...]:
    """Returns a rank's parts of the parameters that match the glob `param`; by default, of all parameters on rank 0."""
    answer = _ask("shards", os.fspath(plan), *_sets(overrides),
                  *_options(param=param, rank=rank, world_size=world_size))
    return tuple(_made(Shard, one) for one in answer["parameters"])


def import_plan(file: Path, framework: str, *, model: Optional[Path] = None, force: bool = False,
                output: Optional[Path] = None) -> Import:
    """Makes a plan from another framework's file, and writes it to `output` if that is given. With `force`, drops
    settings that change the job but that a plan cannot express, and overwrites an existing file."""
    return _made(Import, _ask("import", os.fspath(file), "--from", framework,
                              *_options(model=model, force=force, output=output)))
