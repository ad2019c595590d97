"""Checks the tables of lib/docs/distributed.md, in which each row compares a Python call with a
C++ declaration. The declaration must be in the header that the table's heading names. The
declaration, or the row's last cell, must name each argument of the Python call. Each public
declaration of the headers in WHOLE must have a row."""

import ast
import re
import unittest
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "lib" / "docs" / "distributed.md"
# Headers whose public declarations must all be in the tables.
WHOLE = sorted(path.relative_to(ROOT / "lib").as_posix() for path in (ROOT / "lib/am/compat").glob("*.h"))
WHOLE += ["am/parallel/strategy.h", "am/parallel/sync_ctx.h", "am/parallel/unshard.h",
          "am/config/strategy_config.h"]
# Names that this page's tables need not contain, because other tables or the description of plans
# cover them.
ELSEWHERE = {"TpPlanSetting", "ActivationCheckpointing", "ShardPlacement"}


def tables(page):
    """Returns (words in backticks in the heading, rows of cells) of each table whose first two
    columns are "Python" and "here"."""
    found = []
    for part in re.split(r"^## ", page, flags=re.MULTILINE)[1:]:
        heading, _, text = part.partition("\n")
        rows = [re.split(r"(?<!\\) \| ", line.strip()[2:-2]) for line in text.splitlines()
                if line.startswith("|") and not line.startswith(("|---", "| Python |"))]
        if "| Python | here |" in text:
            found.append((re.findall(r"`([^`]+)`", heading),
                          [[cell.strip().replace("\\|", "|") for cell in row] for row in rows]))
    return found


def plain(text):
    """Returns the text without comments, line ends and insignificant spaces."""
    text = re.sub(r"//[^\n]*", "", text)
    text = re.sub(r"\s+", " ", text)
    return re.sub(r"\s*([(),;<>{}&*=])\s*", r"\1", text).strip()


def header(name):
    text = (ROOT / "lib" / name).read_text()
    text = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    return re.sub(r"namespace detail \{.*?\}  // namespace detail", "", text, flags=re.DOTALL)


def body_of(struct, text):
    match = re.search(rf"^struct {struct} \{{\n(.*?)^\}};", text, re.DOTALL | re.MULTILINE)
    return match.group(1) if match else None


def fields(body):
    return [plain(line).rstrip(";") for line in re.sub(r"//[^\n]*", "", body).split("\n") if ";" in line]


def declarations(text):
    """Returns the names that a header declares outside classes and function bodies."""
    text = re.sub(r"//[^\n]*|\"[^\"]*\"", "", text)
    names, depth, statement = [], 0, ""
    text = re.sub(r"namespace [\w:]+ \{", "", text).replace("friend ", "")
    for letter in text:
        if letter == "{":
            depth += 1
        elif letter == "}":
            depth -= 1
        elif depth == 0:
            statement += letter
        if depth == 0 and letter in ";}":
            names.append(statement)
            statement = ""
    found = set()
    for each in names:
        each = re.sub(r"\[\[\w+\]\]", "", each)
        kind = re.search(r"\b(?:struct|class|enum class) (\w+)", each)
        alias = re.search(r"\busing (\w+)", each)
        function = re.search(r"(?<![:\w])(\w+)\s*\(", each)
        match = alias or (kind if not function else function) or kind
        if match and "::" + match.group(1) + "(" not in plain(each):
            found.add(match.group(1))
    return found


def arguments(python):
    """Returns the argument names of a Python signature, or the name of a field. Returns [] for
    anything else."""
    if re.fullmatch(r"\w+: .*|\w+ = .*", python):
        return [python.split(":")[0].split(" =")[0]]
    call = re.fullmatch(r"@?[\w.]+\((.*)\)", python)
    if not call or re.search(r"\), \w+\.", python):  # several calls in one cell
        return []
    given = ast.parse(f"def f({call.group(1)}): pass").body[0].args
    every = given.posonlyargs + given.args + given.kwonlyargs
    return [each.arg for each in every] + ([given.kwarg.arg] if given.kwarg else [])


class Tables(unittest.TestCase):
    def setUp(self):
        self.tables = tables(PAGE.read_text())
        self.assertGreaterEqual(len(self.tables), 10)

    def test_every_declaration_that_is_named_exists(self):
        for words, rows in self.tables:
            headers = [header(word) for word in words if word.endswith(".h")]
            self.assertTrue(headers, words)
            body = body_of(words[0], headers[0])
            for row in rows:
                with self.subTest(table=words, row=row[0] or row[1]):
                    self.assertEqual(len(row), 3, row)
                    if row[1].startswith("none"):
                        self.assertTrue(row[2], "why there is none")
                        continue
                    declared = plain(row[1].strip("`"))
                    if body:
                        self.assertIn(declared, fields(body))
                    else:
                        self.assertTrue(any(re.search(rf"(^|[;{{}} :>]){re.escape(declared)}([;{{:]|$)", plain(text))
                                            for text in headers), declared)

    def test_every_argument_is_there_or_is_named(self):
        for words, rows in self.tables:
            for python, here, differs in rows:
                if here.startswith("none"):
                    continue
                for argument in arguments(python.strip("`")):
                    with self.subTest(table=words, row=python):
                        self.assertTrue(re.search(rf"\b{argument}\b", here) or f"`{argument}`" in differs,
                                        f"{argument} is neither an argument here nor named")

    def test_no_public_declaration_is_without_a_row(self):
        page = PAGE.read_text()
        for name in WHOLE:
            text = header(name)
            structs = dict(re.findall(r"^struct (\w+) \{\n(.*?)^\};", text, re.DOTALL | re.MULTILINE))
            for each in declarations(text) - ELSEWHERE:
                with self.subTest(header=name):
                    self.assertTrue(re.search(rf"\b{each}\b", page), f"{each} of {name} has no row")
            for words, rows in self.tables:
                if name not in words or words[0] not in structs:
                    continue
                named = {plain(row[1].strip("`")) for row in rows}
                for field in fields(structs[words[0]]):
                    with self.subTest(header=name, struct=words[0]):
                        self.assertIn(field, named, "a field without a row")

    def test_a_row_that_is_wrong_is_seen(self):
        text = "void f(int a, int b = 0);\nstruct S {\n  bool on = true;  // why\n};\n"
        self.assertEqual(declarations(text), {"f", "S"})
        self.assertEqual(fields(body_of("S", text)), ["bool on=true"])
        self.assertEqual(arguments("f(a, *, b=0, **more)"), ["a", "b", "more"])
        self.assertEqual(arguments("on: bool = True"), ["on"])
        page = "## T: `x.h`\n\n| Python | here | what |\n|---|---|---|\n| `f(a: int \\| None)` | `g` |  |\n"
        self.assertEqual(tables(page), [(["x.h"], [["`f(a: int | None)`", "`g`", ""]])])


if __name__ == "__main__":
    unittest.main()
