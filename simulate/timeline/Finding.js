// Finding what is under the mouse.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

function findKernel(lane, at, near) {
  const r = lane.set.run, wait = r.waits.find((t) => t.asked <= at && at < t.end);
  if (wait) return {transfer: wait, bucket: wait.bucket, isWait: true};
  let i = lowerBound(r.end, at);
  if (i < r.count && r.begin[i] > at + near) i = -1;
  if (i < 0 || i >= r.count) return null;
  return {kernel: i, run: r, bucket: text(r.kernels.bucket[i]) || undefined};
}
function findTransfer(lane, at, near) {
  let best = null;
  for (const t of lane.transfers)
    if (t.begin - near <= at && at <= t.end + near && (!best || Math.abs(t.begin + t.end - 2 * at) < Math.abs(best.begin + best.end - 2 * at))) best = t;
  return best && {transfer: best, bucket: best.bucket};
}
function findBlock(lane, at) {
  const block = lane.set.run.blocks.find(([, begin, end]) => begin <= at && at < end);
  return block && {block};
}
function find(x, y, width) {
  const at = timeAtX(x, width), near = 2 / scaleOf(width);
  if (x < LEFT || x > width - RIGHT || at < 0 || at > whole) return null;
  const lane = lanes.find((lane) => lane.top <= y && y < lane.top + lane.height);
  if (lane) return lane.find(lane, at, near);
  if (y >= memoryTop && y < memoryTop + MEMORY_HEIGHT && run.at.length && at <= run.length) return {use: Math.max(0, lowerBound(run.at, at + 1e-3) - 1), moment: at};
  return null;
}

function describe(found) {
  const parts = [], add = (name, content, kind) => { if (parts.length) parts.push(element("br")); parts.push(element(name, content, kind)); };
  if (found.transfer) {
    const t = found.transfer;
    add("b", (found.isWait ? "wait for " : "") + t.kind + " " + t.bucket);
    parts.push(element("span", "  " + bytes(t.size) + (t.isMeasured ? ", measured" : "")));
    if (t.isMeasured) add("span", "in flight " + time(t.begin) + " – " + time(t.end) + ": " + time(t.flight));
    else add("span", "moves " + time(t.begin) + " – " + time(t.end) + ": " + time(t.moves) + ", alone " + time(t.alone));
    add("span", "starts at " + time(t.given) + ", in front of " + t.startsAt);
    if (t.begin > t.given) add("span", time(t.begin - t.given) + " behind others on its stream");
    add("span", "waited for at " + time(t.asked) + ", in front of " + t.waitsAt);
    add("span", "hidden " + time(t.hidden));
    parts.push(element("span", ", "), element("span", "exposed " + time(t.exposed), t.exposed > 0 ? "warn" : ""));
    if (t.twin) {
      const [predicted, measured] = t.isMeasured ? [t.twin, t] : [t, t.twin];
      add("span", "in flight: predicted " + time(predicted.flight) + ", measured " + time(measured.medianFlight) + ", " + ratioText(predicted.flight / measured.medianFlight));
      add("span", "exposed: predicted " + time(predicted.exposed) + ", measured " + time(measured.medianExposed) + " (medians of " + sets[1].run.runs + " runs)");
    }
  } else if (found.kernel !== undefined) {
    const r = found.run, i = found.kernel, k = r.kernels;
    add("b", text(k.name[i]));
    parts.push(element("span", "  " + text(k.result[i])));
    add("span", DATA.kinds[k.kind[i]] + ", " + time(k.length[i]) + " from " + time(k.begin[i]) + " on" + (k.at[i] < 0 ? "" : "; instruction " + k.at[i]) + (k.median ? ", measured" : ""));
    const other = sets.length > 1 && k.at[i] >= 0 ? sets[k.median ? 0 : 1].run : null, place = other ? other.places.get(k.at[i]) : undefined;
    if (place !== undefined) {
      const predicted = k.median ? other.kernels.length[place] : k.length[i], measured = k.median ? k.median[i] : other.kernels.median[place];
      add("span", "predicted " + time(predicted) + ", measured " + time(measured) + " in the median: " + ratioText(measured && predicted / measured));
    }
    if (text(k.module[i])) add("span", text(k.module[i]) + (text(k.source[i]) ? " (" + text(k.source[i]) + ")" : ""));
    if (found.bucket) add("span", "uses bucket " + found.bucket);
  } else if (found.block) {
    const [name, begin, end] = found.block;
    add("b", name);
    add("span", time(begin) + " – " + time(end) + ": " + time(end - begin));
  } else {
    const [, size, name, module, source] = run.uses[found.use];
    add("b", bytes(DATA.memory.states + size));
    add("span", bytes(size) + " of transient tensors, " + bytes(DATA.memory.states) + " of states");
    add("span", "at " + time(found.moment) + ", since " + text(name) + (text(module) ? " of " + text(module) : "") + (text(source) ? " (" + shorten(text(source)) + ")" : ""));
  }
  $("tip").replaceChildren(...parts);
}

const isRowLit = (tr) => !!focus && (tr.transfer && focus.transfer ? tr.transfer === focus.transfer : tr.bucket !== undefined && tr.bucket === focus.bucket);

function light(found, scroll) {
  const isSame = focus === found || (focus && found && focus.transfer === found.transfer && focus.bucket === found.bucket && focus.kernel === found.kernel);
  focus = found && (found.transfer || found.bucket) ? found : kept;
  if (isSame) return;
  let first = null;
  for (const tr of $("rows").children) {
    const on = isRowLit(tr);
    tr.classList.toggle("on", on);
    first = first || (on && tr);
  }
  // The table moves, the page does not.
  const box = $("scroll");
  if (first && scroll) {
    const head = $("head").offsetHeight;
    if (first.offsetTop < box.scrollTop + head) box.scrollTop = first.offsetTop - head;
    else if (first.offsetTop + first.offsetHeight > box.scrollTop + box.clientHeight) box.scrollTop = first.offsetTop + first.offsetHeight - box.clientHeight;
  }
  redraw();
}
