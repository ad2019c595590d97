"""Lets am-repl attach to a PyTorch job between two steps.

    import automesh.live
    watch = automesh.live.watch(model, optimizer)   # on every rank, before the loop
    for batch in batches:
        ...
        optimizer.step()
        watch.step(loss=loss)

`am-repl RUN` then opens the job; RUN is the run folder that rank 0 prints. Parameters, persistent
buffers, gradients and optimizer states can be plain tensors or DTensors (FSDP2, tensor
parallelism), under DistributedDataParallel or not. While no client is attached, step() costs less
than a microsecond and sends nothing. Nothing is pickled and no port is opened.
"""
import atexit
import ctypes
import faulthandler
import json
import os
import shutil
import signal
import subprocess
import sys
import time

import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor, Replicate
from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

from automesh import _library

__all__ = ["Watch", "watch"]

_NAN = float("nan")
_Dims = ctypes.POINTER(ctypes.c_int64)
_Collectives = ctypes.CFUNCTYPE(ctypes.c_void_p)
_Log = ctypes.CFUNCTYPE(None, ctypes.c_char_p)
_Waiting = ctypes.CFUNCTYPE(ctypes.c_int)
_StackOf = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int64)

# The signal on which faulthandler writes the stack of the training thread.
_STACK_SIGNAL = signal.SIGRTMIN + 12
_stack_owner = None  # the Watch whose pipe receives the stack


class _Tensor(ctypes.Structure):
    """The C struct am_live_tensor (am_live.h)."""

    _fields_ = [
        ("name", ctypes.c_char_p),
        ("data", ctypes.c_void_p),
        ("dtype", ctypes.c_char_p),
        ("dims", ctypes.c_int32),
        ("device", ctypes.c_int32),
        ("shape", _Dims),
        ("strides", _Dims),
        ("global_shape", _Dims),
        ("offset", _Dims),
        ("placements", ctypes.c_char_p),
    ]


class _Numbers(ctypes.Structure):
    """The C struct am_live_numbers (am_live.h)."""

    _fields_ = [
        ("loss", ctypes.c_double),
        ("grad_norm", ctypes.c_double),
        ("learning_rate", ctypes.c_double),
        ("step_seconds", ctypes.c_double),
        ("tokens_per_second", ctypes.c_double),
    ]


class _Options(ctypes.Structure):
    """The C struct am_live_options (am_live.h)."""

    _fields_ = [
        ("size", ctypes.c_size_t),
        ("run", ctypes.c_char_p),
        ("rank", ctypes.c_int64),
        ("world_size", ctypes.c_int64),
        ("group", ctypes.c_char_p),
        ("mesh", ctypes.c_char_p),
        ("model", ctypes.c_char_p),
        ("first_step", ctypes.c_int64),
        ("max_steps", ctypes.c_int64),
        ("device", ctypes.c_int32),
        ("stack_signal", ctypes.c_int32),
        ("stack_read_fd", ctypes.c_int32),
        ("collectives", _Collectives),
        ("log", _Log),
        ("config", ctypes.c_char_p),
        ("model_folder", ctypes.c_char_p),
        ("waiting", _Waiting),
        ("stack_of", _StackOf),
    ]


def _declare(library, name, result, *arguments):
    function = getattr(library, name)
    function.restype = result
    function.argtypes = arguments
    return function


def _as_list(value):
    if value is None:
        return []
    if isinstance(value, torch.nn.Module):
        return list(value) if isinstance(value, torch.nn.ModuleList) else [value]
    for name in ("optimizers", "model_parts"):  # attributes of torchtitan's containers
        if hasattr(value, name):
            return list(getattr(value, name))
    return list(value) if isinstance(value, (list, tuple)) else [value]


# Parts of names that module wrappers add. torch.distributed.checkpoint removes the same parts.
_WRAPPERS = ("_orig_mod.", "_checkpoint_wrapped_module.", "_fsdp_wrapped_module.")


def _plain_name(name):
    for wrapper in _WRAPPERS:
        name = name.replace(wrapper, "")
    return name


def _unwrapped(part):
    return part.module if isinstance(part, torch.nn.parallel.DistributedDataParallel) else part


def _named_tensors(parts):
    """Yields the name and the tensor of each parameter and persistent buffer."""
    for part in map(_unwrapped, parts):
        for name, parameter in part.named_parameters():
            yield _plain_name(name), parameter
        for prefix, module in part.named_modules():
            for name, buffer in module._buffers.items():
                if buffer is not None and name not in module._non_persistent_buffers_set:
                    yield _plain_name(f"{prefix}.{name}" if prefix else name), buffer


_AXES = {
    "pp": "pp",
    "dp_replicate": "dp_replicate",
    "replicate": "dp_replicate",
    "ddp": "dp_replicate",
    "dp_shard": "dp_shard",
    "fsdp": "dp_shard",
    "dp": "dp_shard",
    "cp": "cp",
    "tp": "tp",
}


def _axes_of(mesh):
    """Returns automesh's name of the axis for each dim of a DeviceMesh."""
    names = mesh.mesh_dim_names or ()
    if not names:
        names = ("dp_shard",) if mesh.ndim == 1 else [f"dim{i}" for i in range(mesh.ndim)]
    return [_AXES.get(name, name) for name in names]


def _mesh_of(tensors, world_size):
    """Returns the sizes of the mesh for am_live_options; None if the tensors do not show them."""
    sizes = {}
    for tensor in tensors:
        if isinstance(tensor, DTensor):
            for axis, size in zip(_axes_of(tensor.device_mesh), tensor.device_mesh.shape):
                sizes.setdefault(axis, size)
    product = 1
    for size in sizes.values():
        product *= size
    known = all(axis in ("pp", "dp_replicate", "dp_shard", "cp", "tp") for axis in sizes)
    if not sizes or not known or world_size % product:
        return None
    if product < world_size:
        sizes["dp_replicate"] = sizes.get("dp_replicate", 1) * (world_size // product)
    return " ".join(f"{axis}={size}" for axis, size in sizes.items())


def _placements_text(tensor):
    words = []
    for axis, placement in zip(_axes_of(tensor.device_mesh), tensor.placements):
        words.append(f"{axis}:S{placement.dim}" if placement.is_shard() else f"{axis}:R")
    return " ".join(words)


class _Description:
    """This rank's tensors as an array of am_live_tensor, with the memory that the array points to."""

    def __init__(self, named):
        named = list(named)
        self.array = (_Tensor * len(named))()
        self.count = 0
        self.device = -1
        self._alive = []
        partial = []
        for name, tensor, like in named:
            if isinstance(tensor, DTensor) and any(p.is_partial() for p in tensor.placements):
                partial.append((name, tensor))
            else:
                self._add(name, tensor, like)
        # redistribute() is collective, so every rank must reach these calls. For this reason, _add()
        # does not raise for a tensor that cannot be described, but skips the tensor.
        for name, tensor in partial:
            whole = [p if p.is_shard() else Replicate() for p in tensor.placements]
            self._add(name, tensor.detach().redistribute(placements=whole), None)

    def _add(self, name, tensor, like):
        """Adds a tensor. Skips a tensor that cannot be described."""
        try:
            self._fill(self.array[self.count], name, tensor, like)
        except (AttributeError, RuntimeError, TypeError, ValueError):
            return
        self.count += 1

    def _fill(self, entry, name, tensor, like):
        entry.name = name.encode()
        tensor = tensor.detach()
        part = tensor.to_local() if isinstance(tensor, DTensor) else tensor
        if like is not None and isinstance(like, DTensor) and not isinstance(tensor, DTensor):
            # `tensor` is a state of the parameter `like`. A plain tensor with the shape of this
            # rank's shard of the parameter is sharded like the parameter.
            if part.dim() > 0 and part.shape == like.to_local().shape:
                tensor = like
        if isinstance(tensor, DTensor):
            _, offset = compute_local_shape_and_global_offset(
                tensor.shape, tensor.device_mesh, tensor.placements)
            entry.global_shape = self._dims(tensor.shape)
            entry.offset = self._dims(offset)
            entry.placements = _placements_text(tensor).encode()
        part = part.detach()
        self._alive.append(part)
        entry.data = part.data_ptr()
        entry.dtype = str(part.dtype)[len("torch."):].encode()
        entry.dims = part.dim()
        entry.device = part.device.index if part.device.type == "cuda" else -1
        self.device = max(self.device, entry.device)
        entry.shape = self._dims(part.shape)
        entry.strides = self._dims(part.stride())

    def _dims(self, values):
        array = (ctypes.c_int64 * len(values))(*values)
        self._alive.append(array)
        return ctypes.cast(array, _Dims)


# Bytes per element of dtypes, by their names in the flight recorder. All other dtypes have 4 bytes.
_BYTES = {"Bool": 1, "Byte": 1, "Char": 1, "Float8_e4m3fn": 1, "Float8_e5m2": 1, "Float8_e4m3fnuz": 1, "Float8_e5m2fnuz": 1,
          "Float8_e8m0fnu": 1, "Half": 2, "BFloat16": 2, "Short": 2, "UInt16": 2, "Double": 8, "Long": 8, "UInt64": 8,
          "ComplexFloat": 8, "ComplexDouble": 16}


def _recent_collectives(newest=32):
    """Returns at most `newest` collectives of PyTorch's flight recorder, the latest first.

    am_live.h describes the format, at am_live_options.collectives.
    """
    c10d = torch._C._distributed_c10d
    entries = json.loads(c10d._dump_fr_trace_json(True, False)).get("entries", [])
    if not entries and dist.is_nccl_available():
        entries = json.loads(c10d._dump_nccl_trace_json(True, False)).get("entries", [])
    world = dist.distributed_c10d._world
    ranks_of = {world.pg_names[group]: sorted(ranks)
                for group, ranks in world.pg_group_ranks.items() if group in world.pg_names}
    now = time.time()
    listed = []
    for entry in reversed(entries[-newest:]):
        name, description = entry["process_group"]
        point_to_point = entry["is_p2p"]
        elements = 0
        for shape, dtype in zip(entry["input_sizes"], entry["input_dtypes"]):
            count = _BYTES.get(dtype, 4)
            for size in shape:
                count *= size
            elements += count
        group = "world" if description == "default_pg" else description.removeprefix("mesh_")
        listed.append({
            "op": entry["profiling_name"].rpartition(":")[2],
            "group": name if group == "undefined" else group,
            "communicator": f"{name} (messages)" if point_to_point else name,
            "ranks": ranks_of.get(name, []),
            "sequence": entry["p2p_seq_id"] if point_to_point else entry["collective_seq_id"],
            "bytes": elements,
            "seconds_ago": max(0.0, now - entry["time_created_ns"] * 1e-9),
            "waiting": not entry["retired"] and entry["state"] != "completed",
        })
    return listed


def _stack_of(process):
    """Returns the stack of another Python process, read by py-spy from outside; None without py-spy."""
    beside = os.path.join(os.path.dirname(sys.executable), "py-spy")
    program = beside if os.path.exists(beside) else shutil.which("py-spy")
    if program is None:
        return None
    command = [program, "dump", "--json", "--nonblocking", "--pid", str(process)]
    dumped = subprocess.run(command, capture_output=True, timeout=5, check=False)
    threads = json.loads(dumped.stdout or b"[]")
    main = [thread for thread in threads if thread["os_thread_id"] == process]
    return "\n".join(f"{frame['name']}  ({frame['filename']}:{frame['line']})"
                     for thread in main for frame in thread["frames"])


def _config_of(parts):
    """Returns the text of config.json and the folder of a transformers model.

    Returns (None, None) for other models, for models in several parts, and for models with adapters.
    The folder is None if it does not exist.
    """
    config = getattr(parts[0], "config", None) if len(parts) == 1 else None
    if not hasattr(config, "to_json_string") or hasattr(parts[0], "peft_config"):
        return None, None
    folder = str(getattr(config, "_name_or_path", ""))
    try:
        text = config.to_json_string(use_diff=False).encode()
    except Exception:  # a config of another kind, or with values that JSON does not have
        return None, None
    return text, folder.encode() if os.path.isdir(folder) else None


class Watch:
    """Connects this rank to the am-repl clients of its job; see watch()."""

    __slots__ = ("_parts", "_optimizers", "_steps", "_numbers", "_visit_function", "_close_function", "_error",
                 "_step_function", "_device", "_texts", "_callbacks", "_raised", "_log", "_stack_pipe", "_handle")

    def __init__(self, model, optimizer, run, name, mesh, first_step, max_steps, log):
        self._parts = _as_list(model)
        self._optimizers = _as_list(optimizer)
        self._steps = first_step
        self._numbers = None, None, _NAN
        waiting, fast = _library.load()
        open_ = _declare(waiting, "am_live_open", ctypes.c_void_p, ctypes.POINTER(_Options),
                         ctypes.POINTER(_Tensor), ctypes.c_size_t)
        self._visit_function = _declare(waiting, "am_live_visit", ctypes.c_int, ctypes.c_void_p,
                                        ctypes.POINTER(_Tensor), ctypes.c_size_t,
                                        ctypes.POINTER(_Numbers))
        self._close_function = _declare(waiting, "am_live_close", None, ctypes.c_void_p,
                                        ctypes.c_char_p)
        self._error = _declare(fast, "am_live_error", ctypes.c_char_p)
        self._step_function = _declare(fast, "am_live_step", ctypes.c_int, ctypes.c_void_p,
                                       ctypes.c_int64)
        joined = dist.is_available() and dist.is_initialized()
        world_size = dist.get_world_size() if joined else 1
        description = _Description(self._tensors())
        self._device = description.device
        if self._device < 0 and torch.cuda.is_available() and torch.cuda.is_initialized():
            self._device = torch.cuda.current_device()  # the parameters are offloaded to the host
        if mesh is None:
            mesh = _mesh_of((p for part in self._parts for p in part.parameters()), world_size)
        self._texts = {}  # results of the callbacks, which must stay alive
        self._raised = None  # exception of a signal handler, raised by the next return from step()
        waits = self._wait()
        next(waits)
        self._callbacks = (_Collectives(self._collectives_text), _Log(self._log_line),
                           _Waiting(waits.__next__), _StackOf(self._stack_text))
        self._log = log
        self._stack_pipe = os.pipe()
        os.set_blocking(self._stack_pipe[1], False)
        global _stack_owner
        if _stack_owner is None:
            faulthandler.register(_STACK_SIGNAL, file=self._stack_pipe[1], all_threads=False)
            _stack_owner = self
        config, folder = _config_of([_unwrapped(part) for part in self._parts])
        options = _Options(
            size=ctypes.sizeof(_Options),
            run=os.fspath(run).encode(),
            rank=dist.get_rank() if joined else 0,
            world_size=world_size,
            group=dist.group.WORLD.group_name.encode() if joined else None,
            mesh=mesh.encode() if mesh else None,
            model=name.encode(),
            first_step=first_step,
            max_steps=max_steps,
            device=self._device,
            stack_signal=_STACK_SIGNAL if _stack_owner is self else 0,
            stack_read_fd=self._stack_pipe[0],
            collectives=self._callbacks[0] if joined else _Collectives(),
            log=self._callbacks[1],
            config=config,
            model_folder=folder,
            waiting=self._callbacks[2],
            stack_of=self._callbacks[3],
        )
        self._handle = open_(ctypes.byref(options), description.array, description.count)
        if not self._handle:
            self._release_stack()
            raise RuntimeError(f"automesh.live: {self._error().decode()}")
        atexit.register(self.close)

    def step(self, loss=None, grad_norm=None, tokens_per_second=_NAN):
        """Reports the end of a training step, and runs the commands of attached clients.

        Must be called on every rank, once after each step. Clients see the gradients only if step()
        is called before the gradients are reset. Each argument may be a tensor, whose value is read
        only if a client needs it.
        """
        self._numbers = loss, grad_norm, tokens_per_second
        self._steps += 1
        if self._step_function(self._handle, self._steps):
            self._visit()

    def close(self, last_words="the program has ended"):
        """Sends `last_words` to the clients and disconnects them. Called automatically at exit."""
        handle, self._handle = self._handle, None
        if handle:
            self._close_function(handle, last_words.encode())
            self._step_function = lambda *_: 0
            self._release_stack()
            atexit.unregister(self.close)

    def _tensors(self):
        names = {}
        for name, tensor in _named_tensors(self._parts):
            names[tensor] = name
            yield name, tensor, None
        for tensor, name in names.items():
            if tensor.grad is not None:
                yield f"grad.{name}", tensor.grad, None
        for optimizer in self._optimizers:
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    for kind, value in optimizer.state.get(parameter, {}).items():
                        if isinstance(value, torch.Tensor) and parameter in names:
                            yield f"optim.state.{names[parameter]}.{kind}", value, parameter

    def _visit(self):
        numbers = _Numbers(_NAN, _NAN, _NAN, _NAN, _NAN)  # the library measures the time of a step
        description = None
        with torch.no_grad():
            try:
                if self._device >= 0:
                    torch.cuda.synchronize()
                loss, grad_norm, tokens_per_second = self._numbers
                numbers.loss = _number(loss)
                numbers.grad_norm = _number(grad_norm)
                numbers.tokens_per_second = _number(tokens_per_second)
                if self._optimizers:
                    numbers.learning_rate = _number(self._optimizers[0].param_groups[0]["lr"])
                description = _Description(self._tensors())
            except Exception as error:  # the other ranks wait for this one: visit in any case
                self._log_line(f"automesh.live: the tensors cannot be described: {error}".encode())
                description = description or _Description([])
            failed = self._visit_function(self._handle, description.array, description.count,
                                          ctypes.byref(numbers))
        if failed:  # inspection must not end the training
            self._log_line(b"automesh.live: " + self._error())
        raised, self._raised = self._raised, None
        if raised:
            raise raised

    def _wait(self):
        """Yields 0 while the rank may wait for commands, and 1 after a signal handler has raised.

        Python runs signal handlers when the generator is resumed. The generator is then inside its
        try statement, which catches the exceptions of the handlers.
        """
        result = 0
        while True:
            try:
                while True:
                    try:
                        yield result
                        result = 0
                    except GeneratorExit:  # the generator is freed
                        raise
                    except BaseException as error:
                        self._raised = error
                        result = 1
            except GeneratorExit:
                raise
            except BaseException as error:  # a second handler, which ran while the first one raised
                self._raised = error
                result = 1

    def _collectives_text(self):
        return self._text("collectives", lambda: json.dumps(_recent_collectives()))

    def _stack_text(self, process):
        return self._text("stack", lambda: _stack_of(process))

    def _text(self, kind, make):
        """Returns the address of the text that make() returns; None if make() returns no text or fails."""
        try:
            text = make()
        except Exception as error:  # a callback must not raise
            self._log_line(f"automesh.live: {kind}: {error}".encode())
            return None
        if not text:
            return None
        self._texts[kind] = ctypes.create_string_buffer(text.encode())
        return ctypes.addressof(self._texts[kind])

    def _log_line(self, line):
        if self._log:
            print(line.decode(errors="replace"), file=sys.stderr, flush=True)

    def _release_stack(self):
        global _stack_owner
        if _stack_owner is self:  # another Watch may own the signal
            faulthandler.unregister(_STACK_SIGNAL)
            _stack_owner = None
        for fd in self._stack_pipe:
            os.close(fd)


def _number(value):
    """Returns the value as a float; NaN for a sharded tensor or a value that is not a number.

    Runs no collective.
    """
    try:
        if isinstance(value, DTensor):
            value = value.to_local() if all(p.is_replicate() for p in value.placements) else None
        return _NAN if value is None else float(value)
    except (RuntimeError, TypeError, ValueError):
        return _NAN


def watch(model, optimizer=None, *, run=None, name=None, mesh=None, first_step=0, max_steps=0, log=True):
    """Lets am-repl attach to the job. Must be called on every rank, after the model has been built.

    model: a module, or a list of modules (the parts of a pipeline stage), on this rank.
    optimizer: an optimizer, a list of them, or None.
    run: the run folder, in which am-repl finds the job; the default is the folder of
      `am-run --exec`, otherwise runs/live-PID, with rank 0's process id.
    name: a name of the model for titles; the default is the class of the model.
    mesh: sizes of the axes, for example "dp_shard=2 tp=2", if the DTensors do not show them.
    first_step: number of steps that were finished before this start of the program.
    max_steps: number of finished steps at which training ends; 0: unknown.
    log: whether rank 0 prints lines about clients to stderr.

    Raises RuntimeError if the tensors of the ranks do not fit together, or if another job uses the
    run folder.
    """
    if run is None:
        run = os.environ.get("AM_RUN_DIR") or f"runs/live-{os.getpid()}"
    first = _as_list(model)[0]
    if isinstance(first, torch.nn.parallel.DistributedDataParallel):
        first = first.module
    return Watch(model, optimizer, run, name or type(first).__name__.removeprefix("FSDP"), mesh,
                 first_step, max_steps, log)
