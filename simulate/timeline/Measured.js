// Predicted and measured beside each other.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

function summariseMeasured() {
  const measured = DATA.measured, by = (a, b) => Math.max(b[2], b[3]) - Math.max(a[2], a[3]);
  $("pairs").hidden = false;
  const colours = (name) => name === "step" ? "#4e79a7" : name === "kernels" ? "#59a89c" : name === "exposed" ? css("--warn") : KIND_COLOURS[name] || "#999999";
  fillPairs($("pairsofsteps"), "of a step", PREDICTED, [["step", 0, DATA.length, measured.length], ["kernels", 0, DATA.compute, measured.compute], ["exposed", 0, DATA.exposed, measured.exposed],
    ["starting transfers", 0, 0, measured.starting], ["reading inputs", 0, 0, measured.inputs]].filter((row) => row[2] || row[3]), colours);
  fillPairs($("pairsofkinds"), "kernels", PREDICTED, measured.kinds.map(([name, ...rest]) => [name === "none" ? "taken to cost nothing" : name, ...rest]).sort(by), colours);
  const operators = [...measured.operators].sort(by);
  fillPairs($("pairsofoperators"), "operators" + (operators.length > MOST_OPERATORS ? ", the first " + MOST_OPERATORS : ""), PREDICTED, operators.slice(0, MOST_OPERATORS), () => "#8a93a0");
}
