"""am-plan never overwrites an existing file, and never leaves a partial one."""

import os
import unittest

from cli_support import MODELS, PlanCase

PIPE = "[mesh]\nworld_size = 4\npp_size = 2\n[pipeline]\nmicrobatches = 4\n[train]\nglobal_batch_size = 8\n"
KEPT = "# mine\n"


class OutputsTest(PlanCase):
    def setUp(self):
        super().setUp()
        self.good = self.plan(PIPE)
        self.titan = self.folder / "titan.toml"
        self.am_plan("export", self.good, "--to", "torchtitan", "-o", self.titan)

    def commands(self, file):
        """Returns one command line for each option that writes a file."""
        search = ["search", "--model", MODELS / "quickstart", "--gpus", 2, "--top", 1]
        return [["schedule", self.good, option, file] for option in ("--svg", "--trace", "--csv")] + [
            ["report", self.good, "-o", file],
            ["export", self.good, "--to", "torchtitan", "-o", file],
            [*search, "--write", file],
            ["import", self.titan, "--from", "torchtitan", "--model", MODELS / "llama-3.1-8b", "-o", file],
        ]

    def test_a_file_that_is_there_is_refused_and_kept(self):
        taken = self.write("mine.toml", KEPT)
        for command in self.commands(taken):
            with self.subTest(command[0]):
                result = self.am_plan(*command, status=2)
                self.assertIn("mine.toml exists already", result.err)
                self.assertIn("--force overwrites it", result.err)
                self.assertEqual(result.out, "")
                self.assertEqual(taken.read_text(), KEPT)
                self.assertEqual(self.json(*command, status=2)["ok"], False)

    def test_force_writes_over_it(self):
        for command in self.commands(self.folder / "mine.toml"):
            with self.subTest(command[0]):
                taken = self.write("mine.toml", KEPT)
                self.am_plan(*command, "--force")
                self.assertNotEqual(taken.read_text(), KEPT)

    def test_the_reports_own_name_is_kept_too(self):
        self.am_plan("report", self.good, cwd=self.folder)
        page = (self.folder / "plan.html").read_text()
        self.assertIn("exists already",
                      self.am_plan("report", self.good, cwd=self.folder, status=2).err)
        self.assertEqual((self.folder / "plan.html").read_text(), page)

    def test_a_folder_of_pages_is_kept(self):
        pages = self.folder / "man"
        pages.mkdir()
        self.am_plan("man", "-o", pages)
        self.assertIn("exists already", self.am_plan("man", "-o", pages, status=2).err)
        self.am_plan("man", "-o", pages, "--force")

    def test_two_options_do_not_write_one_file(self):
        both = self.folder / "both"
        result = self.am_plan("schedule", self.good, "--svg", both, "--csv", both, status=2)
        self.assertIn("both write", result.err)
        self.assertFalse(both.exists())

    def test_a_link_to_a_file_is_that_file(self):
        taken = self.write("mine.toml", KEPT)
        os.symlink(taken, self.folder / "link")
        self.am_plan("report", self.good, "-o", self.folder / "link", status=2)
        self.assertEqual(taken.read_text(), KEPT)

    def test_what_loses_nothing_is_written_to(self):
        self.am_plan("export", self.good, "--to", "torchtitan", "-o", "/dev/null")

    def test_nothing_is_left_of_a_file_that_cannot_be_finished(self):
        self.am_plan("report", self.good, "-o", self.folder / "no" / "page.html", status=2)
        self.assertEqual(sorted(each.name for each in self.folder.iterdir()),
                         ["plan.toml", "titan.toml"])


if __name__ == "__main__":
    unittest.main()
