"""scripts/site builds the documentation as a web site that has no broken link and loads nothing from other servers."""

import os
import pathlib
import re
import subprocess
import tempfile
import unittest

from pypi import environment_with

SOURCE = pathlib.Path(os.environ["AM_SOURCE_DIR"])
BIN = pathlib.Path(os.environ["AM_BIN_DIR"])
MKDOCS = "mkdocs-material==9.8.2"


class SiteTest(unittest.TestCase):
    def test_site(self):
        python = environment_with(pathlib.Path(os.environ["AM_WHEEL_TEST_DIR"]) / "site", MKDOCS)
        with tempfile.TemporaryDirectory() as work:
            site = pathlib.Path(work, "site")
            done = subprocess.run([python, SOURCE / "scripts" / "site", site, "--bin", BIN], text=True, capture_output=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            pages = {page.relative_to(site).as_posix(): page.read_text() for page in site.rglob("*.html")}
            self.assertIn("rules/tp.heads/index.html", pages)
            self.assertIn("am-run init", pages["reference/am-run/index.html"])
            self.assertIn("tp_size", pages["reference/plan/index.html"])
            for name, text in pages.items():
                loaded = re.findall(r'<(?:script|img|iframe|source)[^>]*\ssrc="([^"]*)"|<link rel="(?:stylesheet|preload|icon)"'
                                    r'[^>]*href="([^"]*)"', text)
                self.assertEqual([url for pair in loaded for url in pair if re.match(r"(https?:)?//", url)], [], name)


if __name__ == "__main__":
    unittest.main()
