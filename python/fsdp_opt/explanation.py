# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What `fsdp_opt.explain` returns."""
from __future__ import annotations

import html
from typing import Any, NamedTuple


class Table(NamedTuple):
    """Rows of numbers and names. Units are in the columns' names."""

    title: str
    columns: list[str]
    rows: list[list[Any]]


class Explanation:
    """A model as the compiler sees it; print it, or let a notebook show it."""

    text: str
    """What `fsdp-opt --explain` prints."""
    unsupported: str | None
    """Why the model cannot be compiled as it is; None if it can."""
    report: dict[str, Any]
    """fsdp-opt's --report of the compiled step; empty if there is none."""
    prediction: dict[str, Any]
    """fsdp-opt's --print-plan: seconds, bytes and operations of a step; empty if there is none."""

    def __init__(self, text: str, unsupported: str | None, report: dict[str, Any], prediction: dict[str, Any]) -> None:
        self.text, self.unsupported, self.report, self.prediction = text, unsupported, report, prediction

    @property
    def tables(self) -> list[Table]:
        """Memory of a rank, transfers, the schedule and where the time goes; empty for what is not supported."""
        if not self.report:
            return []
        memory = self.report["memory"]
        kinds = ("params", "optimizer", "buffers", "inputs", "gathered", "grads", "activations")
        at_peak = [[kind, memory[kind]] for kind in kinds] + [["peak", memory["peak"]]]
        transfers = ["bucket", "kind", "group", "dtype", "bytes", "tensors", "a step"]
        steps = [[c["bucket"], c["kind"], c["group"], c["dtype"], c["bytes"], c["tensors"], c["count"]] for c in self.report["collectives"]]
        schedule = ["phase", "bucket", "moves", "bytes", "starts after", "because", "waited for before"]
        moves = [[m["phase"], m["bucket"], m["kind"], m["bytes"], m["starts_after"], m["because"], m["waited_for_before"]]
                 for m in self.report["schedule"]]
        predicted = self.prediction
        times = [["step", predicted["seconds"]], ["compute", predicted["compute_seconds"]], ["exposed transfers", predicted["exposed_seconds"]]]
        for program in predicted["programs"]:
            times += [[f"{program['name']}: {name}", seconds] for name, seconds in program["kernel_seconds"].items() if seconds]
        return [Table("Memory of a rank at its highest use", ["what", "bytes"], at_peak), Table("Transfers of a step", transfers, steps),
                Table("Schedule", schedule, moves),
                Table(f"Predicted time on '{predicted['cluster']}', {predicted['ranks']} ranks", ["what", "seconds"], times)]

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        state = f"not supported: {self.unsupported}" if self.unsupported else f"{self.report['memory']['peak']:,} bytes a rank"
        return f"<Explanation: {state}>"

    def _repr_html_(self) -> str:
        parts = []
        if self.unsupported:
            parts.append(f"<p><b>Not supported</b>: {html.escape(self.unsupported)}</p>")
        for title, columns, rows in self.tables:
            head = "".join(f"<th>{html.escape(column)}</th>" for column in columns)
            body = "".join("<tr>" + "".join(_cell(value) for value in row) + "</tr>" for row in rows)
            parts.append(f"<h4>{html.escape(title)}</h4><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>")
        parts.append(f"<details><summary>All that fsdp-opt --explain says</summary><pre>{html.escape(self.text)}</pre></details>")
        return "\n".join(parts)


def _cell(value: Any) -> str:
    if isinstance(value, int):
        return f'<td style="text-align: right">{value:,}</td>'
    if isinstance(value, float):
        return f'<td style="text-align: right">{value:.6g}</td>'
    return f"<td>{html.escape(str(value))}</td>"
