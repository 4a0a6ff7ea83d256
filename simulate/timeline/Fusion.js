// The step without and with kernels of our own.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

const MOST_KERNELS = 12;

function summariseFusion() {
  const fusion = DATA.fusion, before = fusion.without, after = fusion.with, ns = 1e9, of = {names: ["without", "with"], print: time, isFar: (ratio) => ratio < .97};
  $("fusion").hidden = false;
  const times = Object.keys(before.kernel_seconds).map((kind) => [kind, 0, ns * before.kernel_seconds[kind], ns * after.kernel_seconds[kind]]).filter((row) => row[2] !== row[3]);
  fillPairs($("fusiontimes"), "predicted", of, [["step", 0, ns * before.seconds, ns * after.seconds], ...times], (name) => KIND_COLOURS[name] || "#4e79a7");
  fillPairs($("fusionbytes"), "bytes", {...of, print: bytes}, [["moved by what computes little", 0, before.bytes, after.bytes], ["planned memory", 0, before.planned, after.planned]], () => "#59a89c");
  $("fusionleast").textContent = before.calls + " calls without, " + after.calls + " with. If all that follow each other were one, they would move " + bytes(fusion.least_bytes) + ".";
  const rows = fusion.kernels.slice(0, MOST_KERNELS), longest = Math.max(...rows.map((kernel) => kernel.seconds), 1e-9), box = $("fusionkernels");
  box.append(element("span", "kernel of" + (fusion.kernels.length > MOST_KERNELS ? ", the first " + MOST_KERNELS : ""), "head"), element("span", "calls", "head n"), element("span", "takes", "head n"), element("span", "moves", "head n"), element("span"));
  for (const kernel of rows) {
    const label = element("span", kernel.name.replace(/aten::/g, "")), bars = element("div", undefined, "pair"), bar = element("i", undefined, "predicted");
    label.title = kernel.name;
    bar.style.width = 100 * kernel.seconds / longest + "%";
    bar.style.background = "#59a89c";
    bars.append(bar);
    box.append(label, element("span", String(kernel.calls), "n"), element("span", time(ns * kernel.seconds), "n"), element("span", bytes(kernel.bytes), "n"), bars);
  }
}
