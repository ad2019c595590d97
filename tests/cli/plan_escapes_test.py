"""Text from files, paths and names must not move a terminal's cursor, change its colours or reorder
its lines."""

import json
import os
import subprocess
import unittest

from cli_support import BIN, ENVIRONMENT, MODELS, SANITIZED, SOURCE, PlanCase
from escape_support import CONTROL, EVIL, EVIL_BYTES, OURS, on_terminal


class EscapesTest(PlanCase):
    def model(self, **changes):
        config = {**json.loads((MODELS / "llama-3.2-1b" / "config.json").read_text()), **changes}
        folder = self.folder / "model"
        folder.mkdir(exist_ok=True)
        (folder / "config.json").write_text(json.dumps(config))
        return folder

    def evil_plan(self, text, model=None, name=b"plan.toml"):
        path = os.path.join(os.fsencode(self.folder), name)
        with open(path, "wb") as file:
            model = model or MODELS / "llama-3.2-1b"
            file.write(f"[model]\npath = {json.dumps(str(model))}\n{text}".encode())
        return path

    def assert_clean(self, *arguments):
        words = [os.fsencode(BIN / "am-plan"), *(os.fsencode(word) for word in arguments)]
        done = subprocess.run(words, cwd=self.folder, env=ENVIRONMENT, stdin=subprocess.DEVNULL,
                              capture_output=True, timeout=60)
        shown = on_terminal(words, self.folder)
        for where, out in (("stdout", done.stdout), ("stderr", done.stderr), ("terminal", shown)):
            text = out.decode()  # must be valid UTF-8
            if where == "terminal":
                text = OURS.sub("", text)
            found = CONTROL.search(text)
            if found:
                self.fail(f"{words} writes {found.group()!r} to {where}: {text[max(0, found.start() - 200):][:300]!r}")
            longest = max((len(line) for line in text.splitlines()), default=0)
            self.assertLess(longest, 40000, (words, where))
        return done

    def each_command(self, plan, out):
        """Returns one command line for each command that reads a plan."""
        return [["check", plan], ["check", plan, "--json"], ["check", plan, "--plan-only"],
                ["check", plan, "--dialect", "torchtitan"], ["show", plan], ["shards", plan],
                ["shards", plan, "--param", EVIL], ["tp", plan], ["memory", plan], ["cost", plan], ["schedule", plan],
                ["diff", plan, plan], ["memory", plan, "--json"],
                *([] if SANITIZED else [["report", plan, "-o", out, "--force"]]),  # report searches layouts
                *(["export", plan, "--to", to]
                  for to in ("torchtitan", "megatron", "nemo-automodel", "accelerate", "deepspeed"))]

    def test_names_in_a_config(self):
        for changes in ({"model_type": EVIL}, {"model_type": EVIL, "hidden_act": EVIL}, {"hidden_act": EVIL},
                        {"torch_dtype": EVIL}, {"architectures": [EVIL]}, {EVIL: 1},
                        {"rope_scaling": {"rope_type": EVIL}}, {"hidden_size": EVIL}):
            model = self.model(**changes)
            plan = self.evil_plan("[mesh]\nworld_size = 4\n", model)
            for command in [["model", model], *self.each_command(plan, "page.html")]:
                with self.subTest((str(changes), command[0])):
                    self.assert_clean(*command)

    def test_values_of_a_plan(self):
        evil = json.dumps(EVIL)
        mesh = "[mesh]\nworld_size = 4\n"
        for text in (f"[strategy]\nname = {evil}\n", f"[strategy]\ntp_plan = {evil}\n", f"[{evil}]\nkey = 1\n",
                     f"[strategy]\n{evil} = 1\n", f"[strategy]\nignored_params = [{evil}]\n",
                     f"[strategy]\ntp_plan = {{ {evil} = {evil} }}\n", f"[data]\nkind = \"text\"\npath = {evil}\n",
                     f"[data]\nkind = {evil}\n", f"[cluster]\ngpu = {evil}\n", f"[cluster]\nimplementation = {evil}\n",
                     f"[cluster]\ncalibration = {evil}\n", f"[checkpoint]\ndir = {evil}\n",
                     f"[checkpoint]\nresume = {evil}\n", f"[optimizer]\nno_decay = [{evil}]\n",
                     f"[lora]\nrank = 2\ntarget_modules = [{evil}]\n", f"[pipeline]\nschedule = {evil}\n"):
            plan = self.evil_plan(mesh + text)
            for command in self.each_command(plan, "page.html"):
                with self.subTest((text, command[0])):
                    self.assert_clean(*command)
        # The file contains raw control characters, which TOML does not allow.
        plan = self.evil_plan(mesh + f"[strategy]\nname = \"{EVIL}\"\n")
        self.assert_clean("check", plan)
        for command in (["check", plan, "--set", f"strategy.name={evil}"], ["check", plan, "--set", EVIL]):
            self.assert_clean(*command)

    def test_names_of_files(self):
        plan = self.evil_plan("[mesh]\nworld_size = 4\n", name=EVIL_BYTES.replace(b"/", b""))
        out = os.path.join(os.fsencode(self.folder), b"out" + EVIL_BYTES)
        for command in self.each_command(plan, out):
            with self.subTest(command[0]):
                self.assert_clean(*command)
        for command in (["check", b"none" + EVIL_BYTES], ["model", b"none" + EVIL_BYTES], ["explain", EVIL],
                        [EVIL], ["check", "--" + EVIL], ["schedule", plan, "--from-csv", b"none" + EVIL_BYTES],
                        ["search", "--model", EVIL_BYTES, "--gpus", "2"],
                        ["search", "--model", MODELS / "quickstart", "--gpus", "2", "--gpu", EVIL_BYTES],
                        ["man", EVIL], ["completions", EVIL]):
            with self.subTest(command):
                self.assert_clean(*command)

    def test_foreign_files(self):
        evil = json.dumps(EVIL)
        files = {"torchtitan": f"[training]\nseq_len = 64\n[model]\nname = {evil}\n[parallelism]\n{evil} = 1\n",
                 "deepspeed": json.dumps({"zero_optimization": {"stage": 3, EVIL: 1}, EVIL: EVIL}),
                 "accelerate": f"distributed_type: FSDP\nfsdp_config: {{ {evil}: {evil} }}\n{evil}: 1\n",
                 "nemo-automodel": f"model: {{ pretrained_model_name_or_path: {evil} }}\n"
                                   f"distributed: {{ strategy: {evil} }}\n",
                 "megatron": f"torchrun pretrain_gpt.py --num-layers 2 --{EVIL[3:]} '{EVIL}'\n"}
        for framework, text in files.items():
            file = self.write("foreign", text)
            for more in ([], ["--force"], ["--json"]):
                with self.subTest((framework, more)):
                    self.assert_clean("import", file, "--from", framework, *more)

    def test_a_cluster_of_ones_own(self):
        cluster = self.write("mine.toml", f"name = {json.dumps(EVIL)}\narchitecture = {json.dumps(EVIL)}\n"
                                          f"{json.dumps(EVIL)} = 1\n")
        plan = self.evil_plan(f"[mesh]\nworld_size = 4\n[cluster]\ngpu = {json.dumps(str(cluster))}\n")
        for command in self.each_command(plan, "page.html"):
            with self.subTest(command[0]):
                self.assert_clean(*command)

    def test_a_page_and_a_picture_have_no_markup_of_a_file(self):
        model = self.model(model_type="<script>alert(1)</script>" + EVIL)
        cluster = self.folder / "x<script>alert(1).toml"
        cluster.write_text((SOURCE / "plans/clusters/h100-sxm.toml").read_text())
        plan = self.evil_plan("[mesh]\nworld_size = 4\npp_size = 2\n"
                              f"[cluster]\ngpu = {json.dumps(str(cluster))}\n", model)
        self.assert_clean("report", plan, "-o", "page.html")
        self.assert_clean("schedule", plan, "--svg", "line.svg", "--trace", "trace.json")
        for name in ("page.html", "line.svg", "trace.json"):
            text = (self.folder / name).read_text()
            self.assertIsNone(CONTROL.search(text), name)
            self.assertNotIn("<script>alert", text)

    def test_a_name_of_ten_megabytes_is_shortened_at_once(self):
        model = self.model(model_type="m" * 10_000_000)
        plan = self.evil_plan("[mesh]\nworld_size = 4\n", model)
        for command in (["model", model], ["check", plan], ["show", plan]):
            done = subprocess.run([BIN / "am-plan", *command], capture_output=True, timeout=60, env=ENVIRONMENT)
            self.assertLess(len(done.stdout) + len(done.stderr), 20000, command)

    def test_a_path_that_is_not_utf8_comes_out_of_json_whole(self):
        plan = self.evil_plan("[mesh]\nworld_size = 4\n", name=b"caf\xe9-\xff\xc3\xa9.toml")
        done = subprocess.run([os.fsencode(BIN / "am-plan"), b"check", plan, b"--json"], capture_output=True,
                              env=ENVIRONMENT)
        done.stdout.decode()  # valid UTF-8, for any path
        answer = json.loads(done.stdout)
        self.assertEqual(os.fsencode(answer["plans"][0]["file"]), plan)


if __name__ == "__main__":
    unittest.main()
