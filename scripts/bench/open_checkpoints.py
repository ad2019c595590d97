#!/usr/bin/env python3
"""Measures the time and memory of opening sharded checkpoints.

  scripts/bench/open_checkpoints.py [BUILD] [--rounds N]      (default: build, 3)

Needs a Python with torch. Generates checkpoint folders of a model with 70 billion parameters and AdamW's two moments, sharded
by rows over the ranks. Data files are sparse, because only the metadata is read.

  dcp     `.metadata`, as torch pickles it, of 8, 64 and 256 ranks: `am-repl FOLDER -c ls` against Python's
          FileSystemReader.read_metadata (with and without its imports)
  ours    index.json of 64, 256 and 1,024 ranks: `am-repl FOLDER -c info`

Prints medians of processor seconds, peak resident memory, and microseconds per part of a tensor. The aims: `.metadata` of
256 ranks in under 2 s and 1 GB; for an index of 1,024 ranks, time proportional to the number of parts.
"""

import argparse
import json
import os
import pickle
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HIDDEN, INNER, KEYS, VOCAB, LAYERS = 8192, 28672, 1024, 128256, 80
CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": HIDDEN, "intermediate_size": INNER,
    "num_attention_heads": 64, "num_key_value_heads": 8, "num_hidden_layers": LAYERS, "vocab_size": VOCAB,
    "rms_norm_eps": 1e-05, "tie_word_embeddings": False, "hidden_act": "silu",
}


def parameters():
    found = {"model.embed_tokens.weight": (VOCAB, HIDDEN), "model.norm.weight": (HIDDEN,), "lm_head.weight": (VOCAB, HIDDEN)}
    for layer in range(LAYERS):
        at = f"model.layers.{layer}."
        rows = {"self_attn.q_proj": HIDDEN, "self_attn.k_proj": KEYS, "self_attn.v_proj": KEYS, "self_attn.o_proj": HIDDEN,
                "mlp.gate_proj": INNER, "mlp.up_proj": INNER}
        found.update({f"{at}{name}.weight": (count, HIDDEN) for name, count in rows.items()})
        found[f"{at}mlp.down_proj.weight"] = (HIDDEN, INNER)
        found.update({f"{at}{name}_layernorm.weight": (HIDDEN,) for name in ("input", "post_attention")})
    return found


def parts(shape, ranks):
    """Yields (rank, offset, shape) for each part of a tensor. The rows of the tensor are cut as by FSDP2."""
    each = -(-shape[0] // ranks)
    for rank in range(ranks):
        first = min(rank * each, shape[0])
        count = min(each, shape[0] - first)
        if count > 0:
            yield rank, (first,) + (0,) * (len(shape) - 1), (count,) + shape[1:]


def bytes_of(shape):
    count = 4
    for size in shape:
        count *= size
    return count


def make_sparse(folder, ends, label=""):
    for rank, end in enumerate(ends):
        with open(folder / f"__{rank}_0.distcp", "wb") as file:
            file.write(label.format(rank=rank).encode())
            file.truncate(end)


def make_dcp(folder, ranks):
    """Writes a checkpoint folder in the format of torch.distributed.checkpoint. Returns the number of parts of all tensors."""
    import torch
    from torch.distributed.checkpoint.filesystem import _StorageInfo
    from torch.distributed.checkpoint.metadata import (
        ChunkStorageMetadata, Metadata, MetadataIndex, StorageMeta, TensorProperties, TensorStorageMetadata,
    )

    ends = [0] * ranks
    tensors, storage, planner = {}, {}, {}
    for name, shape in parameters().items():
        for key in (f"model.{name}", f"optim.state.{name}.exp_avg", f"optim.state.{name}.exp_avg_sq"):
            chunks = []
            for number, (rank, offset, local) in enumerate(parts(shape, ranks)):
                length = bytes_of(local) + 1600
                chunks.append(ChunkStorageMetadata(torch.Size(offset), torch.Size(local)))
                storage[MetadataIndex(key, torch.Size(offset), number)] = _StorageInfo(f"__{rank}_0.distcp", ends[rank], length)
                ends[rank] += length
            tensors[key] = TensorStorageMetadata(TensorProperties(), torch.Size(shape), chunks)
            planner[key] = tuple(key.split(".", 1)) if key.startswith("model.") else ("optim", "state", name, key.rsplit(".", 1)[1])
    with open(folder / ".metadata", "wb") as file:
        pickle.dump(Metadata(tensors, planner, storage, StorageMeta(), version="1.0.0"), file)
    make_sparse(folder, ends)
    return len(storage)


def make_ours(folder, ranks):
    """Writes index.json and checkpoint.json in am-run's format (lib/am/run_folder/shard_index.h), and data files without
    values. Returns the number of parts of all tensors."""
    ends = [4096] * ranks
    count = 0
    tensors = {}
    for name, shape in parameters().items():
        for key in (name, f"optim.state.{name}.exp_avg", f"optim.state.{name}.exp_avg_sq"):
            boxes = []
            for rank, offset, local in parts(shape, ranks):
                size = bytes_of(local)
                checksums = [0] * -(-size // (16 << 20))
                boxes.append([rank, ends[rank] + 4096, ends[rank], size + 4096 + 400, *offset, *local, *checksums])
                ends[rank] += (size + 4096 + 400 + 4095) // 4096 * 4096
                count += 1
            tensors[key] = {"dtype": "float32", "shape": shape, "boxes": boxes}
    files = [[f"__{rank}_0.distcp", end] for rank, end in enumerate(ends)]
    index = {"format": "automesh-index", "version": 1, "save": "0123456789abcdef", "files": files, "tensors": tensors}
    (folder / "index.json").write_text(json.dumps(index, separators=(",", ":")))
    marker = {"format": "automesh-checkpoint", "version": 3, "step": 1, "world_size": ranks, "model_type": "llama",
              "mesh": {"pp": 1, "dp_replicate": 1, "dp_shard": ranks, "cp": 1, "tp": 1, "ep": 1}, "save": "0123456789abcdef"}
    (folder / "checkpoint.json").write_text(json.dumps(marker))
    make_sparse(folder, ends, "automesh-checkpoint 0123456789abcdef rank {rank}\n")
    return count


def run(command):
    """Returns (processor seconds, peak resident bytes) of a command. The peak is at least the memory of this Python process,
    a small amount."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        raise SystemExit(f"failed: {command}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024


PYTHON = """
import sys, time
from torch.distributed.checkpoint import FileSystemReader
began = time.process_time()
metadata = FileSystemReader(sys.argv[1]).read_metadata()
for name in metadata.state_dict_metadata: print(name, metadata.state_dict_metadata[name].size)
print(began, time.process_time() - began, file=sys.stderr)
"""


def run_python(folder):
    """Reads and lists the metadata of a folder in a new Python process. Returns the processor seconds of the whole process,
    and those after its imports."""
    done = subprocess.run([sys.executable, "-c", PYTHON, folder], capture_output=True, text=True, check=True)
    imports, alone = (float(word) for word in done.stderr.split()[-2:])
    return imports + alone, alone


def make(kind, folder, ranks):
    """Calls make_dcp or make_ours in a separate process, so that its memory is freed afterwards. Returns the number of parts."""
    code = (f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import open_checkpoints as made; "
            f"from pathlib import Path; print(made.make_{kind}(Path({str(folder)!r}), {ranks}))")
    return int(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", nargs="?", default=str(ROOT / "build"))
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    am_repl = Path(options.build).resolve() / "bin/am-repl"
    for kind, worlds in (("dcp", (8, 64, 256)), ("ours", (64, 256, 1024))):
        for ranks in worlds:
            with tempfile.TemporaryDirectory(prefix="am-open-") as name:
                folder = Path(name)
                count = make(kind, folder, ranks)
                (folder / "config.json").write_text(json.dumps(CONFIG))
                described = (folder / (".metadata" if kind == "dcp" else "index.json")).stat().st_size
                command = [am_repl, folder, "-c", "ls" if kind == "dcp" else "info"]
                ours = [run(command) for _ in range(options.rounds)]
                seconds = statistics.median(each[0] for each in ours)
                line = (f"{kind:5} {ranks:5} ranks {count:8} parts {described / 1e6:7.1f} MB  am-repl {seconds:6.3f} s "
                        f"{max(each[1] for each in ours) / 1e6:6.0f} MB {seconds / count * 1e6:6.2f} us a part")
                if kind == "dcp":
                    python = [run_python(folder) for _ in range(options.rounds)]
                    whole = statistics.median(each[0] for each in python)
                    alone = statistics.median(each[1] for each in python)
                    line += f"  Python {whole:6.2f} s ({alone:.2f} s without imports): {seconds / whole:.3f}, {seconds / alone:.3f}"
                print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
