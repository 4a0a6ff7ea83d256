// Two amounts of each of several things.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

const MOST_OPERATORS = 12;

const PREDICTED = {names: ["predicted", "measured"], print: time, isFar: (ratio) => Math.abs(Math.log(ratio)) > .35};

// Of each row [name, how often, first, second] two bars of one scale, the first above the second.
function fillPairs(box, title, of, rows, colourOf) {
  const longest = Math.max(...rows.map(([, , first, second]) => Math.max(first, second)), 1);
  box.append(element("span", title, "head"), element("span", of.names[0], "head n"), element("span", of.names[1], "head n"), element("span", "ratio", "head n"), element("span"));
  for (const [name, count, first, second] of rows) {
    const ratio = first && second ? first / second : 0, isFar = ratio && of.isFar(ratio);
    const label = element("span", name.replace(/^aten::/, ""));
    label.title = name + (count ? ", " + count + " a step" : "");
    const bars = element("div", undefined, "pair");
    for (const [amount, kind] of [[first, "predicted"], [second, "measured"]]) {
      const bar = element("i", undefined, kind);
      bar.style.width = 100 * amount / longest + "%";
      bar.style.background = colourOf(name);
      bars.append(bar);
    }
    box.append(label, element("span", first ? of.print(first) : "–", "n"), element("span", second ? of.print(second) : "–", "n"),
      element("span", ratioText(ratio), "n" + (isFar ? " bad" : "")), bars);
  }
}
