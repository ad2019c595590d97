"""Reads tensors of checkpoints as numpy arrays, through the C interface lib/am/frameworks/am_checkpoint.h."""

import ctypes
import functools
import math
import os
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Mapping, Optional, Tuple, Type, Union

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Array = npt.NDArray[Any]

_LIBRARY = "libam_checkpoint.so"

# For each dtype that numpy does not have: the numpy dtype that holds its bits.
_BITS = {"bfloat16": "uint16", "float8_e4m3fn": "uint8", "float8_e5m2": "uint8", "float8_e4m3fnuz": "uint8",
         "float8_e5m2fnuz": "uint8", "float8_e8m0fnu": "uint8"}


class CheckpointError(Exception):
    """A checkpoint cannot be opened or read."""


class _Tensor(ctypes.Structure):
    """The C struct am_checkpoint_tensor (am_checkpoint.h)."""

    _fields_ = [("name", ctypes.c_char_p), ("dtype", ctypes.c_char_p), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("dims", ctypes.c_int32), ("element_size", ctypes.c_int32), ("is_state", ctypes.c_int32)]


def _places() -> Iterator[Path]:
    if os.environ.get("AM_CHECKPOINT_LIBRARY"):
        yield Path(os.environ["AM_CHECKPOINT_LIBRARY"])
        return
    here = Path(__file__).resolve().parent
    yield here / _LIBRARY  # a wheel
    parents = list(here.parents)
    if len(parents) > 2:
        yield parents[2] / "build" / "lib" / _LIBRARY  # a source tree with its build
    if len(parents) > 3:
        for folder in ("lib", "lib64", "lib/x86_64-linux-gnu"):  # PREFIX/share/automesh/python/automesh_tools
            yield parents[3] / folder / _LIBRARY


@functools.lru_cache(maxsize=None)
def _library() -> Any:
    """Loads the library. Raises ImportError with the searched paths if the library is missing."""
    places = list(_places())
    path = next((place for place in places if place.exists()), None)
    if path is None:
        raise ImportError(f"{_LIBRARY} was not found in {', '.join(map(str, places))}: set AM_CHECKPOINT_LIBRARY to its path")
    library = ctypes.CDLL(str(path))
    handle, sizes = ctypes.c_void_p, ctypes.POINTER(ctypes.c_int64)
    for name, result, arguments in (
            ("open", handle, [ctypes.c_char_p]), ("close", None, [handle]), ("format", ctypes.c_char_p, [handle]),
            ("step", ctypes.c_int64, [handle]), ("count", ctypes.c_int64, [handle]), ("error", ctypes.c_char_p, []),
            ("describe", ctypes.c_int, [handle, ctypes.c_int64, ctypes.POINTER(_Tensor)]),
            ("read", ctypes.c_int, [handle, ctypes.c_int64, sizes, sizes, ctypes.c_void_p, ctypes.c_size_t])):
        function = getattr(library, "am_checkpoint_" + name)
        function.restype, function.argtypes = result, arguments
    return library


def _failure() -> CheckpointError:
    return CheckpointError(_library().am_checkpoint_error().decode(errors="replace"))


class Tensor:
    """A tensor of a checkpoint, whose values are read when it is indexed or converted to an array.

    `dtype` is the stored dtype by torch's name. Values in bfloat16 and float8, which numpy does not have, become
    float32, which represents them exactly; bits() returns them as they are stored.
    """

    def __init__(self, checkpoint: "Checkpoint", index: int, described: _Tensor) -> None:
        self._checkpoint, self._index = checkpoint, index
        self.name: str = described.name.decode()
        self.dtype: str = described.dtype.decode()
        self.shape: Tuple[int, ...] = tuple(described.shape[: described.dims])
        self.nbytes: int = math.prod(self.shape) * described.element_size
        self.is_state: bool = bool(described.is_state)

    def __repr__(self) -> str:
        return f"Tensor({self.name!r}, {self.dtype}, {list(self.shape)})"

    def __getitem__(self, index: Any) -> "Array":
        """Reads the elements that an index of integers and slices selects.

        Reads from the file the smallest box that contains these elements. A slice with a step therefore also reads the
        skipped elements.
        """
        return _widened(self.bits(index), self.dtype)

    def __array__(self, dtype: "Optional[npt.DTypeLike]" = None, copy: Optional[bool] = None) -> "Array":
        if copy is False:
            raise ValueError("the values are in a file: an array of them is always a copy")
        values = self[...]
        return values if dtype is None else values.astype(dtype)

    def numpy(self) -> "Array":
        """Returns all values."""
        return self[...]

    def bits(self, index: Any = ...) -> "Array":
        """Returns values as they are stored: bfloat16 as uint16, float8 as uint8, all others in their dtype."""
        import numpy as np

        box = _Box(index, self.shape, self.name)
        values = np.empty(box.count, _BITS.get(self.dtype, self.dtype))
        sizes = ctypes.c_int64 * max(1, len(self.shape))
        self._checkpoint._read(self._index, sizes(*box.first), sizes(*box.count), values.ctypes.data, values.nbytes)
        selected: "Array" = np.asarray(values[box.rest])
        return selected.copy() if selected.size < values.size else selected


class _Box:
    """The smallest box that contains the elements that an index selects.

    `first` and `count` are the offset and the shape of the box. `rest` is the index of the elements within the box.
    """

    def __init__(self, index: Any, shape: Tuple[int, ...], name: str) -> None:
        words = list(index) if isinstance(index, tuple) else [index]
        ellipses = [at for at, word in enumerate(words) if word is Ellipsis]
        if len(ellipses) > 1:
            raise IndexError(f"{name}: an index can have only one ellipsis")
        given = len(words) - len(ellipses)
        if given > len(shape):
            raise IndexError(f"{name} has {len(shape)} dims, but the index has {given}")
        at = ellipses[0] if ellipses else len(words)
        words[at : at + 1] = [slice(None)] * (len(shape) - given)
        self.first: List[int] = []
        self.count: List[int] = []
        rest: List[Union[int, slice]] = []
        for word, size in zip(words, shape):
            if isinstance(word, slice):
                chosen = range(size)[word]
                low, high = (min(chosen[0], chosen[-1]), max(chosen[0], chosen[-1])) if chosen else (0, -1)
                self.first.append(low)
                self.count.append(high - low + 1)
                rest.append(slice(None, None, chosen.step))
            else:
                if isinstance(word, bool) or not hasattr(word, "__index__") or getattr(word, "shape", None):
                    raise TypeError(f"{name}: an index must consist of integers and slices, not {word!r}")
                try:
                    self.first.append(range(size)[word])
                except IndexError:
                    raise IndexError(f"{name}: index {word} is out of range for a dim of size {size}") from None
                self.count.append(1)
                rest.append(0)
        self.rest = tuple(rest)


class _Arrays(Mapping[str, "Array"]):
    """Maps the names of tensors to their values, which are read on access; [name, 10:20] reads a part."""

    def __init__(self, tensors: "Dict[str, Tensor]") -> None:
        self._tensors = tensors

    def __getitem__(self, key: Any) -> "Array":
        name, index = (key[0], key[1:]) if isinstance(key, tuple) else (key, ...)
        return self._tensors[name][index]

    def __contains__(self, name: object) -> bool:
        return name in self._tensors

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)


class Checkpoint(_Arrays):
    """An open checkpoint: a mapping from the names of its parameters to their values, which are read on access.

    checkpoint[name, 10:20] reads a part. tensor() returns a tensor's dtype and shape without reading its values.
    `optimizer` is a mapping of the same kind for optimizer states and other tensors of the trainer. Several threads may
    read at the same time.
    """

    def __init__(self, path: "Union[str, os.PathLike[str]]") -> None:
        self.path = os.fspath(path)
        self._handle: Optional[int] = _library().am_checkpoint_open(os.fsencode(self.path))
        if not self._handle:
            raise _failure()
        self.format: str = _library().am_checkpoint_format(self._handle).decode()
        step = _library().am_checkpoint_step(self._handle)
        self.step: Optional[int] = None if step < 0 else step
        super().__init__({})
        self._states: Dict[str, Tensor] = {}
        for index in range(_library().am_checkpoint_count(self._handle)):
            described = _Tensor()
            if _library().am_checkpoint_describe(self._handle, index, ctypes.byref(described)) != 0:
                raise _failure()
            tensor = Tensor(self, index, described)
            (self._states if tensor.is_state else self._tensors)[tensor.name] = tensor

    @property
    def optimizer(self) -> "Mapping[str, Array]":
        return _Arrays(self._states)

    def tensor(self, name: str) -> Tensor:
        """Returns a parameter or state without reading its values. Raises KeyError for an unknown name."""
        found = self._tensors.get(name) or self._states.get(name)
        if found is None:
            raise KeyError(name)
        return found

    def __repr__(self) -> str:
        return f"Checkpoint({self.path!r}, {self.format}, {len(self)} parameters)"

    def __enter__(self) -> "Checkpoint":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            self.close()

    def close(self) -> None:
        """Closes the files. Arrays that were read remain valid."""
        handle, self._handle = self._handle, None
        if handle:
            _library().am_checkpoint_close(handle)

    def _read(self, index: int, first: Any, count: Any, values: int, size: int) -> None:
        if not self._handle:
            raise CheckpointError(f"{self.path} is closed")
        if _library().am_checkpoint_read(self._handle, index, first, count, values, size) != 0:
            raise _failure()


def open_checkpoint(path: "Union[str, os.PathLike[str]]") -> Checkpoint:
    """Opens weights in any of these formats: safetensors (a file, a folder, an index),
    torch.distributed.checkpoint, torch.save files, am-run's checkpoints, and folders of training frameworks. Raises
    CheckpointError."""
    return Checkpoint(path)


def _float8_values(name: str) -> "list[float]":
    """Returns the value of each of the 256 codes of a float8 dtype."""
    if name == "float8_e8m0fnu":
        return [2.0 ** (code - 127) for code in range(255)] + [math.nan]
    exponent_bits = 4 if "e4m3" in name else 5
    mantissa_bits = 7 - exponent_bits
    unsigned_zero = name.endswith("uz")
    bias = 2 ** (exponent_bits - 1) - (0 if unsigned_zero else 1)
    values = []
    for code in range(256):
        sign = -1.0 if code >= 128 else 1.0
        exponent, mantissa = (code & 127) >> mantissa_bits, code & (2**mantissa_bits - 1)
        fraction = mantissa / 2**mantissa_bits
        value = (1.0 + fraction) * 2.0 ** (exponent - bias) if exponent else fraction * 2.0 ** (1 - bias)
        if unsigned_zero:
            value = math.nan if code == 128 else value
        elif name == "float8_e4m3fn":
            value = math.nan if code & 127 == 127 else value
        elif exponent == 31:
            value = math.nan if mantissa else math.inf
        values.append(sign * value)
    return values


def _widened(bits: "Array", dtype: str) -> "Array":
    """Converts stored bits to values in a dtype of numpy: float32 for bfloat16 and float8."""
    import numpy as np

    if dtype not in _BITS:
        return bits
    if dtype == "bfloat16":
        return np.asarray(np.left_shift(bits, 16, dtype=np.uint32)).view(np.float32)
    table = np.array(_float8_values(dtype), np.float32)
    return np.asarray(table[bits])
