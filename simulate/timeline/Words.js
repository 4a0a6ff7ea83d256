// What is shown how.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

const KIND_COLOURS = {matmul: "#4e79a7", attention: "#9fc5e8", convolution: "#2f6f8f", elementwise: "#b8b0a8", reduction: "#6aab5e",
  indexing: "#d9c45b", random: "#a58bc9", sort: "#8b7355", optimizer: "#59a89c", copy: "#d7b5a6",
  "starting transfers": "#c47f2b", "reading inputs": "#6b7f8c", none: "#999999"};
const STREAM_COLOURS = {gather: "#f0a23c", reduce: "#b07aa1", replicate: "#d4a6c8", upload: "#76b7b2", download: "#499894"};
const MEMORY = [["parameters", "#4e79a7"], ["optimizer", "#9fc5e8"], ["buffers", "#b8b0a8"], ["inputs", "#b07aa1"], ["activations", "#6aab5e"],
  ["gathered", "#f0a23c"], ["gradients", "#e15759"], ["between tensors", "#8a8a8a"], ["on the host's part", "#8b7355"],
  ["kernels' temporaries", "#d9c45b"], ["context, libraries", "#5f6670"], ["communicators", "#d4a6c8"]];
const LEFT = 84, RIGHT = 14, AXIS = 22, GAP = 3, BETWEEN = 14, MEMORY_HEIGHT = 150;
const KERNELS = DATA.kinds.length, WAIT = KERNELS; // the kind of waits
const text = (i) => DATA.strings[i];
const shorten = (source) => source.split("/").slice(-2).join("/");
const $ = (id) => document.getElementById(id);
function element(name, content, kind) {
  const e = document.createElement(name);
  if (content !== undefined) e.textContent = content;
  if (kind) e.className = kind;
  return e;
}
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
let colours = {};
function readColours() {
  for (const name of ["bg", "ink", "strong", "dim", "rule", "lane", "strip", "strip2", "warn", "mark"]) colours[name] = css("--" + name);
  // Diagonal lines say "waits" to those who see no red.
  const tile = document.createElement("canvas");
  tile.width = tile.height = 6;
  const g = tile.getContext("2d");
  g.fillStyle = colours.warn;
  g.fillRect(0, 0, 6, 6);
  g.strokeStyle = "rgba(255,255,255,.45)";
  g.lineWidth = 1.4;
  for (const at of [-6, 0, 6]) { g.beginPath(); g.moveTo(at - 1, 7); g.lineTo(at + 7, -1); g.stroke(); }
  colours.hatch = g.createPattern(tile, "repeat");
}
const kindColour = (kind) => kind === WAIT ? colours.warn : KIND_COLOURS[DATA.kinds[kind]] || "#999";

function bytes(n) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let i = 0;
  while (Math.abs(n) >= 1024 && i < 5) { n /= 1024; ++i; }
  return (i ? n.toFixed(n < 10 ? 2 : n < 100 ? 1 : 0) : String(Math.round(n))) + " " + units[i];
}
function time(ns) {
  const units = [["ns", 1], ["µs", 1e3], ["ms", 1e6], ["s", 1e9]];
  const [unit, size] = units.find(([, size]) => Math.abs(ns) < 1e3 * size) || units[3], value = ns / size;
  return (size === 1 ? String(Math.round(value)) : value.toFixed(Math.abs(value) < 10 ? 2 : Math.abs(value) < 100 ? 1 : 0)) + " " + unit;
}
// In the unit of an axis that ends at `most`, with as many digits as its steps need.
function timeAt(ns, step, most) {
  const [unit, size] = most >= 1e10 ? ["s", 1e9] : most >= 1e6 ? ["ms", 1e6] : ["µs", 1e3];
  return (ns / size).toFixed(Math.max(0, Math.ceil(Math.log10(size / step) - 1e-9))) + " " + unit;
}
const ratioText = (ratio) => ratio ? ratio.toFixed(2) + " ×" : "–";
const percent = (part, whole) => (whole ? 100 * part / whole : 0).toFixed(1) + " %";
