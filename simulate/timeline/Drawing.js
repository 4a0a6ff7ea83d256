// Drawing.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

function prepare(canvas, height) {
  const width = canvas.clientWidth, ratio = window.devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.height = height + "px";
  }
  const g = canvas.getContext("2d");
  g.setTransform(ratio, 0, 0, ratio, 0, 0);
  g.clearRect(0, 0, width, height);
  g.font = "11px system-ui, 'DejaVu Sans', sans-serif";
  return [g, width];
}

const scaleOf = (width, v = view) => (width - LEFT - RIGHT) / (v.x1 - v.x0);
const timeAtX = (x, width) => view.x0 + (x - LEFT) / scaleOf(width);
const line = (g, x0, y0, x1, y1) => { g.beginPath(); g.moveTo(x0, y0); g.lineTo(x1, y1); g.stroke(); };

const widths = new Map();
function widthOf(g, label) {
  let width = widths.get(label);
  if (width === undefined) widths.set(label, width = g.measureText(label).width);
  return width;
}
function fit(g, label, width) {
  if (width < 16) return "";
  if (widthOf(g, label) <= width) return label;
  // The end of a path says most.
  const parts = label.split(".");
  for (let i = 1; i < parts.length; ++i) {
    const shorter = "…" + parts.slice(i).join(".");
    if (widthOf(g, shorter) <= width) return shorter;
  }
  // Of what is no path the begin does.
  const room = Math.floor(label.length * (width - 8) / widthOf(g, label));
  return parts.length === 1 && room > 3 ? label.slice(0, room) + "…" : "";
}
function isLight(colour) {
  const [r, g, b] = [1, 3, 5].map((i) => parseInt(colour.substr(i, 2), 16));
  return .3 * r + .59 * g + .11 * b > 125;
}

const isLit = (bucket, transfer) => !focus || (focus.transfer ? !!transfer && focus.transfer.start === transfer.start : focus.bucket !== undefined && focus.bucket === bucket);

// Slices with room for themselves are drawn one by one; of the others each column of pixels shows what share of its time
// each kind has, however many there are.
function drawSlices(g, v, width, y, height, count, first, of, label) {
  const scale = scaleOf(width, v), columns = Math.ceil(width - LEFT - RIGHT), wide = [];
  const shares = Array.from({length: KERNELS + 1}, () => null);
  for (let i = first; i < count; ++i) {
    const [begin, end, kind] = of(i);
    if (begin >= v.x1) break;
    if (end <= v.x0) continue;
    const a = Math.max((begin - v.x0) * scale, 0), b = Math.min((end - v.x0) * scale, columns);
    if ((end - begin) * scale >= 1.5) { wide.push([a, b, kind, i]); continue; }
    const share = shares[kind] || (shares[kind] = new Float32Array(columns + 2));
    const column = Math.floor(a), rest = Math.min(b, column + 1);
    share[column] += rest - a;
    if (b > rest) share[column + 1] += b - rest;
  }
  const base = new Float32Array(columns + 2);
  shares.forEach((share, kind) => {
    if (!share) return;
    g.fillStyle = kindColour(kind);
    for (let column = 0; column < columns; ++column)
      if (share[column] > 0) {
        const part = Math.min(share[column], 1 - base[column]) * height;
        g.fillRect(LEFT + column, y + height - base[column] * height - part, 1, part);
        base[column] += share[column];
      }
  });
  for (const [a, b, kind, i] of wide) {
    g.fillStyle = kind === WAIT ? colours.hatch : kindColour(kind);
    g.fillRect(LEFT + a, y, b - a, height);
    if (b - a > 3) { g.fillStyle = colours.bg; g.fillRect(LEFT + b - .6, y, .6, height); }
    if (!label || b - a < 16) continue;
    const caption = fit(g, label(i), b - a - 6);
    if (!caption) continue;
    g.fillStyle = kind === WAIT ? "#fff" : isLight(kindColour(kind)) ? "#111" : "#fff";
    if (kind === WAIT) { g.save(); g.fillStyle = colours.warn; g.fillRect(LEFT + a + 2, y + height / 2 - 8, widthOf(g, caption) + 3, 16); g.restore(); }
    g.fillText(caption, LEFT + a + 4, y + height / 2 + 4);
  }
}

const nameOf = (r, i) => text(r.kernels.name[i]).replace(/^aten::/, "");

function drawKernels(g, lane, width) {
  const r = lane.set.run, k = r.kernels, y = lane.top, height = lane.height;
  const draw = () => drawSlices(g, view, width, y, height, r.count, lowerBound(r.end, view.x0), (i) => [r.begin[i], r.end[i], k.kind[i]], (i) => nameOf(r, i));
  g.globalAlpha = focus ? .28 : 1;
  draw();
  if (focus && focus.bucket) {
    g.globalAlpha = 1;
    const lit = [];
    for (let i = lowerBound(r.end, view.x0); i < r.count && r.begin[i] < view.x1; ++i) if (text(k.bucket[i]) === focus.bucket) lit.push(i);
    drawSlices(g, view, width, y, height, lit.length, 0, (n) => [r.begin[lit[n]], r.end[lit[n]], k.kind[lit[n]]], (n) => nameOf(r, lit[n]));
  }
  const waits = r.waits.filter((t) => t.end > view.x0 && t.asked < view.x1);
  for (const lit of [false, true]) {
    const some = waits.filter((t) => isLit(t.bucket, t) === lit);
    g.globalAlpha = lit ? 1 : .35;
    drawSlices(g, view, width, y, height, some.length, 0, (i) => [some[i].asked, some[i].end, WAIT], (i) => "wait " + some[i].kind + " " + some[i].bucket);
  }
  g.globalAlpha = 1;
  // The same instruction in both lanes.
  const i = sets.length > 1 && twin !== null && twin >= 0 ? r.places.get(twin) : undefined;
  if (i !== undefined) {
    const scale = scaleOf(width), a = LEFT + (r.begin[i] - view.x0) * scale, w = Math.max((r.end[i] - r.begin[i]) * scale, 2);
    g.strokeStyle = colours.mark;
    g.lineWidth = 2;
    g.strokeRect(a - 1, y + 1, w + 2, height - 2);
    g.lineWidth = 1;
  }
}

function drawTransfers(g, lane, width) {
  const scale = scaleOf(width), y = lane.top, height = lane.height, colour = STREAM_COLOURS[lane.name] || "#999";
  const x = (at) => LEFT + (at - view.x0) * scale, visible = lane.transfers.filter((t) => t.end >= view.x0 && t.given <= view.x1);
  // What waits in the queue of its stream lies below what moves.
  g.strokeStyle = colour;
  g.setLineDash([2, 2]);
  for (const t of visible)
    if (x(t.begin) - x(t.given) > 1) { g.globalAlpha = isLit(t.bucket, t) ? 1 : .22; line(g, Math.max(x(t.given), LEFT), y + height / 2, Math.min(x(t.begin), width), y + height / 2); }
  g.setLineDash([]);
  for (const t of visible) {
    const lit = isLit(t.bucket, t);
    const a = Math.max(x(t.begin), LEFT - 2), b = Math.min(Math.max(x(t.end), x(t.begin) + 1), width);
    g.globalAlpha = 1;
    if (x(t.begin) - x(t.given) > 1) { g.fillStyle = colours.lane; g.fillRect(a, y + 2, b - a, height - 4); }
    g.globalAlpha = lit ? 1 : .22;
    g.fillStyle = colour;
    g.fillRect(a, y + 2, b - a, height - 4);
    if (t.exposed > 0) {
      const from = Math.max(x(Math.max(t.asked, t.begin)), LEFT);
      g.fillStyle = b - from > 3 ? colours.hatch : colours.warn;
      g.fillRect(from, y + 2, Math.max(b - from, .8), height - 4);
    }
    if (b - a > 3) { g.fillStyle = colours.bg; g.fillRect(b - .6, y + 2, .6, height - 4); }
    const end = t.exposed > 0 ? Math.min(b, x(Math.max(t.asked, t.begin))) : b;
    const name = t.bucket || t.kind, caption = fit(g, name, end - a - 6) || fit(g, name, b - a - 6);
    if (caption && widthOf(g, caption) > end - a - 6) { g.fillStyle = colour; g.fillRect(a + 2, y + height / 2 - 7, widthOf(g, caption) + 4, 14); }
    if (caption) { g.fillStyle = isLight(colour) ? "#111" : "#fff"; g.fillText(caption, a + 4, y + height / 2 + 4); }
    if (focus && lit && b - a > 1) { g.strokeStyle = colours.mark; g.lineWidth = 1.5; g.strokeRect(a + .5, y + 2.5, b - a - 1, height - 5); g.lineWidth = 1; }
  }
  g.globalAlpha = 1;
}

function drawBlocks(g, lane, width) {
  const scale = scaleOf(width), {blocks} = lane.set.run;
  blocks.forEach(([name, begin, end], i) => {
    const a = Math.max(LEFT + (begin - view.x0) * scale, LEFT), b = Math.min(LEFT + (end - view.x0) * scale, width - RIGHT);
    if (b <= a) return;
    g.fillStyle = i % 2 ? colours.strip : colours.strip2;
    g.fillRect(a, lane.top, Math.max(b - a, .5), lane.height);
    // As much of the end of its path as there is room for; numbers of two digits as small as can be read.
    const parts = name.split("."), label = parts.map((_, i) => parts.slice(i).join(".")).find((part) => widthOf(g, part) <= b - a - 3);
    const last = parts[parts.length - 1], size = label ? 11 : Math.min(11, Math.floor((b - a - 1) / widthOf(g, last) * 11));
    if (size < 6) return;
    g.fillStyle = colours.ink;
    const font = g.font;
    if (size < 11) g.font = font.replace("11px", size + "px");
    const half = widthOf(g, label || last) * size / 22;
    g.fillText(label || last, (a + b) / 2 - half, lane.top + lane.height - 5);
    g.font = font;
  });
}

// Steps of 1, 2 or 5 times a power of ten.
function stepFor(span, count) {
  const rough = span / count, unit = 10 ** Math.floor(Math.log10(Math.max(rough, 1e-9)));
  return unit * (rough / unit > 5 ? 10 : rough / unit > 2 ? 5 : rough / unit > 1 ? 2 : 1);
}
// And of a power of two times 1 or 2: sizes are binary.
function ticks(low, high, count) {
  const rough = (high - low) / count, unit = 2 ** Math.floor(Math.log2(Math.max(rough, 1)));
  const step = unit * (rough / unit > 1.5 ? 2 : 1), found = [];
  for (let at = Math.ceil(low / step) * step; at <= high; at += step) found.push(at);
  return found;
}

function drawAxis(g, width, bottom) {
  const step = Math.max(1, stepFor(view.x1 - view.x0, (width - LEFT - RIGHT) / 95)), scale = scaleOf(width);
  for (let at = Math.ceil(view.x0 / step) * step; at <= view.x1; at += step) {
    const x = LEFT + (at - view.x0) * scale;
    g.fillStyle = colours.rule;
    g.fillRect(x, AXIS - 5, 1, bottom - AXIS + 5);
    g.fillStyle = colours.dim;
    const label = timeAt(at, step, view.x1);
    if (x + 3 + widthOf(g, label) < width) g.fillText(label, x + 3, AXIS - 8);
  }
}

function drawMemory(g, width) {
  const top = memoryTop, bottom = top + MEMORY_HEIGHT, memory = DATA.memory, scale = scaleOf(width), columns = Math.ceil(width - LEFT - RIGHT);
  const states = memory.states, highest = Math.max(memory.planned, states + (run.peak < 0 ? 0 : run.use[run.peak]));
  const low = showStates ? 0 : states, high = low + (highest - low) * 1.1 || 1;
  const y = (size) => bottom - (size - low) / (high - low) * MEMORY_HEIGHT;
  g.fillStyle = colours.lane;
  g.fillRect(LEFT, top, columns, MEMORY_HEIGHT);
  g.fillStyle = colours.rule;
  for (const size of ticks(low, high, 5)) g.fillRect(LEFT, y(size), columns, 1);
  if (showStates && states) {
    g.fillStyle = "#4e79a7";
    g.globalAlpha = .75;
    g.fillRect(LEFT, y(states), columns, bottom - y(states));
    g.globalAlpha = 1;
  }
  // Of what shares a column the highest counts.
  const level = new Float64Array(columns + 1);
  for (let i = Math.max(0, lowerBound(run.at, view.x0) - 1); i < run.at.length && run.at[i] < view.x1; ++i) {
    const from = Math.max(0, Math.floor((run.at[i] - view.x0) * scale));
    const to = Math.min(columns, Math.floor(((i + 1 < run.at.length ? run.at[i + 1] : run.length) - view.x0) * scale));
    for (let column = from; column <= to; ++column) level[column] = Math.max(level[column], run.use[i]);
  }
  g.fillStyle = "#6aab5e";
  for (let column = 0; column < columns; ++column)
    if (level[column]) g.fillRect(LEFT + column, y(states + level[column]), 1, y(states) - y(states + level[column]));
  const limit = (size, label, colour) => {
    if (size < low || size > high) return;
    g.strokeStyle = g.fillStyle = colour;
    g.setLineDash([5, 4]);
    line(g, LEFT, y(size), width - RIGHT, y(size));
    g.setLineDash([]);
    g.fillText(label, width - RIGHT - widthOf(g, label) - 4, y(size) - 4);
  };
  limit(memory.planned, "planned: " + bytes(memory.planned), colours.dim);
  const room = memory.capacity - memory.reserved - memory.scratch - memory.communicators;
  if (room < high) limit(room, "the device has room for " + bytes(room), colours.warn);
  if (showStates && states && y(low) - y(states) > 14) { g.fillStyle = "#fff"; g.fillText("states: " + bytes(states), LEFT + 6, bottom - 5); }
  if (run.peak >= 0) {
    const x = LEFT + (run.at[run.peak] - view.x0) * scale, use = states + run.use[run.peak];
    const [, , name, module, source] = run.uses[run.peak];
    const label = "peak " + bytes(use) + " at " + time(run.at[run.peak]) + ": " + text(name).replace(/^aten::/, "") + (text(module) ? " of " + text(module) : "") +
      (text(source) ? " (" + shorten(text(source)) + ")" : "");
    g.strokeStyle = g.fillStyle = colours.warn;
    if (x >= LEFT && x <= width - RIGHT) {
      g.setLineDash([3, 3]);
      line(g, x, AXIS, x, bottom);
      g.setLineDash([]);
      g.beginPath();
      g.arc(x, y(use), 3.5, 0, 7);
      g.fill();
    }
    g.fillText(label, Math.max(LEFT, Math.min(x - widthOf(g, label) / 2, width - RIGHT - widthOf(g, label))), bottom + 14);
  }
  // What scrolls under the labels.
  g.clearRect(0, top - 6, LEFT, MEMORY_HEIGHT + 12);
  g.fillStyle = colours.dim;
  for (const size of ticks(low, high, 5)) {
    const label = bytes(size);
    g.fillText(label, LEFT - 8 - widthOf(g, label), y(size) + 4);
    g.fillRect(LEFT - 5, y(size), 5, 1);
  }
}

function drawOverlay(g, width, bottom) {
  const scale = scaleOf(width), x = (at) => LEFT + (at - view.x0) * scale;
  const vertical = (at, colour, dash) => {
    if (x(at) < LEFT || x(at) > width - RIGHT) return;
    g.strokeStyle = colour;
    g.setLineDash(dash);
    line(g, x(at), AXIS, x(at), memoryTop - 8);
    g.setLineDash([]);
  };
  if (focus && focus.transfer) {
    vertical(focus.transfer.given, colours.mark, [2, 3]);
    vertical(focus.transfer.asked, focus.transfer.exposed > 0 ? colours.warn : colours.mark, [6, 3]);
  }
  if (drag && drag.range !== undefined) {
    g.fillStyle = colours.mark;
    g.globalAlpha = .18;
    const a = x(Math.min(drag.range, drag.to)), b = x(Math.max(drag.range, drag.to));
    g.fillRect(a, AXIS, b - a, bottom - AXIS);
    g.globalAlpha = 1;
    const label = time(Math.abs(drag.to - drag.range));
    g.fillStyle = colours.strong;
    g.fillText(label, (a + b) / 2 - widthOf(g, label) / 2, memoryTop + 14);
  } else if (cursor !== null) {
    g.fillStyle = colours.ink;
    g.globalAlpha = .45;
    g.fillRect(cursor, AXIS, 1, bottom - AXIS);
    g.globalAlpha = 1;
    const label = timeAt(timeAtX(cursor, width), (view.x1 - view.x0) / 500, view.x1), w = widthOf(g, label);
    const at = Math.min(cursor + 3, width - w - 4);
    g.fillStyle = colours.bg;
    g.fillRect(at - 2, 0, w + 4, AXIS - 5);
    g.fillStyle = colours.mark;
    g.fillText(label, at, AXIS - 8);
  }
}

function drawTime() {
  const bottom = memoryTop + MEMORY_HEIGHT, [g, width] = prepare($("time"), bottom + 20);
  drawAxis(g, width, bottom);
  for (const lane of lanes) {
    if (lane.draw !== drawBlocks) { g.fillStyle = colours.lane; g.fillRect(LEFT, lane.top, width - LEFT - RIGHT, lane.height); }
    g.save();
    g.beginPath();
    g.rect(LEFT, lane.top, width - LEFT - RIGHT, lane.height);
    g.clip();
    lane.draw(g, lane, width);
    g.restore();
    g.fillStyle = colours.dim;
    g.fillText(lane.name, LEFT - 8 - widthOf(g, lane.name), lane.top + lane.height / 2 + 4);
    if (sets.length > 1 && lane.draw === drawKernels) {
      g.fillStyle = colours.strong;
      g.fillText(lane.set.title, LEFT - 8 - widthOf(g, lane.set.title), lane.top + lane.height / 2 + 18);
    }
    if (lane.set !== sets[0] && lane.draw === drawBlocks) {
      g.fillStyle = colours.rule;
      g.fillRect(0, lane.top - BETWEEN / 2 - 2, width, 1);
    }
  }
  if (sets.length > 1) drawEnds(g, width);
  drawMemory(g, width);
  drawOverlay(g, width, bottom);
}

// Where each set ends: the longer one goes on without the other.
function drawEnds(g, width) {
  for (const set of sets) {
    const mine = lanes.filter((lane) => lane.set === set), x = LEFT + (set.run.length - view.x0) * scaleOf(width);
    if (x < LEFT || x > width - RIGHT + 1) continue;
    g.fillStyle = colours.mark;
    g.fillRect(x - 1, mine[0].top, 1.5, mine[mine.length - 1].top + mine[mine.length - 1].height - mine[0].top);
    const label = time(set.run.length), w = widthOf(g, label), fits = x + 4 + w < width;
    g.fillStyle = colours.bg;
    g.fillRect(fits ? x + 2 : x - w - 7, mine[0].top, w + 5, 15);
    g.fillStyle = colours.mark;
    g.fillText(label, fits ? x + 4 : x - w - 5, mine[0].top + 12);
  }
}

// The whole program, and which part of it is seen below.
let drawnOverview = null;
function drawOverview() {
  const height = 30, [g, width] = prepare($("overview"), height), all = {x0: 0, x1: whole}, key = [width, devicePixelRatio, colours.bg].join();
  if (!drawnOverview || drawnOverview.run !== run || drawnOverview.key !== key) {
    const canvas = document.createElement("canvas"), ratio = devicePixelRatio || 1;
    canvas.width = $("overview").width;
    canvas.height = $("overview").height;
    const o = canvas.getContext("2d");
    o.scale(ratio, ratio);
    o.fillStyle = colours.lane;
    o.fillRect(LEFT, 0, width - LEFT - RIGHT, height);
    const part = (height - 8) / sets.length;
    sets.forEach(({run: r}, n) => {
      const y = 4 + n * part, room = part - (sets.length > 1 ? 1 : 0);
      drawSlices(o, all, width, y, room, r.count, 0, (i) => [r.begin[i], r.end[i], r.kernels.kind[i]]);
      drawSlices(o, all, width, y, room, r.waits.length, 0, (i) => [r.waits[i].asked, r.waits[i].end, WAIT]);
    });
    drawnOverview = {run, key, canvas};
  }
  g.drawImage(drawnOverview.canvas, 0, 0, width, height);
  const scale = scaleOf(width, all), a = LEFT + Math.max(view.x0, 0) * scale, b = LEFT + Math.min(view.x1, all.x1) * scale;
  g.fillStyle = colours.bg;
  g.globalAlpha = .65;
  g.fillRect(LEFT, 0, a - LEFT, height);
  g.fillRect(b, 0, width - RIGHT - b, height);
  g.globalAlpha = 1;
  g.strokeStyle = colours.ink;
  g.strokeRect(a + .5, .5, Math.max(b - a - 1, 1), height - 1);
  g.fillStyle = colours.dim;
  g.fillText("all", LEFT - 8 - widthOf(g, "all"), height / 2 + 4);
}

function describeSet({run, title}) {
  const a = Math.max(view.x0, 0), b = Math.min(view.x1, run.length), span = b - a;
  if (span <= 0) return title + " is over";
  const before = (at) => { const i = Math.max(0, lowerBound(run.end, at)); return run.busy[i] + (i < run.count ? Math.max(0, Math.min(at, run.end[i]) - run.begin[i]) : 0); };
  const compute = before(b) - before(a);
  const exposed = run.waits.reduce((sum, t) => sum + Math.max(0, Math.min(t.end, b) - Math.max(t.asked, a)), 0);
  return (sets.length > 1 ? title + " " : "") + time(span) + ", kernels " + percent(compute, span) + ", exposed " + percent(exposed, span);
}
const describeView = () => { $("inview").textContent = "in view: " + sets.map(describeSet).join("; "); };

let isDue = false;
function redraw() {
  if (isDue) return;
  isDue = true;
  requestAnimationFrame(() => { isDue = false; drawTime(); drawOverview(); describeView(); });
}
