"""Checks the output of am-repl --json against the schema of am-repl --schema."""

import functools
import json
import os
import subprocess
from pathlib import Path

BIN = Path(os.environ["AM_BIN_DIR"])

TYPES = {"string": str, "boolean": bool, "object": dict, "array": list, "null": type(None)}


def is_of_type(value, name):
    if name == "integer":
        return isinstance(value, int) and not isinstance(value, bool)
    if name == "number":
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    return isinstance(value, TYPES[name])


def problems(schema, value, root, place="answer"):
    """Returns the violations of the schema in one list. Only the keywords that am-repl's schema
    uses are implemented."""
    found = []
    for key, rule in schema.items():
        if key == "$ref":
            found += problems(root["$defs"][rule.removeprefix("#/$defs/")], value, root, place)
        elif key == "anyOf":
            tries = [problems(each, value, root, place) for each in rule]
            found += min(tries, key=len)
        elif key == "type":
            names = rule if isinstance(rule, list) else [rule]
            if not any(is_of_type(value, name) for name in names):
                found.append(f"{place}: {json.dumps(value)[:80]} is no {' or '.join(names)}")
        elif key in ("const", "enum"):
            if value not in (rule if key == "enum" else [rule]):
                found.append(f"{place}: {json.dumps(value)[:80]} is not {json.dumps(rule)}")
        elif key == "required":
            if isinstance(value, dict):
                found += [f"{place} has no {name}" for name in rule if name not in value]
        elif key == "items":
            if isinstance(value, list):
                for i, item in enumerate(value):
                    found += problems(rule, item, root, f"{place}[{i}]")
        elif key == "properties":
            if isinstance(value, dict):
                for name in value.keys() & rule.keys():
                    found += problems(rule[name], value[name], root, f"{place}.{name}")
        elif key == "additionalProperties":
            others = value.keys() - schema["properties"].keys() if isinstance(value, dict) else []
            for name in others:
                found += ([f"{place}.{name} is not in the schema"] if rule is False else
                          problems(rule, value[name], root, f"{place}.{name}"))
        elif key not in ("$schema", "$defs", "title", "description"):
            raise ValueError(f"a keyword that is not known here: {key}")
    return found


@functools.cache
def answer_schema():
    done = subprocess.run([BIN / "am-repl", "--schema"], capture_output=True, text=True, timeout=60, check=True)
    return json.loads(done.stdout)


def check_answers(text):
    """Returns the object that --json printed; raises an error if it violates the schema."""
    value = json.loads(text)
    found = problems(answer_schema(), value, answer_schema())
    # The schema of an answer's own command gives clearer messages than the schema of all commands.
    for i, answer in enumerate(value.get("results", [])):
        own = answer_schema()["$defs"].get(answer.get("command"))
        if found and own and "error" not in answer and "filters" not in answer:
            found = problems(own, answer, answer_schema(), f"results[{i}]") or found
    if found:
        raise AssertionError("not as --schema says: " + "; ".join(found[:5]))
    return value
