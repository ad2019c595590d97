"""Commands that need no values of tensors: am-repl answers them without libtorch. The answers
equal, byte by byte, those of am-repl-values, the program with libtorch."""

import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

BIN = Path(os.environ["AM_BIN_DIR"])
DATA = Path(os.environ["AM_SOURCE_DIR"]) / "tests" / "data"
VALUES = BIN.parent / "libexec" / "automesh" / "am-repl-values"

ANSWERED = (
    "info", "mesh", "ls", "ls norm.weight", "tree", "show norm.weight", "show *norm*", "where *norm*", "memory", "verify",
    "let w = *norm*", "let", "ls w", "ls | sort bytes | head 2", "ls | grep norm | select name dtype | count", "fits {folder}",
    "help", "help ls", "? stats", "mode json", "ls | tail 1", "mode csv", "where *norm*", "", "quit",
)
REFUSED = ("ls nothing", "ls --optimizer", "show nothing", "ls --values", "ls | sort nothing", "show", "fits nowhere", "ls --bytes", "mode xml",
           "ls | stats", "frobnicate", "show 'open", "help nothing")
# Commands for which am-repl starts am-repl-values. Their output must not depend on the program that
# was called.
HANDED_ON = ("ls; stats nothing", "source nothing", "step", "status")


class SameAnswers(unittest.TestCase):
    def run_both(self, *arguments, **more):
        environment = {**os.environ, "NO_COLOR": "1", "OMP_NUM_THREADS": "1"}
        return [subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, env=environment,
                               timeout=60, stdin=subprocess.DEVNULL, **more) for program in (BIN / "am-repl", VALUES)]

    def check(self, *arguments, **more):
        own, whole = self.run_both(*arguments, **more)
        with self.subTest(arguments=arguments):
            self.assertEqual((own.returncode, own.stdout, own.stderr), (whole.returncode, whole.stdout, whole.stderr))
        return own

    def test_on_every_kind_of_folder(self):
        folders = [DATA / "hf/llama", DATA / "hf/llama-sharded", DATA / "hf/llama/model.safetensors"]
        folders += sorted(path.parent for path in (DATA / "dcp").rglob(".metadata"))
        self.assertGreater(len(folders), 3)
        for folder in folders:
            script = "; ".join(("info", "mesh", "ls", "ls --values", "tree", "memory", "verify"))
            self.check(folder, "-c", f"{script}; show *; where *", "--json")

    def test_every_command(self):
        folder = DATA / "hf/llama-sharded"
        for more in (["--color=always"], ["--json"]):
            done = self.check(folder, "-c", "; ".join(ANSWERED).format(folder=folder), *more)
            self.assertEqual(done.returncode, 0, done.stderr)
        for command in (*REFUSED, *HANDED_ON):
            self.check(folder, "-c", command)

    def test_scripts_and_reports(self):
        with tempfile.TemporaryDirectory(prefix="am-repl-test-") as name:
            path = Path(name)
            (path / "checks.am").write_text("# what there is\nls | head 1\nshow nothing\n")
            self.check(DATA / "hf/llama", "-f", path / "checks.am")
            self.check(DATA / "hf/llama", "-f", path / "nowhere.am")
            self.check(DATA / "hf/llama", "-c", "ls", "--set", "model.dtype=bfloat16")
            self.check(DATA / "hf/llama", "-c", "ls", "--nproc", "2")
            self.check(path, "-c", "ls")
            pages = []
            for program in (BIN / "am-repl", VALUES):
                subprocess.run([program, DATA / "hf/llama", "-c", "ls; report page.html"], cwd=path, check=True,
                               capture_output=True, timeout=60)
                pages.append((path / "page.html").read_text())
                (path / "page.html").unlink()
            self.assertEqual(*pages)

    def test_names_alone_need_no_libtorch(self):
        """Runs am-repl in a folder from which am-repl cannot find and start am-repl-values."""
        with tempfile.TemporaryDirectory(prefix="am-repl-test-") as name:
            alone = shutil.copy(BIN / "am-repl", name)
            folder = DATA / "hf/llama-sharded"
            for command in (*ANSWERED, *REFUSED):
                done = subprocess.run([alone, folder, "-c", command.format(folder=folder)], capture_output=True, text=True, timeout=60)
                self.assertNotIn("am-repl-values", done.stderr, command)
            for option in ("--man", "--schema"):
                own, whole = (subprocess.run([program, option], capture_output=True, text=True, timeout=60) for program in (alone, VALUES))
                self.assertEqual((own.returncode, own.stdout, own.stderr), (0, whole.stdout, ""))
            done = subprocess.run([alone, folder, "-c", "stats"], capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 1)
            self.assertIn("am-repl-values", done.stderr)


if __name__ == "__main__":
    unittest.main()
