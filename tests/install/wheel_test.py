"""Tests the wheel of the tools (scripts/wheel) in fresh environments and in a root file system of Debian 11.

Two wheels are made: one in this checkout, and one in a copy of the sources. The tests are skipped, with the reason, if
PyPI cannot be reached.
"""

import base64
import csv
import hashlib
import io
import json
import lzma
import os
import pathlib
import re
import runpy
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.request
import zipfile

from pypi import environment_with

SOURCE = pathlib.Path(os.environ["AM_SOURCE_DIR"])
WORK = pathlib.Path(os.environ["AM_WHEEL_TEST_DIR"])
ZIG = runpy.run_path(str(SOURCE / "scripts" / "wheel"))["ZIG"]
AUDITWHEEL = "auditwheel==6.8.2"
LARGEST = 7.5e6
TOOLS = ("am-plan", "am-run", "am-repl")
DEBIAN = "bullseye"


def run(*command, **more):
    """Runs a command and returns the command's output. If the command fails, the test fails and shows the output."""
    ended = subprocess.run([str(word) for word in command], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **more)
    if ended.returncode != 0:
        raise AssertionError(f"{command}: exit status {ended.returncode}\n{ended.stdout}")
    return ended.stdout


def tools_from_pypi():
    """Returns the interpreter of an environment with Zig and auditwheel."""
    return environment_with(WORK / "tools", f"{ZIG} {AUDITWHEEL}")


def source_files():
    """Returns the names of the checkout's files, including new ones, but without those that git ignores. Without git,
    for example in an unpacked archive, returns the files outside of hidden folders, build folders and runs."""
    listed = subprocess.run(["git", "-C", SOURCE, "ls-files", "-z", "--cached", "--others", "--exclude-standard"], text=True,
                            capture_output=True)
    if listed.returncode == 0:
        return list(filter(None, listed.stdout.split("\0")))
    tops = [top for top in SOURCE.iterdir() if not top.name.startswith((".", "build", "runs"))]
    return [str(file.relative_to(SOURCE)) for top in tops for file in ([top] if top.is_file() else top.rglob("*"))]


def copy_sources(folder):
    """Copies the checkout to `folder`, without tests/ and lib/docs/."""
    shutil.rmtree(folder, ignore_errors=True)
    for name in source_files():
        if not (SOURCE / name).is_file() or (SOURCE / name).is_symlink() or name.startswith(("tests/", "lib/docs/")):
            continue
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(SOURCE / name, target)


def interpreters():
    """Returns this machine's Python interpreters from 3.10 on that can create environments, by version."""
    found = {}
    places = [pathlib.Path(folder) for folder in os.environ.get("PATH", "").split(":")]
    places += pathlib.Path(os.environ.get("PYENV_ROOT", pathlib.Path.home() / ".pyenv")).glob("versions/*/bin")
    for place in places:
        for python in sorted(place.glob("python3.[0-9]*")):
            name = re.fullmatch(r"python3\.(\d+)", python.name)
            if not name or int(name[1]) < 10 or name[1] in found or "shims" in python.parts:
                continue
            asked = subprocess.run([python, "-c", "import venv, ensurepip"], capture_output=True)
            if asked.returncode == 0:
                found[name[1]] = python
    return {f"3.{minor}": python for minor, python in sorted(found.items())}


def setUpModule():
    global TOOLS_PYTHON, WHEEL, COPY
    WORK.mkdir(parents=True, exist_ok=True)
    TOOLS_PYTHON = tools_from_pypi()
    environment = dict(os.environ, SOURCE_DATE_EPOCH="1790000000")
    copy_sources(WORK / "copy")
    for source in (SOURCE, WORK / "copy"):
        run(sys.executable, source / "scripts" / "wheel", "--zig", TOOLS_PYTHON, "--out", source / "build-wheel" / "test",
            env=environment)
    WHEEL, = (SOURCE / "build-wheel" / "test").glob("*.whl")
    COPY, = (WORK / "copy" / "build-wheel" / "test").glob("*.whl")


class Wheel(unittest.TestCase):
    def test_its_platform_and_size(self):
        shown = run(TOOLS_PYTHON, "-m", "auditwheel", "show", WHEEL)
        self.assertRegex(" ".join(shown.split()), r'consistent with the following platform tag: "manylinux_2_28_x86_64"')
        self.assertRegex(WHEEL.name, r"^automesh_tools-[\d.]+-py3-none-manylinux_2_28_x86_64\.whl$")
        print(f"{WHEEL.name}: {WHEEL.stat().st_size / 1e6:.2f} MB")
        self.assertLessEqual(WHEEL.stat().st_size, LARGEST)

    def test_two_builds_in_two_folders_are_equal(self):
        with zipfile.ZipFile(WHEEL) as one, zipfile.ZipFile(COPY) as other:
            self.assertEqual([entry.filename for entry in one.infolist()], [entry.filename for entry in other.infolist()])
            differ = [name for name in one.namelist() if one.read(name) != other.read(name)]
            self.assertEqual(differ, [])
        self.assertTrue(WHEEL.read_bytes() == COPY.read_bytes())

    def test_its_metadata(self):
        with zipfile.ZipFile(WHEEL) as archive:
            names = archive.namelist()
            info = names[-1].split("/")[0]
            self.assertEqual(names[-1], f"{info}/RECORD")
            for name, digest, size in csv.reader(io.StringIO(archive.read(names[-1]).decode())):
                if name == names[-1]:
                    continue
                content = archive.read(name)
                hashed = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
                self.assertEqual((digest, int(size)), (f"sha256={hashed}", len(content)), name)
            for entry in archive.infolist():
                program = entry.filename.split("/")[-2] == "scripts"
                self.assertEqual(entry.external_attr >> 16, 0o100755 if program else 0o100644, entry.filename)
            self.assertIn("Root-Is-Purelib: false\nTag: py3-none-manylinux_2_28_x86_64\n", archive.read(f"{info}/WHEEL").decode())
            said = archive.read(f"{info}/METADATA").decode()
            self.assertIn("\nName: automesh-tools\n", said)
            self.assertIn("\nLicense-Expression: Apache-2.0 AND ", said)
            for name in re.findall(r"^License-File: (.*)$", said, re.MULTILINE):
                self.assertEqual(archive.read(f"{info}/licenses/{name}"), (SOURCE / name).read_bytes())
            bill = json.loads(archive.read(f"{info}/sboms/automesh_tools.cdx.json"))
            self.assertEqual((bill["bomFormat"], bill["specVersion"]), ("CycloneDX", "1.6"))
            for component in bill["components"]:
                self.assertRegex(component["version"], r"^\d+(\.\d+)+", component["name"])
                self.assertTrue(component["licenses"], component["name"])
            for place in (SOURCE, COPY.parents[2]):
                inside = [name for name in names if str(place).encode() in archive.read(name)]
                self.assertEqual(inside, [], "files with a path of this machine")


class Installed(unittest.TestCase):
    """Tests the wheel in fresh environments of the Pythons that this machine has."""

    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="am-wheel-"))
        cls.environments = {}
        for version, python in interpreters().items():
            environment = cls.folder / version
            run(python, "-m", "venv", environment)
            run(environment / "bin" / "python", "-m", "pip", "install", "--quiet", "--no-index",
                "--disable-pip-version-check", WHEEL)
            cls.environments[version] = environment
        if not cls.environments:
            raise unittest.SkipTest("no Python from 3.10 on with venv was found")
        print(f"installed for Python {', '.join(cls.environments)}")

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def work_in(self, environment, name, root=None):
        """Returns an empty folder beside the environment and a function that runs a tool there."""
        folder = environment.parent / f"{environment.name}-{name}"
        folder.mkdir()
        variables = {"PATH": f"{environment / 'bin'}:/usr/bin:/bin", "HOME": str(folder), "LC_ALL": "C.UTF-8"}

        def tool(*words, status=0):
            ended = subprocess.run([environment / "bin" / words[0], *words[1:]], cwd=folder, env=variables, text=True,
                                   capture_output=True)
            self.assertEqual(ended.returncode, status, ended.stdout + ended.stderr)
            return ended.stdout + ended.stderr

        return folder, tool

    def test_from_a_models_name_to_a_report(self):
        for version, environment in self.environments.items():
            with self.subTest(python=version):
                folder, tool = self.work_in(environment, "plan")
                for name in TOOLS:
                    self.assertTrue(tool(name, "--version").startswith(f"{name} "))
                tool("am-plan", "search", "--model", "llama-3.1-8b", "--gpus", "8", "--write", "plan.toml")
                plan = (folder / "plan.toml").read_text()
                self.assertNotRegex(plan, r'"/')
                self.assertNotIn(str(folder), plan)
                tool("am-plan", "check", "plan.toml")
                tool("am-plan", "report", "plan.toml")
                self.assertTrue(list(folder.glob("*.html")))

    def test_pages_completions_and_removal(self):
        environment = next(iter(self.environments.values()))
        for name in TOOLS:
            for file in (f"man/man1/{name}.1", f"bash-completion/completions/{name}", f"zsh/site-functions/_{name}",
                         f"fish/vendor_completions.d/{name}.fish"):
                self.assertTrue((environment / "share" / file).stat().st_size > 0)
        _, tool = self.work_in(environment, "names")
        self.assertIn("am-run", tool("am-run", "completions", "bash"))
        self.assertIn("checkpoint", tool("am-repl", "--help"))
        moved = environment.with_name("moved")
        shutil.copytree(environment, moved, symlinks=True)
        _, tool = self.work_in(moved, "there")
        tool("am-plan", "search", "--model", "llama-3.1-8b", "--gpus", "8")
        run(moved / "bin" / "python", "-m", "pip", "--version")
        shutil.rmtree(moved)

    def test_what_needs_libtorch_says_so(self):
        environment = next(iter(self.environments.values()))
        folder, tool = self.work_in(environment, "torch")
        shutil.copy(SOURCE / "plans" / "quickstart.toml", folder)
        shutil.copytree(SOURCE / "plans" / "models" / "quickstart", folder / "models" / "quickstart")
        said = tool("am-run", "quickstart.toml", status=1)
        self.assertIn("am-run-rank is not installed", said)
        self.assertIn("scripts/setup && scripts/build", said)
        self.assertIn("libtorch: not installed", tool("am-run", "--version"))

    def test_a_checkpoint_is_listed(self):
        environment = next(iter(self.environments.values()))
        _, tool = self.work_in(environment, "names-of-tensors")
        checkpoint = SOURCE / "tests" / "data" / "dcp" / "fsdp4"
        self.assertIn("float32", tool("am-repl", checkpoint, "-c", "ls"))
        self.assertIn("am-repl-values is not installed", tool("am-repl", checkpoint, "-c", "stats", status=1))

    def with_packages(self, *packages):
        """Returns the interpreter of the newest Python's environment with packages from PyPI."""
        python = list(self.environments.values())[-1] / "bin" / "python"
        ended = subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages],
                               text=True, capture_output=True)
        if ended.returncode != 0:
            self.skipTest(f"{packages} cannot be installed from PyPI: {ended.stderr.strip().splitlines()[-1]}")
        return python

    def test_the_python_package(self):
        program = "import automesh_tools as am; print(am.search('llama-3.1-8b', gpus=8, top=1)[0].plan['mesh']['tp_size'])"
        for version, environment in self.environments.items():
            with self.subTest(python=version):
                self.assertRegex(run(environment / "bin" / "python", "-c", program), r"^\d+\n$")

    def test_checkpoints_are_read(self):
        python = self.with_packages("numpy")
        said = run(python, SOURCE / "tests" / "install" / "read_checkpoints.py", SOURCE / "tests" / "data")
        print(said.strip())
        self.assertGreater(int(said.split()[0]), 50)

    def test_types_are_complete(self):
        python = self.with_packages("numpy", "mypy", "pytest")
        package = next((python.parents[1] / "lib").glob("python*/site-packages/automesh_tools"))
        # mypy refuses to check a path inside site-packages, so the test checks a copy of the package.
        copy = shutil.copytree(package, self.folder / "types" / "automesh_tools")
        run(python, "-m", "mypy", "--strict", "--cache-dir", self.folder / "mypy", copy)

    def test_pytest_checks_plans(self):
        python = self.with_packages("pytest")
        folder, _ = self.work_in(python.parents[1], "pytest")
        (folder / "plans").mkdir()
        for name, tp in (("good", 2), ("bad", 3)):
            (folder / "plans" / f"{name}.toml").write_text(f'[model]\npath = "llama-3.1-8b"\n[mesh]\nworld_size = 12\ntp_size = {tp}\n')
        (folder / "titan.toml").write_text("[training]\nseq_len = 2048\n[parallelism]\ntensor_parallel_degree = 3\n")

        def pytest(*words):
            return subprocess.run([python, "-m", "pytest", "-p", "no:cacheprovider", *words], cwd=folder, text=True,
                                  capture_output=True).stdout

        said = pytest("--automesh-plans", "plans/*.toml")
        self.assertIn("1 failed, 1 passed", said)
        self.assertIn("bad.toml:5:11: error: tp_size = 3 does not divide", said)
        said = pytest("--automesh-plans", "*.toml", "--automesh-from", "torchtitan", "--automesh-model", "llama-3.1-8b",
                      "--automesh-world-size", "12")
        self.assertIn("titan.toml:4:26: error: tp_size = 3 does not divide n_heads = 32", said)
        self.assertIn("no tests ran", pytest())

    def test_the_time_to_start(self):
        """Prints times. No time is a failure, because other programs may run on this machine."""
        environment = next(iter(self.environments.values()))
        for name in TOOLS:
            times = []
            for _ in range(20):
                begin = time.perf_counter()
                subprocess.run([environment / "bin" / name, "--version"], stdout=subprocess.DEVNULL, check=True)
                times.append(1000 * (time.perf_counter() - begin))
            print(f"{name} --version: {min(times):.1f} ms at best, {statistics.median(times):.1f} ms in the middle of 20")


def mirror_of_debian():
    for file in [pathlib.Path("/etc/apt/sources.list"), *pathlib.Path("/etc/apt/sources.list.d").glob("*")]:
        for address in re.findall(r"^[^#]*(https?://\S+/debian)/?(?:\s|$)", file.read_text() if file.exists() else "", re.MULTILINE):
            return address
    raise unittest.SkipTest("this machine has no mirror of Debian")


def fetch(address):
    try:
        with urllib.request.urlopen(address, timeout=60) as answer:
            return answer.read()
    except (urllib.error.URLError, OSError) as error:
        raise unittest.SkipTest(f"{address} cannot be reached: {error}") from None


class OldDebian(unittest.TestCase):
    """Tests the tools in a root file system of Debian 11 (glibc 2.31) that contains only libc6 and libgcc-s1."""

    @classmethod
    def setUpClass(cls):
        if os.geteuid() != 0 or shutil.which("dpkg-deb") is None:
            raise unittest.SkipTest("chroot needs root, and the packages dpkg-deb")
        cls.root = WORK / DEBIAN
        if not (cls.root / "complete").exists():
            shutil.rmtree(cls.root, ignore_errors=True)
            cls.root.mkdir()
            mirror = mirror_of_debian()
            index = lzma.decompress(fetch(f"{mirror}/dists/{DEBIAN}/main/binary-amd64/Packages.xz")).decode()
            for package in ("libc6", "libgcc-s1"):
                entry = re.search(rf"^Package: {package}\n(?:.+\n)+", index, re.MULTILINE)[0]
                content = fetch(f"{mirror}/{re.search(r'^Filename: (.*)$', entry, re.MULTILINE)[1]}")
                digest = re.search(r"^SHA256: (.*)$", entry, re.MULTILINE)[1]
                if hashlib.sha256(content).hexdigest() != digest:
                    raise AssertionError(f"{package} was damaged on the way")
                (cls.root / "package.deb").write_bytes(content)
                run("dpkg-deb", "-x", cls.root / "package.deb", cls.root)
            (cls.root / "package.deb").unlink()
            (cls.root / "complete").touch()
        shutil.rmtree(cls.root / "venv", ignore_errors=True)
        with zipfile.ZipFile(WHEEL) as archive:
            for entry in archive.infolist():
                place = re.search(r"\.data/(?:data/)?(.*)$", entry.filename)
                if not place:
                    continue
                file = cls.root / "venv" / place[1].replace("scripts/", "bin/", 1)
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(archive.read(entry))
                file.chmod(entry.external_attr >> 16 & 0o777)
        (cls.root / "proc").mkdir(exist_ok=True)

    def tool(self, *words, status=0):
        """Runs a tool in the root file system, with the processes of this machine in /proc."""
        script = 'mount -t proc proc "$0/proc" && exec chroot "$0" "$@"'
        ended = subprocess.run(["unshare", "--mount", "sh", "-c", script, self.root, f"/venv/bin/{words[0]}", *words[1:]],
                               text=True, capture_output=True, env={"LC_ALL": "C"})
        if "unshare:" in ended.stderr or "mount:" in ended.stderr:
            self.skipTest(f"/proc cannot be mounted: {ended.stderr}")
        self.assertEqual(ended.returncode, status, ended.stdout + ended.stderr)
        return ended.stdout + ended.stderr

    def test_the_tools_run(self):
        for name in TOOLS:
            self.assertTrue(self.tool(name, "--version").startswith(f"{name} "))
        self.tool("am-plan", "search", "--model", "llama-3.1-8b", "--gpus", "8", "--write", "/plan.toml", "--force")
        self.assertIn("ok", self.tool("am-plan", "check", "/plan.toml").lower())
        shutil.copytree(SOURCE / "tests" / "data" / "dcp" / "fsdp4", self.root / "fsdp4", dirs_exist_ok=True)
        self.assertIn("float32", self.tool("am-repl", "/fsdp4", "-c", "ls"))

    def test_a_program_is_started(self):
        self.tool("am-run", "--nproc", "2", "--run-dir", "/run-of-two", "--exec", "/venv/bin/am-plan", "--version")


if __name__ == "__main__":
    unittest.main()
