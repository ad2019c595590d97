"""am-repl on problematic files: files with wrong types or inconsistent contents, files that are
too large or not regular, and files that change while they are open."""

import ast
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from answer_schema import check_answers

BIN = Path(os.environ["AM_BIN_DIR"])
HF = Path(os.environ["AM_SOURCE_DIR"]) / "tests" / "data" / "hf"


def safetensors(path, tensors, metadata=None, data=None):
    """Writes a safetensors file of float32 tensors, {name: shape}. Without `data`, the values
    are zeros in a sparse file."""
    header, end = {}, 0
    if metadata:
        header["__metadata__"] = metadata
    for name, shape in tensors.items():
        size = 4
        for dim in shape:
            size *= dim
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + (data or b""))
        file.truncate(8 + len(text) + end)


class FilesCase(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="am-repl-test-")
        self.addCleanup(self.folder.cleanup)
        self.path = Path(self.folder.name)
        self.model = self.path / "llama"
        self.model.mkdir()
        for name in ("config.json", "model.safetensors"):
            shutil.copy(HF / "llama" / name, self.model / name)

    def repl(self, *arguments, **more):
        environment = {**os.environ, "HOME": str(self.path), "NO_COLOR": "1", "OMP_NUM_THREADS": "1"}
        return subprocess.run(
            [BIN / "am-repl", *map(str, arguments)], capture_output=True, cwd=self.path, text=True,
            env=environment, timeout=more.pop("timeout", 30), **{"input": "", **more})

    def answer(self, target, commands):
        done = self.repl(target, "-c", commands, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return check_answers(done.stdout)["results"]

    def refuse(self, *arguments, status=None, says=()):
        done = self.repl(*arguments)
        self.assertIn(done.returncode, (1, 2) if status is None else (status,), done.stdout + done.stderr)
        for text in says:
            self.assertIn(text, done.stderr)
        return done


class DtypeTest(FilesCase):
    def test_only_dtypes_that_hold_weights_are_exported(self):
        for dtype in ("int8", "uint8", "bool", "float8_e4m3fn", "float64", "no"):
            self.refuse(self.model, "-c", f"export out --dtype {dtype}",
                        says=(dtype, "float32 (fp32), bfloat16 (bf16) or float16 (fp16)"))
            self.assertFalse((self.path / "out").exists())

    def test_only_dtypes_that_hold_weights_are_computed_in(self):
        for dtype in ("int8", "float8_e4m3fn", "float64"):
            self.refuse(self.model, "-c", f"set dtype {dtype}", says=(dtype, "bfloat16 (bf16)"))

    def test_short_names(self):
        exported, info = self.answer(self.model, "export out --dtype bf16; info")
        self.assertEqual(self.answer("out", "info")[0]["dtype"], "bfloat16")
        self.assertEqual(self.answer(self.model, "set dtype fp16; info")[1]["compute_dtype"], "float16")


class ExportTest(FilesCase):
    def test_a_file_that_must_not_grow_is_an_error(self):
        done = subprocess.run(
            ["bash", "-c", f'ulimit -f 10; exec {BIN}/am-repl llama -c "export out"'], capture_output=True,
            text=True, cwd=self.path, timeout=60)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("model.safetensors: cannot write: File too large", done.stderr)
        self.assertFalse((self.path / "out").exists())


class TensorFilesTest(FilesCase):
    """Tests commands that write single tensors or slices to files, for use in notebooks."""

    def npy(self, path):
        """Returns dtype, shape and values of a .npy file, read by its documented format."""
        data = path.read_bytes()
        self.assertEqual(data[:8], b"\x93NUMPY\x01\x00")
        (size,) = struct.unpack("<H", data[8:10])
        self.assertEqual((10 + size) % 64, 0)
        header = ast.literal_eval(data[10:10 + size].decode("latin1"))
        self.assertFalse(header["fortran_order"])
        values = struct.unpack(f"<{(len(data) - 10 - size) // 4}f", data[10 + size:])
        return header["descr"], header["shape"], list(values)

    def test_a_tensor_for_numpy(self):
        done = self.answer(self.model, "print model.norm.weight[:4] --to norm.npy; print model.norm.weight[:4]")
        self.assertEqual(done[0]["tensors"], ["model.norm.weight[:4]"])
        dtype, shape, values = self.npy(self.path / "norm.npy")
        self.assertEqual((dtype, shape), ("<f4", (4,)))
        self.assertEqual(values, [struct.unpack("<f", struct.pack("<f", v))[0] for v in done[1]["values"]])
        self.refuse(self.model, "-c", "print model.norm.weight --to norm.npy", says=("norm.npy", "--force"))
        self.refuse(self.model, "-c", "print *norm* --to all.npy", says=("a .npy file has one tensor",))
        self.refuse(self.model, "-c", "print model.norm.weight --to norm.txt", says=("must end in .npy or .safetensors",))

    def test_some_tensors_as_safetensors(self):
        self.answer(self.model, "export norms.safetensors --only *norm.weight")
        (kept,) = self.answer("norms.safetensors", "ls")
        (whole,) = self.answer(self.model, "ls *norm.weight")
        self.assertEqual(kept["parameters"], whole["parameters"])
        (same,) = self.answer("norms.safetensors", f"diff {self.model}", )
        self.assertEqual({row["status"] for row in same["parameters"]}, {"equal", "only there"})
        self.refuse(self.model, "-c", "export norms.safetensors --only *norm.weight", says=("exists already",))
        self.refuse(self.model, "-c", "export one.safetensors --only lm_head --dtype bf16", says=("not possible with --only",))
        self.answer(self.model, "export two.safetensors --only 'model.norm.weight  lm_head.weight '")
        self.assertEqual(len(self.answer("two.safetensors", "ls")[0]["parameters"]), 2)
        self.assertEqual(sorted(p.name for p in self.path.iterdir() if "partial" in p.name), [])

    def test_ranks_are_refused_together(self):
        (self.path / "plan.toml").write_text(
            f'[model]\npath = "{self.model}"\nweights = "{self.model}/model.safetensors"\n[mesh]\nworld_size = 2\n'
            '[strategy]\nname = "fsdp2"\n[train]\nseq_len = 16\n')
        (self.path / "taken.safetensors").write_text("mine")
        for file in ("taken.safetensors", "nowhere/new.safetensors", "nowhere/new.npy"):
            self.refuse(self.path / "plan.toml", "-c", f"print model.norm.weight --to {file}", says=(Path(file).name,))
        self.assertEqual((self.path / "taken.safetensors").read_text(), "mine")
        self.answer(self.path / "plan.toml", "print *norm* --to new.safetensors; print lm_head.weight --to new.npy")
        (same,) = self.answer("new.safetensors", f"diff {self.model}")
        self.assertEqual({row["status"] for row in same["parameters"]}, {"equal", "only there"})


class TextOrFileTest(FilesCase):
    def setUp(self):
        super().setUp()
        (self.path / "notes.txt").write_text("ABC DEF")

    def test_a_mistyped_file_is_no_text(self):
        for command in ("loss", "logprob"):
            for name in ("notes.tx", "gone/notes", "~/gone"):
                self.refuse(self.model, "-c", f"{command} {name}", says=("no such file", "to use the word itself as a text, quote it"))

    def test_loss_and_logprob_read_the_same(self):
        for name in ("notes.txt", "~/notes.txt", "'notes.txt'"):
            loss, logprob = self.answer(self.model, f"loss {name}; logprob {name}")
            self.assertEqual((loss["tokens"], len(logprob["tokens"])), (7, 7))
            self.assertEqual(Path(loss["file"]).name, "notes.txt")
            self.assertAlmostEqual(-logprob["total"] / 6, loss["loss"], places=4)

    def test_quotes_make_a_text(self):
        loss, logprob = self.answer(self.model, "loss 'NOTES.TX'; logprob 'A/B'")
        self.assertEqual((loss["tokens"], loss["file"]), (8, None))
        self.assertEqual(len(logprob["tokens"]), 3)

    def test_words_with_a_point_are_a_text(self):
        for text in ("E.G", "HELLO.", "3.14159", "A.B C.DE"):
            (loss,) = self.answer(self.model, f"loss {text}")
            self.assertIsNone(loss["file"])

    def test_what_is_no_regular_file_is_said(self):
        os.mkfifo(self.path / "pipe")
        for name, kind in (("/dev/zero", "is a device"), ("pipe", "is a pipe"), ("llama", "is a folder")):
            self.refuse(self.model, "-c", f"loss {name}", says=(kind,))

    def test_a_text_without_an_end_is_not_read(self):
        with open(self.path / "big.txt", "wb") as file:
            file.truncate(8 << 30)
        self.refuse(self.model, "-c", "loss big.txt", says=("8.00 GiB", "64.00 MiB"))

    def test_commands_without_an_end_are_not_kept(self):
        self.assertEqual(self.repl(self.model, input="loss '" + "x" * (20 << 20)).returncode, 2)

    def test_long_input_is_looked_at_once(self):
        # If the time were quadratic in the length, 12 MB would need minutes.
        done = self.repl(self.model, input="# " + "x" * (12 << 20) + "\n" + " " * (12 << 20) + "mesh\n")
        self.assertEqual(done.returncode, 0, done.stderr)


class TokenizerTest(FilesCase):
    def large_vocabulary(self, *others):
        """Replaces the model by one with zero weights and a vocabulary of 600 tokens, and writes the files `others`."""
        config = json.loads((self.model / "config.json").read_text())
        config["vocab_size"] = 600
        (self.model / "config.json").write_text(json.dumps(config))
        width = config["hidden_size"]
        tensors = {name: shape for name, shape in self.shapes().items()}
        for name in ("model.embed_tokens.weight", "lm_head.weight"):
            tensors[name] = [600, width]
        safetensors(self.model / "model.safetensors", tensors)
        for other in others:
            (self.model / other).write_bytes(b"x")

    def shapes(self):
        with open(HF / "llama" / "model.safetensors", "rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            header = json.loads(file.read(length))
        return {name: entry["shape"] for name, entry in header.items() if name != "__metadata__"}

    def test_bytes_do_not_stand_in_for_another_tokenizer(self):
        self.large_vocabulary("vocab.json")
        for command in ("loss 'some text'", "logprob AB", "generate AB"):
            self.refuse(self.model, "-c", command,
                        says=("600 tokens", "vocab.json", "`set tokenizer PATH`"))
        loss = self.answer(self.model, "set tokenizer bytes; loss 'some text'")[1]
        self.assertEqual(loss["tokens"], 9)
        self.assertIsNone(self.answer(self.model, "info")[0]["tokenizer"])

    def test_a_vocabulary_too_large_for_bytes(self):
        self.large_vocabulary()
        self.refuse(self.model, "-c", "loss 'some text'", says=("no tokenizer was found",))

    def test_tokenizers_of_other_files(self):
        shutil.copy(HF.parent / "tokenizers" / "kinds" / "llama2.model", self.model / "tokenizer.model")
        tokens, split = self.answer(self.model, "tokens 'Hi</s>' --special; tokens '</s>' --split")
        self.assertEqual((tokens["tokens"][0], tokens["tokens"][-1]), (1, 2))
        self.assertEqual((tokens["pieces"][0], tokens["bytes"][0]), ("<s>", "3c 73 3e"))
        self.assertEqual(bytes.fromhex("".join(split["bytes"])), b" </s>")
        self.refuse(self.model, "-c", "tokens a b --nothing", says=("--nothing",))

    def test_a_pipe_is_no_tokenizer(self):
        os.mkfifo(self.model / "tokenizer.json")
        self.refuse(self.model, "-c", "loss 'AB C'", says=("not a regular file",))
        self.refuse(self.model, "-c", "set tokenizer llama/tokenizer.json", says=("not a regular file",))


class HomeTest(FilesCase):
    def test_exports_go_home(self):
        (exported,) = self.answer("~/llama", "export ~/out")
        self.assertEqual(exported["path"], str(self.path / "out"))
        self.assertTrue((self.path / "out" / "config.json").exists())
        self.assertFalse((self.path / "~").exists())

    def test_other_users_homes_are_not_guessed(self):
        self.refuse(self.model, "-c", "export ~you/out", says=("~you/out", "./~you/out"))
        self.assertFalse((self.path / "~you").exists())

    def test_scripts_and_tokenizers_at_home(self):
        (self.path / "commands").write_text("mesh\n")
        self.assertEqual(self.repl("~/llama", "-f", "~/commands").returncode, 0)
        self.refuse(self.model, "-c", "set tokenizer ~/none.json", says=(str(self.path / "none.json"),))


class LyingFoldersTest(FilesCase):
    def sharded(self, weight_map):
        folder = self.path / "sharded"
        folder.mkdir()
        safetensors(folder / "a.safetensors", {"x": [2]})
        safetensors(folder / "b.safetensors", {"y": [2], "extra": [3]})
        (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
        return folder

    def test_an_index_that_tells_the_truth(self):
        (ls,) = self.answer(self.sharded({"x": "a.safetensors", "y": "b.safetensors"}), "ls")
        self.assertEqual([each["name"] for each in ls["parameters"]], ["extra", "x", "y"])

    def test_an_index_that_names_what_its_file_lacks(self):
        self.check_damaged(self.sharded({"x": "a.safetensors", "z": "a.safetensors"}),
                           "z is in a.safetensors", "no such tensor")

    def test_an_index_that_names_another_file(self):
        self.check_damaged(self.sharded({"x": "b.safetensors", "y": "a.safetensors"}),
                           "x is in b.safetensors", "it is in a.safetensors")

    def check_damaged(self, folder, *says):
        done = self.repl(folder, "-c", "ls")
        self.assertEqual(done.returncode, 0, done.stderr)
        for text in says:
            self.assertIn(text, done.stderr)
        self.assertEqual(self.repl(folder, "-c", "verify").returncode, 3)
        self.refuse(folder, "-c", "export out", says=("is damaged", "model.safetensors.index.json"))

    def test_an_index_that_names_a_pipe(self):
        folder = self.sharded({"x": "pipe.safetensors"})
        os.mkfifo(folder / "pipe.safetensors")
        self.refuse(folder, "-c", "ls", status=2, says=("pipe.safetensors",))

    def test_a_tensor_of_too_many_dims(self):
        safetensors(self.path / "dims.safetensors", {"w": [1] * 100_000})
        self.refuse("dims.safetensors", "-c", "stats", status=2, says=("more than 64 dims",))

    def test_a_folder_of_what_can_be_opened_lists_it(self):
        for name in ("run-2", "run-10"):
            (self.path / "runs" / name / "checkpoints").mkdir(parents=True)
        shutil.copytree(self.model, self.path / "runs" / "model")
        (self.path / "runs" / "notes.txt").write_text("nothing")
        (self.path / "runs" / "bad").mkdir()
        (self.path / "runs" / "bad" / "loop").symlink_to("loop")  # a link that cannot be resolved
        done = self.repl("runs", "-c", "ls")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("these can be opened: runs/model, runs/run-2, runs/run-10\n", done.stderr)
        done = self.repl("runs/run-2", "-c", "ls")
        self.assertIn("looked for: *.safetensors", done.stderr)

    def test_flags_of_a_plan_are_refused_where_there_is_none(self):
        self.refuse(self.model, "--set", "nonsense", "-c", "mesh", status=2, says=("--set", "not a plan"))
        self.refuse(self.model, "--nproc", "2", "-c", "mesh", status=2, says=("--nproc", "not a plan"))

    def test_names_reach_the_terminal_without_their_control_characters(self):
        safetensors(self.path / "w.safetensors", {"a\x1b[2Jb": [2]})
        done = self.repl("w.safetensors", "-c", "unshard all")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("\x1b", done.stdout)


class ShrinkingTest(FilesCase):
    def test_a_file_that_becomes_smaller_is_named(self):
        weights = self.model / "model.safetensors"
        process = subprocess.Popen(
            [BIN / "am-repl", self.model], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True)
        process.stdin.write("stats model.norm.weight\n")
        process.stdin.flush()
        for _ in range(3):  # the answer shows that the file is open
            process.stdout.readline()
        os.truncate(weights, 4000)
        out, err = process.communicate("stats\n", timeout=30)
        self.assertEqual(process.returncode, 3, (out, err))
        self.assertIn("model.safetensors: became smaller while it was open", out)
        self.assertIn("4000 now", out)


class FitTest(FilesCase):
    """Tests a model whose float32 parameters alone need more than 6 TB of memory."""

    PLAN = """
[model]
path = "{model}"
weights = "none"
[mesh]
world_size = 1
[strategy]
name = "ddp"
[train]
seq_len = 16
[data]
kind = "synthetic"
"""

    def setUp(self):
        super().setUp()
        config = json.loads((self.model / "config.json").read_text())
        config.update(hidden_size=65536, intermediate_size=262144, num_hidden_layers=24)
        config.update(num_attention_heads=512, num_key_value_heads=512, head_dim=128)
        large = self.path / "large"
        large.mkdir()
        (large / "config.json").write_text(json.dumps(config))
        self.plan = self.path / "plan.toml"
        self.plan.write_text(self.PLAN.format(model=large))

    def test_a_session_that_cannot_fit_is_not_begun(self):
        self.refuse(self.plan, "-c", "mesh", status=1, says=("TiB of memory", "available", "--force"))

    def test_a_job_that_cannot_fit_is_not_begun(self):
        done = subprocess.run(
            [BIN / "am-run", self.plan, "--run-dir", self.path / "run"], capture_output=True, text=True,
            timeout=60)
        self.assertEqual(done.returncode, 1, done.stderr)
        for text in ("TiB of memory", "available", "no rank was started", "--force"):
            self.assertIn(text, done.stderr)
        self.assertFalse((self.path / "run").exists())

    def forced(self, command):
        # `ulimit -v` limits the address space, so the process fails before it fills the machine's
        # memory.
        done = subprocess.run(["bash", "-c", f"ulimit -v 8000000; exec {BIN}/{command} --force"],
                              capture_output=True, text=True, timeout=60)
        self.assertNotEqual(done.returncode, 0)
        self.assertNotIn("are available here", done.stderr)
        return done.stderr

    def test_a_session_that_is_forced_goes_on(self):
        self.assertIn("allocate", self.forced(f"am-repl {self.plan} -c mesh"))

    def test_a_job_that_is_forced_goes_on(self):
        said = self.forced(f"am-run {self.plan} --run-dir {self.path}/run")
        self.assertIn("rank 0 on node 0 failed", said)
        self.assertIn("bad_alloc", said)


class RunFolderTest(FilesCase):
    """Tests what am-repl prints about the files of a run folder."""

    def setUp(self):
        super().setUp()
        self.plan = self.path / "plan.toml"
        self.plan.write_text(f"""
[model]
path = "{self.model}"
weights = "none"
[mesh]
world_size = 2
[strategy]
name = "ddp"
[train]
seq_len = 16
max_steps = 1
[data]
kind = "synthetic"
""")
        self.run_folder = self.path / "run"
        done = subprocess.run(
            [BIN / "am-run", self.plan, "--run-dir", self.run_folder], capture_output=True, text=True,
            timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_replicas_are_said_to_be_saved_once(self):
        done = self.repl(self.run_folder, "-c", "show model.norm.weight; memory")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("dp_replicate: Replicate, saved once (by rank 0)", done.stdout)
        self.assertIn("only the first replica is saved", done.stdout)
        show, memory = self.answer(self.run_folder, "show model.norm.weight; memory")
        self.assertEqual(show["placements"], {"dp_replicate": "Replicate"})
        self.assertTrue(memory["at_rest"])

    def test_a_run_s_own_plan_has_fresh_weights(self):
        done = self.repl(self.run_folder / "plan.toml", "-c", "mesh")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("initialised with seed 0", done.stderr)
        self.assertIn(str(self.run_folder / "checkpoints"), done.stderr)
        self.assertIn("step-1", done.stderr)

    def test_a_part_of_it_is_refused(self):
        part = self.run_folder / "checkpoints" / "step-1" / "__0_0.distcp"
        self.refuse(part, "-c", "ls", status=2, says=("belongs to one rank", "open the checkpoint's folder"))

    def test_a_step_below_zero_is_no_checkpoint_of_a_job(self):
        info = self.run_folder / "checkpoints" / "step-1" / "checkpoint.json"
        info.write_text(info.read_text().replace('"step": 1', '"step": -7'))
        (info,) = self.answer(info.parent, "info")
        self.assertEqual((info["format"], info["damage"][0]["where"]), ("dcp", "checkpoint.json"))
        self.assertIn("step -7", info["damage"][0]["what"])


class DamagedTest(FilesCase):
    """The intact parts of a damaged checkpoint can be read; lost tensors are reported, and
    exports refuse them."""

    def setUp(self):
        super().setUp()
        plan = self.path / "plan.toml"
        plan.write_text(f"""
[model]
path = "{self.model}"
weights = "none"
[mesh]
world_size = 2
[strategy]
name = "fsdp2"
[train]
seq_len = 16
max_steps = 1
[data]
kind = "synthetic"
""")
        done = subprocess.run([BIN / "am-run", plan, "--run-dir", "run"], capture_output=True, text=True,
                              cwd=self.path, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.step = self.path / "run" / "checkpoints" / "step-1"
        self.whole = self.stats(self.step)

    def stats(self, target, status=0):
        done = self.repl(target, "-c", "stats *", "--json")
        self.assertEqual(done.returncode, status, done.stderr)
        (stats,) = check_answers(done.stdout)["results"]
        return stats

    def damage(self, target):
        info = self.repl(target, "-c", "info", "--json")
        self.assertEqual(info.returncode, 0, info.stderr)
        return check_answers(info.stdout)["results"][0].get("damage", [])

    def check_the_rest(self, target, where, what):
        """Checks that all lost tensors are named, and that all others have the values of the
        complete checkpoint."""
        (damage,) = self.damage(target)
        self.assertEqual(damage["where"], where)
        self.assertIn(what, damage["what"])
        left = self.stats(target, status=3)
        lost = {row["name"] for row in left["unread"]}
        self.assertTrue(lost)
        self.assertEqual(left["stats"], [row for row in self.whole["stats"] if row["name"] not in lost])
        verify = self.repl(target, "-c", "verify", "--json")
        self.assertEqual(verify.returncode, 3)
        problems = check_answers(verify.stdout)["results"][0]["problems"]
        self.assertEqual(problems[0]["where"], where)
        self.assertLessEqual(lost, {problem["where"] for problem in problems})
        one = self.refuse(target, "-c", f"stats {min(lost)}")
        self.assertIn(where, one.stderr)
        self.refuse(target, "-c", "export out", says=("is damaged", where))
        self.assertFalse((self.path / "out").exists())

    def test_whole_ones_say_nothing(self):
        self.assertEqual(self.damage(self.step), [])
        self.assertNotIn("unread", self.whole)

    def test_a_rank_s_file_is_missing(self):
        (self.step / "__1_0.distcp").unlink()
        self.check_the_rest(self.step, "__1_0.distcp", "No such file")
        prompt = self.repl(self.step, "-c", "mesh")
        self.assertIn("damaged: __1_0.distcp: cannot read", prompt.stderr)

    def test_a_rank_s_file_is_cut_off(self):
        file = self.step / "__1_0.distcp"
        with open(file, "r+b") as cut:
            cut.truncate(file.stat().st_size // 5)
        for name in ("checkpoint.json", None):  # without checkpoint.json, the folder is a DCP checkpoint
            self.check_the_rest(self.step, "__1_0.distcp", "bytes")
            if name:
                (self.step / name).unlink()

    def test_config_and_index_are_missing(self):
        (self.step / "config.json").unlink()
        self.assertEqual(self.stats(self.step), self.whole)
        (self.step / "index.json").unlink()
        self.assertEqual(self.stats(self.step)["stats"], self.whole["stats"])
        (damage,) = self.damage(self.step)
        self.assertEqual(damage["where"], "checkpoint.json")
        self.assertIn("index.json", damage["what"])

    def test_training_goes_on_from_whole_ones_only(self):
        (self.step / "__1_0.distcp").unlink()
        done = subprocess.run([BIN / "am-run", "plan.toml", "--run-dir", "other", "--steps", "2", "--resume", self.step],
                              capture_output=True, text=True, cwd=self.path, timeout=60)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("__1_0.distcp", done.stderr)

    def test_files_of_hugging_face(self):
        folder = self.path / "sharded"
        shutil.copytree(HF / "llama-sharded", folder)
        self.whole = self.stats(folder)
        names = sorted(path.name for path in folder.glob("*.safetensors"))
        with open(folder / names[0], "r+b") as cut:
            cut.truncate((folder / names[0]).stat().st_size - 4)
        self.check_the_rest(folder, names[0], "cut off: 4 bytes")
        shutil.copy(HF / "llama-sharded" / names[0], folder / names[0])
        (folder / names[0]).unlink()
        (damage,) = self.damage(folder)
        self.assertEqual(damage["where"], names[0])
        left = self.stats(folder)["stats"]
        self.assertTrue(left)
        self.assertEqual(left, [row for row in self.whole["stats"] if row in left])
        self.refuse(folder, "-c", "export out", says=("is damaged", names[0]))

    def test_one_part_of_several_is_no_model(self):
        """DCP's Hugging Face writer can write one file per rank, which contains a part of each
        tensor and the offset of this part."""
        size = [4, 6]
        info = {"w": {"saved_offsets": [4, 0]}}
        safetensors(self.path / "shard-00002-model-00001-of-00001.safetensors", {"w": size},
                    {"DCP_SHARDING_INFO": json.dumps(info)}, struct.pack("<24f", *range(24)))
        part = self.path / "shard-00002-model-00001-of-00001.safetensors"
        (damage,) = self.damage(part)
        self.assertEqual(damage, {"where": "w", "what": "its parts have 24 of its 48 elements"})
        (show,) = self.answer(part, "show w")
        self.assertEqual(show["shape"], [8, 6])
        self.assertEqual(show["shards"], [{"rank": 1, "offset": [4, 0], "shape": size}])
        self.assertEqual(self.answer(part, "print w[4:5]")[0]["values"], [[0, 1, 2, 3, 4, 5]])
        self.refuse(part, "-c", "print w[3:5]", says=("its parts have 6 of its 12 elements",))


if __name__ == "__main__":
    sys.exit(unittest.main())
