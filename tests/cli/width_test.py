"""Answers fit the window: no line of a command is wider than COLUMNS, at 80, 100 and 120 columns."""

import json
import unicodedata

from cli_support import SOURCE, run_tool
from run_support import DATA, RunTest

MODELS = ("llama", "mixtral", "deepseek_v3")
COLUMNS = (80, 100, 120)


def display_width(line):
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in line)


def names_of(target):
    result = run_tool("am-repl", target, "--json", "-c", "ls")
    return [row["name"] for row in json.loads(result.out)["results"][0]["parameters"]]


class WidthTest(RunTest):
    def assert_fits(self, tool, *arguments):
        for columns in COLUMNS:
            env = {"COLUMNS": str(columns), "OMP_NUM_THREADS": "1"}
            result = run_tool(tool, *arguments, cwd=self.path, env=env, timeout=120)
            self.assertIn(result.status, (0, 1), result)
            for line in (result.out + result.err).splitlines():
                if display_width(line) > columns:
                    self.fail(f"{tool} {arguments[0]}: {display_width(line)} > {columns}: {line}")

    def test_commands_of_am_repl(self):
        self.assertIn("deepseek_v3", {path.name for path in (DATA / "hf").iterdir()})
        for model in MODELS:
            target = DATA / "hf" / model
            name = next(name for name in names_of(target) if "layers.1" in name and "proj" in name)
            commands = ["info", "mesh", "ls", "tree", f"show {name}", f"where {name}", "memory", "verify", "fits",
                        "stats", "norms", "norms --by layer", f"hist {name}", "plot", "plot --by layer",
                        f"heat {name}", f"print {name}[0:4]", f"print {name}", f"top {name}", "nan", "dead",
                        "checksum", f"diff {target}", f"drift {target}", "tokens some words",
                        "stats | sort norm | head 4", "help", "help stats", "help print"]
            with self.subTest(model):  # one session runs all commands, because each start loads libtorch
                self.assert_fits("am-repl", target, "--keep-going", "-c", "; ".join(commands))

    def test_a_pipe_has_full_names(self):
        target = DATA / "hf" / "deepseek_v3"
        text = run_tool("am-repl", target, "-c", "stats").out
        for name in names_of(target):
            self.assertIn(name, text)
        csv = run_tool("am-repl", target, "-c", "mode csv; stats", env={"COLUMNS": "80"}).out
        for name in names_of(target):
            self.assertIn(name, csv)

    def test_commands_of_am_plan(self):
        for model in ("llama-3.1-8b", "mixtral-8x7b-v0.1", "deepseek-v3"):
            folder = SOURCE / "plans" / "models" / model
            experts = "ep_size = 8\n" if model != "llama-3.1-8b" else ""
            (self.path / "plan.toml").write_text(
                f'[model]\npath = "{folder}"\n[mesh]\nworld_size = 64\ntp_size = 1\n{experts}'
                '[strategy]\nname = "fsdp2"\n[cluster]\ngpu = "h100-sxm"\n[train]\nseq_len = 4096\n')
            for command in (["check", "plan.toml"], ["memory", "plan.toml"], ["cost", "plan.toml"],
                            ["show", "plan.toml"], ["shards", "plan.toml"], ["diff", "plan.toml", "plan.toml"],
                            ["explain", "mesh.product"], ["model", folder],
                            ["search", "--model", folder, "--gpus", "64", "--top", "3"]):
                with self.subTest(f"{model}: {command[0]}"):
                    self.assert_fits("am-plan", *command)
