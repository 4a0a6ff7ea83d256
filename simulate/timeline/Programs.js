// Programs.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// "layers.3" of "layers.3.attn.q": up to the first number, else the first name.
function blockOf(module) {
  const parts = module.split("."), number = parts.findIndex((part) => /^\d+$/.test(part));
  return parts.slice(0, number < 0 ? 1 : number + 1).join(".");
}

function lowerBound(sorted, value) {
  let low = 0, high = sorted.length;
  while (low < high) { const middle = (low + high) >> 1; if (sorted[middle] < value) low = middle + 1; else high = middle; }
  return low;
}

// Times in nanoseconds from the program's begin.
function makeRun(raw) {
  const k = raw.kernels, count = k.begin.length, begin = Float64Array.from(k.begin), end = new Float64Array(count), busy = new Float64Array(count + 1);
  for (let i = 0; i < count; ++i) { end[i] = begin[i] + k.length[i]; busy[i + 1] = busy[i] + k.length[i]; }
  const transfers = raw.transfers.map(([stream, kind, bucket, size, given, begin, end, asked, alone, start, wait, startsAt, waitsAt], number) => ({
    number, stream: DATA.streams[stream], kind: text(kind), bucket: text(bucket), size, given, begin, end, asked, alone, start, wait,
    startsAt: text(startsAt) || "the end", waitsAt: text(waitsAt) || "the end", moves: end - begin, flight: Math.max(end, asked) - given,
    exposed: Math.max(0, end - asked), hidden: Math.max(0, end - begin - Math.max(0, end - asked))}));
  const waits = transfers.filter((t) => t.exposed > 0).sort((a, b) => a.asked - b.asked);
  const blocks = [], names = new Map();
  for (let i = 0; i < count; ++i) {
    const module = k.module[i];
    if (!names.has(module)) names.set(module, text(module) && blockOf(text(module)));
    const name = DATA.kinds[k.kind[i]] === "optimizer" ? "optimizer" : names.get(module);
    if (!name) continue;
    const last = blocks[blocks.length - 1];
    if (last && last[0] === name) last[2] = end[i];
    else blocks.push([name, begin[i], end[i]]);
  }
  const at = Float64Array.from(raw.uses, (u) => u[0]), use = Float64Array.from(raw.uses, (u) => u[1]);
  let peak = -1;
  use.forEach((size, i) => { if (peak < 0 || size > use[peak]) peak = i; });
  const places = new Map();
  k.at.forEach((instruction, i) => places.set(instruction, i));
  return {...raw, places, count, begin, end, busy, transfers, waits, waitBegins: Float64Array.from(waits, (t) => t.asked), blocks, at, use, peak};
}

// Transfers of both know each other; medians of all runs say more than the run that is shown.
function pair(predicted, measured) {
  const byStart = new Map(predicted.transfers.map((t) => [t.start, t]));
  measured.transfers.forEach((t, i) => {
    t.isMeasured = true;
    [t.medianFlight, t.medianExposed] = measured.medians[i];
    const other = byStart.get(t.start);
    if (!other) return;
    t.twin = other;
    other.twin = t;
  });
}

// A measured step is a second set, below the first.
function lanesOf(set) {
  const used = DATA.streams.filter((stream) => set.run.transfers.some((t) => t.stream === stream));
  return [{set, name: "module", height: 17, draw: drawBlocks, find: findBlock}, {set, name: "kernels", height: 52, draw: drawKernels, find: findKernel},
    ...used.map((stream) => ({set, name: stream, height: 24, draw: drawTransfers, find: findTransfer,
      transfers: set.run.transfers.filter((t) => t.stream === stream)}))];
}

// `whole` is the time that both sets have room in.
let run, sets, lanes, whole, memoryTop, view, focus = null, kept = null, cursor = null, twin = null, search = "", showStates, byBucket = true, order = null;

function choose(raw) {
  run = makeRun(raw);
  sets = [{title: "predicted", run}];
  if (raw.measured) {
    sets.push({title: "measured", run: makeRun(raw.measured)});
    pair(run, sets[1].run);
  }
  whole = Math.max(...sets.map((set) => set.run.length), 1);
  lanes = sets.flatMap(lanesOf);
  let y = AXIS;
  for (const lane of lanes) {
    if (lane.draw === drawBlocks && lane.set !== sets[0]) y += BETWEEN;
    lane.top = y;
    y += lane.height + GAP;
  }
  memoryTop = y + 8;
  focus = kept = cursor = twin = null;
  view = {x0: 0, x1: whole};
  for (const button of document.querySelectorAll("[data-program]")) button.classList.toggle("on", DATA.programs[button.dataset.program] === raw);
  fillTable();
  redraw();
}
