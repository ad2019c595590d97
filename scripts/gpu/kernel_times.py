"""Adds up the records of kernel_times.cpp: what a GPU ran during a job's last steps."""

import re
from collections import defaultdict


def simple(name):
    """Returns the first 150 characters of a kernel's name, without `void` and common namespaces."""
    name = re.sub(r"\(anonymous namespace\)::|at::native::|at::|c10::|std::|cutlass::|void ", "", name)
    return name[:150]


def last_steps(files, steps, step_seconds):
    """Returns (rows, gaps, busy) for the last `steps` steps, which take `step_seconds` each.

    `rows` lists (milliseconds per step, calls per step, name) of each kernel, longest first. `gaps` lists the same for
    intervals without a running kernel; a gap is named by the kernels before and after it. `busy` is the fraction of the
    time in which a kernel ran.
    """
    records = []
    for file in files:
        with open(file) as lines:
            for line in lines:
                start, end, _, name = line.rstrip("\n").split(" ", 3)
                records.append((int(start), int(end), name))
    if not records:
        raise RuntimeError("no kernel was recorded")
    records.sort()
    last = max(end for _, end, _ in records)
    first = last - int(steps * step_seconds * 1e9)
    records = [record for record in records if record[0] >= first]
    kernels, gaps = defaultdict(list), defaultdict(list)
    busy, until, before = 0, first, "the step before"
    for start, end, name in records:
        name = simple(name)
        kernels[name].append(end - start)
        if start > until:
            gaps[f"{before[:60]} .. {name[:60]}"].append(start - until)
        busy += max(0, end - max(start, until))
        if end > until:
            until, before = end, name
    return summed(kernels, steps), summed(gaps, steps), busy / (last - first)


def summed(times, steps):
    return sorted(((sum(each) / steps / 1e6, len(each) / steps, name) for name, each in times.items()), reverse=True)


def text(rows, gaps, busy):
    """Returns a table of all kernels and of the 15 kinds of gaps with the largest total time."""
    total = sum(row[0] for row in rows)
    lines = [f"{total:9.2f} ms {sum(row[1] for row in rows):7.1f} calls, any ran {busy:.1%} of the time"]
    lines += [f"{ms:9.3f} ms {calls:7.1f}  {name}" for ms, calls, name in rows]
    lines += [f"{ms:9.3f} ms {calls:7.1f}  nothing between {name}" for ms, calls, name in gaps[:15]]
    return "\n".join(lines)
