// Predicted and measured beside each other.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

const MOST_OPERATORS = 12;

// Of each row two bars of one scale: above what was predicted, below what was measured.
function fillPairs(box, title, rows, colourOf) {
  const longest = Math.max(...rows.map(([, , predicted, measured]) => Math.max(predicted, measured)), 1);
  box.append(element("span", title, "head"), element("span", "predicted", "head n"), element("span", "measured", "head n"), element("span", "ratio", "head n"), element("span"));
  for (const [name, count, predicted, measured] of rows) {
    const ratio = predicted && measured ? predicted / measured : 0, isFar = ratio && Math.abs(Math.log(ratio)) > .35;
    const label = element("span", name.replace(/^aten::/, ""));
    label.title = name + (count ? ", " + count + " a step" : "");
    const bars = element("div", undefined, "pair");
    for (const [amount, kind] of [[predicted, "predicted"], [measured, "measured"]]) {
      const bar = element("i", undefined, kind);
      bar.style.width = 100 * amount / longest + "%";
      bar.style.background = colourOf(name);
      bars.append(bar);
    }
    box.append(label, element("span", predicted ? time(predicted) : "–", "n"), element("span", measured ? time(measured) : "–", "n"),
      element("span", ratioText(ratio), "n" + (isFar ? " bad" : "")), bars);
  }
}

function summariseMeasured() {
  const measured = DATA.measured, by = (a, b) => Math.max(b[2], b[3]) - Math.max(a[2], a[3]);
  $("pairs").hidden = false;
  const colours = (name) => name === "step" ? "#4e79a7" : name === "kernels" ? "#59a89c" : name === "exposed" ? css("--warn") : KIND_COLOURS[name] || "#999999";
  fillPairs($("pairsofsteps"), "of a step", [["step", 0, DATA.length, measured.length], ["kernels", 0, DATA.compute, measured.compute], ["exposed", 0, DATA.exposed, measured.exposed],
    ["starting transfers", 0, 0, measured.starting], ["reading inputs", 0, 0, measured.inputs]].filter((row) => row[2] || row[3]), colours);
  fillPairs($("pairsofkinds"), "kernels", measured.kinds.map(([name, ...rest]) => [name === "none" ? "taken to cost nothing" : name, ...rest]).sort(by), colours);
  const operators = [...measured.operators].sort(by);
  fillPairs($("pairsofoperators"), "operators" + (operators.length > MOST_OPERATORS ? ", the first " + MOST_OPERATORS : ""), operators.slice(0, MOST_OPERATORS), () => "#8a93a0");
}
