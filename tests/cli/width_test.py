"""Answers fit the window: no line of a command is wider than COLUMNS, at 80, 100 and 120
columns. Each command that a tool lists has an example here."""

import json
import os
import re

from attach_support import LONG, AttachCase
from cli_support import BIN, SOURCE, display_width, run_tool
from repl_terminal import Terminal
from run_support import DATA, FULL_PRECISION

MODELS = ("llama", "mixtral", "deepseek_v3")
PLANNED = {"llama": "llama-3.1-8b", "mixtral": "mixtral-8x7b-v0.1", "deepseek_v3": "deepseek-v3"}
COLUMNS = (80, 100, 120)

# Examples of am-repl's commands: on a checkpoint, on a plan's ranks, on runs that have ended, and in a job.
AT_REST = (
    "info", "mesh", "ls", "tree", "show {name}", "where {name}", "memory", "verify", "fits {target}",
    "stats", "norms", "norms --by layer", "hist {name}", "plot", "plot --by layer", "heat {name}", "print {name}[0:4]",
    "print {name}", "top {name}", "top", "nan", "dead", "checksum", "diff {target}", "drift {target}", "same {target}",
    "same {other}", "tokens '12 34 AB'", "calc norm(model.norm.weight) / 2", "loss '12 34 AB'",
    "logprob '12 34 AB'", "generate '12 34 AB' --tokens 4", "grad --of '12 34 AB'",
    "acts --of '12 34 AB'", "attention --of '12 34 AB'", "unshard model.layers.1", "reshard", "set", "set digits 5",
    "let w = {name}", "let", "export {made}/export", "print model.norm.weight --to {made}/norm.npy",
    "source {made}/commands.am", "report {made}/report.html", "output {made}/answers.txt", "ls", "output", "mode table",
    "stats | sort norm | head 4", "stats | tail 2", "stats | grep layers.1", "stats | where norm > 1",
    "stats | select name norm", "stats | count", "help", "help live", "help stats", "help print", "quit")
WITH_EXPERTS = ("experts --of '12 34 AB'",)
ON_RANKS = (
    "info", "mesh", "show {name}", "where {name}", "checksum {name}", "unshard model.layers.1", "memory", "reshard", "step",
    "step 2", "collectives", "collectives 0", "optim", "grad", "acts", "attention", "stats", "norms")
ON_RUNS = ("metrics", "metrics loss grad_norm", "plot loss grad_norm", "compare", "compare loss")
IN_A_JOB = (
    "status", "pause", "info", "mesh", "step 2", "ranks", "stragglers", "dashboard", "collectives", "collectives 0",
    "stack 0", "stack all", "acts", "attention", "optim", "grad", "stats", "checksum", "memory", "break when loss < 0",
    "break", "break off", "tripwire nan", "tripwire", "tripwire off", "set optimizer.lr 0.001", "save", "continue",
    "watch loss --times 3", "watch rms *norm* --times 2", "detach")

ON_PLAN = (  # am-plan's
    "check {plan}", "show {plan}", "shards {plan}", "tp {plan}", "memory {plan}", "cost {plan}",
    "job {plan} --tokens 1T --price 2.5", "report {plan} -o {made}/plan.html",
    "schedule {plan} --set mesh.pp_size=2 --set pipeline.balance=cost", "diff {plan} {other}", "diff {plan} {plan}",
    "export {plan} --to torchtitan -o {made}/titan.toml", "export {plan} --to megatron -o {made}/megatron.yaml",
    "import {made}/titan.toml --from torchtitan --model {model} -o {made}/imported.toml", "model {model}",
    "search --model {model} --gpus 1024 --top 3 --cp 1 --tp 8 --ep 1,64 --pp 1,16", "rules", "explain mesh.product",
    "explain tp.kv_heads", "schema --help", "lsp --help", "completions --help", "man --help")
ON_JOB = (  # am-run's, and am-run without a command
    "--help", "{plan} --dry-run", "{plan} --verify-layout", "ls {runs}", "compare {runs}/a {runs}/b", "compare {runs}/a",
    "doctor {plan}", "files {plan} --slurm -o {made}/job.sh", "files {plan} --jobset -o {made}/job.yaml",
    "prepare {text}", "show-batch {plan}", "init --help", "completions --help", "man --help")


def names_of(target):
    result = run_tool("am-repl", target, "--json", "-c", "ls")
    return [row["name"] for row in json.loads(result.out)["results"][0]["parameters"]]


def words_of(examples):
    return {example.split()[0] for example in examples}


def commands_of(tool):
    """Returns the names of the commands that the tool lists."""
    if tool == "am-repl":
        listed = run_tool(tool, DATA / "hf" / "llama", "-c", "help", env={"COLUMNS": "200"}).out
        return set(re.findall(r"^([a-z]+)(?: .*)?  \S", listed, re.MULTILINE))
    return {line.split("\t")[0] for line in run_tool(tool, "--complete", "").out.splitlines()[1:]}


class WidthTest(AttachCase):
    def assert_fits(self, model, tool, *arguments, statuses=(0,)):
        """Runs a command in windows of all widths. {made} in the arguments stands for a separate folder for each width."""
        wide = []
        for columns in COLUMNS:
            made = self.path / f"{model}-{columns}"
            made.mkdir(exist_ok=True)
            (made / "commands.am").write_text("ls | head 1\nnorms\n")
            env = {"COLUMNS": str(columns), "OMP_NUM_THREADS": "1"}
            words = [str(each).replace("{made}", str(made)) for each in arguments]
            result = run_tool(tool, *words, cwd=self.path, env=env, timeout=120)
            self.assertIn(result.status, statuses, f"{tool}: {result.err}")
            for line in (result.out + result.err).splitlines():
                # A message may contain the path of a file; paths are not shortened.
                if display_width(line) > columns and str(self.path) not in line:
                    wide.append(f"{columns}: {line}")
        if wide:
            self.fail("wider than the window:\n" + "\n".join(dict.fromkeys(wide)))

    def plan_of(self, model, name, more=""):
        """Writes a plan that trains a tiny model on two ranks."""
        (self.path / "tokens.bin").write_bytes(b"".join((17 * i * i % 97).to_bytes(2, "little") for i in range(4000)))
        folder = DATA / "hf" / model
        return self.write_plan(
            f'[model]\npath = "{folder}"\nweights = "{folder}/model.safetensors"\n[mesh]\nworld_size = 2\n'
            f'[strategy]\nname = "fsdp2"\n{FULL_PRECISION}\n'
            "[train]\nseq_len = 16\nmicro_batch_size = 2\nglobal_batch_size = 8\nmax_steps = 3\n"
            f'[data]\nkind = "tokens"\npath = "{self.path}/tokens.bin"\n{more}', name)

    def text_plan_of(self, model):
        """Writes a plan whose data are text, and whose model has one token per byte."""
        folder = self.path / f"{model}-config"
        folder.mkdir()
        config = json.loads((DATA / "hf" / model / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**config, "vocab_size": 256}))
        (self.path / "words.txt").write_text("some words\n" * 100)
        return self.write_plan(
            f'[model]\npath = "{folder}"\n[mesh]\nworld_size = 1\n[train]\nseq_len = 16\n'
            f'[data]\nkind = "text"\npath = "{self.path}/words.txt"\ntokenizer = "bytes"\n'
            f'prepared = "{self.path}/{model}-prepared"\n', "text.toml")

    def test_each_command_of_the_tables_has_an_example(self):
        repl = words_of(AT_REST + WITH_EXPERTS + ON_RANKS + ON_RUNS + IN_A_JOB)
        repl |= {part.split()[0] for example in AT_REST for part in example.split("|")[1:]}
        self.assertEqual(commands_of("am-repl") - repl, set())
        self.assertEqual(commands_of("am-plan") - words_of(ON_PLAN), set())
        self.assertEqual(commands_of("am-run") - words_of(ON_JOB), set())
        self.assertIn("heat", commands_of("am-repl"))
        self.assertIn("search", commands_of("am-plan"))
        self.assertIn("show-batch", commands_of("am-run"))

    def ask(self, model, opened, commands, *options, **places):
        """Runs all commands in one session, because each start loads libtorch."""
        lines = [command.format(made="{made}", **places) for command in commands]
        self.assert_fits(model, "am-repl", opened, "--keep-going", *options, "-c", "; ".join(lines), statuses=(0, 3))

    def test_commands_of_am_repl(self):
        for model in MODELS:
            target = DATA / "hf" / model
            other = DATA / "hf" / MODELS[MODELS.index(model) - 1]
            name = next(name for name in names_of(target) if "layers.1" in name and "proj" in name)
            commands = AT_REST if model == "llama" else WITH_EXPERTS + AT_REST
            with self.subTest(model):
                self.ask(model, target, commands, "--tokenizer", "bytes", name=name, target=target, other=other)
            with self.subTest(f"{model}: ranks"):
                plan = self.plan_of(model, "ranks.toml")
                ranks = ON_RANKS if model == "llama" else ("experts", *ON_RANKS)
                self.ask(model, plan, ranks, name=name)

    def test_commands_of_am_repl_on_runs(self):
        for model in MODELS:
            with self.subTest(model):
                for run, rate in ((f"{model}-run", 0.01), (f"{model}-other", 0.001)):
                    self.train(self.plan_of(model, "run.toml", f"[optimizer]\nlr = {rate}\n"), run)
                self.ask(model, f"{model}-run", ON_RUNS, f"{model}-other")

    def test_commands_of_am_repl_in_a_job(self):
        for model in MODELS:
            with self.subTest(model):
                plan = self.plan_of(model, f"{model}.toml")
                job = self.start_job_of(plan, model, "--set", f"train.max_steps={LONG}", "--fault", "slow_rank")
                commands = IN_A_JOB if model == "llama" else ("experts", *IN_A_JOB)
                self.ask(model, model, commands, "--write")
                self.stop(job, model)

    def test_a_pipe_has_full_names(self):
        target = DATA / "hf" / "deepseek_v3"
        text = run_tool("am-repl", target, "-c", "stats").out
        for name in names_of(target):
            self.assertIn(name, text)
        csv = run_tool("am-repl", target, "-c", "mode csv; stats", env={"COLUMNS": "80"}).out
        for name in names_of(target):
            self.assertIn(name, csv)

    def test_commands_of_am_plan(self):
        for model in MODELS:
            folder = SOURCE / "plans" / "models" / PLANNED[model]
            places = {"model": folder, "made": "{made}"}
            for name, tensor, experts in (("plan", 1, 8), ("other", 2, 4)):
                more = f"ep_size = {experts}\n" if model != "llama" else ""
                places[name] = self.write_plan(
                    f'[model]\npath = "{folder}"\n[mesh]\nworld_size = 64\ntp_size = {tensor}\n{more}'
                    '[strategy]\nname = "fsdp2"\n[cluster]\ngpu = "h100-sxm"\n[train]\nseq_len = 4096\n', f"{name}.toml")
            for example in ON_PLAN:
                with self.subTest(f"{model}: {example}"):
                    self.assert_fits(model, "am-plan", *example.format(**places).split())

    def test_the_status_line_of_am_run(self):
        plan = self.plan_of("mixtral", "plan.toml")
        for columns in COLUMNS:
            with self.subTest(columns=columns):
                terminal = Terminal([BIN / "am-run", plan, "--run-dir", f"run-{columns}"], self.path, folder=self.path)
                self.addCleanup(os.close, terminal.fd)
                terminal.resize(24, columns)
                self.assertEqual(terminal.wait(), 0, terminal.text)
                while terminal.read(0):
                    pass
                lines = [line for line in re.split(r"\r\x1b\[K|\r\n", terminal.text) if line.startswith("step ")]
                self.assertEqual([line.split()[1] for line in lines[:3]], ["1/3", "2/3", "3/3"])
                self.assertLessEqual(max(map(display_width, lines)), columns, lines)

    def test_commands_of_am_run(self):
        for model in MODELS:
            plan = self.plan_of(model, "plan.toml")
            text = self.text_plan_of(model)
            runs = self.path / model
            for run in ("a", "b"):
                self.train(plan, runs / run)
            for example in ON_JOB:
                with self.subTest(f"{model}: {example}"):
                    words = example.format(plan=plan, text=text, runs=runs, made="{made}").split()
                    self.assert_fits(model, "am-run", *words)
