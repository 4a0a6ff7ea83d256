# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How much of a step the GPU had nothing to do, from a list of what it did.

gaps.cpp writes the list: a line for each kernel, copy and fill with its kind, begin
and end in nanoseconds, and name. The window that is looked at has the length of
the last steps, as the process itself timed them, and ends with the last activity.
"""
import collections

import kinds


class Incomplete(Exception):
    """The list does not hold what it should."""


def read(path):
    """(begin, end, kind, name) of each activity, by their begins."""
    records = []
    with open(path) as file:
        for line in file:
            kind, _, rest = line.rstrip("\n").partition("\t")
            if kind == "dropped":
                raise Incomplete(f"{rest} activities were dropped")
            begin, end, name = rest.split("\t", 2)
            records.append((int(begin), int(end), kind, name))
    return sorted(records)


def analyse(records, seconds):
    """Of the window of the steps' times `seconds`, the last step's at the end:

    idle_share: of the window, in which nothing ran on any stream
    kernels: started in each step, on average
    idle_us, longest_idle_us: the mean of a step's idle times summed up, and the longest single one
    untimed: activities of which no times could be taken
    top: (name, milliseconds a step, calls a step) of the kernels that took the most
    kinds: milliseconds a step of each kind of kernel (kinds.py)
    """
    listed, records = records, [r for r in records if r[0] and r[1]]
    if not records or not seconds:
        raise Incomplete("no activity was recorded")
    end = max(r[1] for r in records)
    begin = end - round(sum(seconds) * 1e9)
    if min(r[0] for r in records) > begin:
        raise Incomplete(f"the steps took {sum(seconds):.3f} s, but activities of {(end - min(r[0] for r in records)) / 1e9:.3f} s alone were recorded")
    idle, longest, reached = 0, 0, begin
    for first, last, _, _ in records:
        if last <= begin:
            continue
        gap = max(0, first - reached)
        idle, longest = idle + gap, max(longest, gap)
        reached = max(reached, last)
    by_name, by_kind = collections.defaultdict(lambda: [0, 0]), collections.defaultdict(float)
    for first, last, activity, name in records:
        if first >= begin:
            by_name[name][0] += last - first
            by_name[name][1] += 1
            by_kind[kinds.kind_of(name, activity)] += (last - first) / 1e6 / len(seconds)
    kernels = sum(first >= begin and kind == "kernel" for first, _, kind, _ in records)
    count = len(seconds)
    top = sorted(((name[:160], total / 1e6 / count, calls / count) for name, (total, calls) in by_name.items()), key=lambda t: -t[1])
    return {"idle_share": idle / (end - begin), "kernels": kernels / count, "idle_us": idle / 1e3 / count, "longest_idle_us": longest / 1e3,
            "untimed": len(listed) - len(records), "top": top[:15], "kinds": dict(by_kind)}
