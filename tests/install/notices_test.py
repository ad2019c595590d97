"""THIRD_PARTY_NOTICES.md lists the libraries that the build uses, and has their licences."""

import os
import pathlib
import re
import runpy
import unittest

SOURCE = pathlib.Path(os.environ["AM_SOURCE_DIR"])


def table(heading):
    """Returns the rows of the table below the heading: lists of the columns' texts."""
    text = (SOURCE / "THIRD_PARTY_NOTICES.md").read_text(encoding="utf-8")
    section = text.split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    rows = [re.split(r"\s*\|\s*", line.strip("| ")) for line in section.splitlines() if line.startswith("|")]
    return [[column.strip("`") for column in row] for row in rows[2:]]


def used_by_the_build():
    """Returns the names of the dependencies in AmDependencies.cmake."""
    text = (SOURCE / "scripts/cmake/AmDependencies.cmake").read_text(encoding="utf-8")
    names = set(re.findall(r"^am_header_library\((\w+)", text, re.MULTILINE))
    for packages in re.findall(r"pkg_check_modules\(\w+ IMPORTED_TARGET ([^)]*)\)", text):
        names.update(packages.split())
    return names


class Notices(unittest.TestCase):
    def test_each_dependency_of_the_build_has_a_row(self):
        listed = {row[1] for row in table("Contained")} | {row[1] for row in table("Loaded")}
        self.assertEqual(used_by_the_build() - listed, set())
        outside = {"libtorch", "gloo", "OpenMP", "AmCuda", "libstdc++", "glibc", "zig"}  # found by other files of the build
        self.assertEqual(listed - used_by_the_build(), outside)

    def test_the_wheel_links_what_is_listed(self):
        wheel = runpy.run_path(str(SOURCE / "scripts/wheel"))
        static = {row[1] for row in table("Contained") if row[2] == "static"}
        headers = {row[1] for row in table("Contained") if row[2] == "headers"}
        self.assertEqual(static, set(wheel["STATIC"]) | {"libstdc++", "glibc", "zig"})
        self.assertEqual(headers, set(wheel["HEADERS"]))

    def test_the_wheel_of_training_brings_what_is_listed(self):
        wheel = runpy.run_path(str(SOURCE / "scripts/wheel"))
        rows = table("Contained in the wheel of training")
        by_kind = {kind: {row[1] for row in rows if row[2] == kind} for kind in ("headers", "shared", "static")}
        self.assertEqual(by_kind["shared"], set(wheel["BUNDLED"]))
        self.assertEqual(by_kind["headers"], set(wheel["HEADERS"]) | {"gloo"})
        self.assertEqual(by_kind["static"], {"glibc", "zig"})
        first = {row[1]: row[3] for row in table("Contained")}
        self.assertEqual([row for row in rows if first.get(row[1], row[3]) != row[3]], [])

    def test_each_licence_has_its_text(self):
        text = (SOURCE / "THIRD_PARTY_NOTICES.md").read_text(encoding="utf-8")
        copyrights = text.split("## Copyright notices\n", 1)[1].split("\n## ", 1)[0]
        for software, _, _, licence in table("Contained"):
            self.assertIn(f"- {software}: Copyright (c) ", copyrights)
            for part in licence.split(" AND "):
                section = text.split(f"\n## {part}\n", 1)
                self.assertEqual(len(section), 2, f"{part} of {software}")
                self.assertIn("```text\n", section[1].split("\n## ", 1)[0])


if __name__ == "__main__":
    unittest.main()
