"""Opens every checkpoint of a folder by automesh_tools, and compares safetensors files with a reader of their own:

    python read_checkpoints.py tests/data

Prints the number of checkpoints, tensors and formats. An exception is a failure.
"""

import json
import pathlib
import struct
import sys

import numpy as np

import automesh_tools

NUMPY = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "<i1",
         "U8": "<u1", "BOOL": "?", "F8_E4M3": "<u1", "F8_E5M2": "<u1", "U16": "<u2", "U32": "<u4", "U64": "<u8"}


def safetensors(path):
    """Yields name and stored values of each tensor of a file."""
    content = path.read_bytes()
    size = struct.unpack("<Q", content[:8])[0]
    for name, entry in json.loads(content[8 : 8 + size]).items():
        if name != "__metadata__":
            first, end = (8 + size + offset for offset in entry["data_offsets"])
            yield name, np.frombuffer(content[first:end], NUMPY[entry["dtype"]]).reshape(entry["shape"])


def check_indices(checkpoint, name):
    """Compares indices of a tensor with numpy's of the whole."""
    tensor, whole = checkpoint.tensor(name), checkpoint.tensor(name).bits()
    indices = [..., slice(None), slice(0, 0), slice(None, None, 2), slice(None, None, -1), slice(-2, None)]
    if whole.ndim > 0 and whole.shape[0] > 0:
        indices += [0, -1, (0, ...)]
    if whole.ndim > 1 and min(whole.shape) > 1:
        indices += [(slice(1, None), 1), (..., slice(None, None, -2)), (0, slice(1, 2)), (-1, -1)]
    for index in indices:
        if whole.ndim == 0 and index is not ...:
            continue
        got = tensor.bits(index)
        assert isinstance(got, np.ndarray) and isinstance(tensor[index], np.ndarray), (name, index)
        assert got.tobytes() == np.ascontiguousarray(whole[index]).tobytes() and got.shape == whole[index].shape, (name, index)


def refuses(error, act, *words):
    try:
        act(*words)
    except error as caught:
        assert str(caught), error
        return
    raise AssertionError(f"{act} {words} did not raise {error}")


def main():
    root = pathlib.Path(sys.argv[1])
    formats, checkpoints, tensors = {}, 0, 0
    for path in sorted(root.rglob("*")):
        if path.is_file() and path.suffix not in (".safetensors", ".pt", ".bin"):
            continue
        try:
            checkpoint = automesh_tools.open_checkpoint(path)
        except automesh_tools.CheckpointError as error:
            assert str(error)
            continue
        with checkpoint:
            formats[checkpoint.format] = formats.get(checkpoint.format, 0) + 1
            checkpoints += 1
            for name in [*checkpoint, *checkpoint.optimizer]:
                tensor = checkpoint.tensor(name)
                values = np.asarray(tensor)
                assert values.shape == tensor.shape, name
                tensors += 1
            if path.is_file() and path.suffix == ".safetensors":
                for name, values in safetensors(path):
                    assert checkpoint.tensor(name).bits().tobytes() == values.tobytes(), (path, name)
    with automesh_tools.open_checkpoint(root / "dcp" / "fsdp4") as checkpoint:
        for name in checkpoint:
            check_indices(checkpoint, name)
        name = next(iter(checkpoint))
        assert name in checkpoint and "absent" not in checkpoint and len(checkpoint) == len(list(checkpoint))
        refuses(KeyError, checkpoint.__getitem__, "absent")
        refuses(IndexError, checkpoint.__getitem__, (name, 10**9))
        refuses(IndexError, checkpoint.__getitem__, (name, 0, 0, 0, 0, 0))
        for word in ("a", True, None, np.array([0, 1])):
            refuses(TypeError, checkpoint.__getitem__, (name, word))
        kept, states = checkpoint.tensor(name), checkpoint.optimizer
        state = next(iter(states))
    refuses(automesh_tools.CheckpointError, kept.numpy)
    refuses(automesh_tools.CheckpointError, states.__getitem__, state)
    assert state in states and "absent" not in states  # names are looked up without reading values
    refuses(automesh_tools.CheckpointError, automesh_tools.open_checkpoint, root / "absent")
    assert "torch" not in sys.modules
    print(f"{checkpoints} checkpoints, {tensors} tensors, formats: {', '.join(f'{key} {n}' for key, n in sorted(formats.items()))}")


main()
