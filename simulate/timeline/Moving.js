// Moving.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

function setView(x0, x1) {
  const span = Math.min(Math.max(x1 - x0, Math.min(200, whole)), whole * 1.04), margin = whole * .02;
  const middle = (x0 + x1) / 2, from = Math.max(-margin, Math.min(middle - span / 2, whole + margin - span));
  view = {x0: from, x1: from + span};
  redraw();
}
const showAll = () => { view = {x0: 0, x1: whole}; redraw(); };
const show = (a, b) => { const margin = Math.max((b - a) * .3, 500); setView(a - margin, b + margin); };
const zoom = (factor, at = (view.x0 + view.x1) / 2) => setView(at - (at - view.x0) * factor, at + (view.x1 - at) * factor);
const pan = (share) => { const by = share * (view.x1 - view.x0); setView(view.x0 + by, view.x1 + by); };

function nextWait(direction) {
  if (!run.waits.length) return;
  const current = kept && kept.transfer ? run.waits.indexOf(kept.transfer) : -1;
  const index = current < 0 ? (direction > 0 ? 0 : run.waits.length - 1) : (current + direction + run.waits.length) % run.waits.length;
  const t = run.waits[index];
  light(kept = {transfer: t, bucket: t.bucket}, true);
  show(Math.min(t.begin, t.asked), t.end);
}

let drag = null;
function listen() {
  const canvas = $("time"), tip = $("tip"), overview = $("overview");
  const place = (event) => { const box = canvas.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top, box.width]; };
  canvas.onpointerdown = (event) => {
    const [x, , width] = place(event);
    canvas.setPointerCapture(event.pointerId);
    drag = {x, view: {...view}, moved: false};
    if (event.shiftKey) drag.range = drag.to = timeAtX(x, width);
  };
  canvas.onpointermove = (event) => {
    const [x, y, width] = place(event);
    cursor = x >= LEFT && x <= width - RIGHT ? x : null;
    if (drag) {
      drag.moved = drag.moved || Math.abs(x - drag.x) > 3;
      tip.style.display = "none";
      if (drag.range !== undefined) { drag.to = timeAtX(x, width); redraw(); return; }
      const by = (drag.x - x) / scaleOf(width);
      if (drag.moved) setView(drag.view.x0 + by, drag.view.x1 + by);
      return;
    }
    const found = find(x, y, width);
    twin = found && found.kernel !== undefined ? found.run.kernels.at[found.kernel] : null;
    light(found, true);
    redraw();
    tip.style.display = found ? "block" : "none";
    if (!found) return;
    describe(found);
    tip.style.left = Math.max(4, Math.min(event.clientX + 14, window.innerWidth - tip.offsetWidth - 8)) + "px";
    tip.style.top = Math.max(4, event.clientY + 16 + tip.offsetHeight > window.innerHeight ? event.clientY - tip.offsetHeight - 12 : event.clientY + 16) + "px";
  };
  canvas.onpointerup = (event) => {
    const was = drag, [x, y, width] = place(event);
    drag = null;
    if (was && was.range !== undefined && was.moved) setView(Math.min(was.range, was.to), Math.max(was.range, was.to));
    else if (was && !was.moved) { const found = find(x, y, width); kept = found && (found.transfer || found.bucket) ? found : null; light(found, true); }
    redraw();
  };
  canvas.onpointercancel = () => { drag = null; };
  canvas.onpointerleave = () => { tip.style.display = "none"; cursor = twin = null; light(null); redraw(); };
  canvas.ondblclick = showAll;
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    const [x, , width] = place(event), isSideways = event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY);
    // Lines and pages are few, pixels many.
    const unit = event.deltaMode === 1 ? 20 : event.deltaMode === 2 ? 400 : 1, by = (event.deltaX || event.deltaY) * unit;
    if (isSideways) pan(by * .001);
    else zoom(Math.exp(event.deltaY * unit * .0015), timeAtX(x, width));
  }, {passive: false});
  const move = (event) => {
    const box = overview.getBoundingClientRect(), span = view.x1 - view.x0;
    const at = (event.clientX - box.left - LEFT) / scaleOf(box.width, {x0: 0, x1: whole});
    setView(at - span / 2, at + span / 2);
  };
  overview.onpointerdown = (event) => { overview.setPointerCapture(event.pointerId); move(event); };
  overview.onpointermove = (event) => { if (event.buttons) move(event); };
  const keys = {a: () => pan(-.15), d: () => pan(.15), w: () => zoom(.7), s: () => zoom(1 / .7), ArrowLeft: () => pan(-.15), ArrowRight: () => pan(.15),
    "+": () => zoom(.7), "=": () => zoom(.7), "-": () => zoom(1 / .7), 0: showAll, Home: showAll, n: () => nextWait(1), p: () => nextWait(-1),
    m: () => { if (run.peak >= 0) { const at = run.at[run.peak], span = run.length / 40; setView(at - span, at + span); } },
    Escape: () => { kept = null; focus = {}; light(null); }};
  window.onkeydown = (event) => {
    if (event.target.tagName === "INPUT" || event.ctrlKey || event.metaKey || event.altKey) return;
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    if (!Object.hasOwn(keys, key)) return;
    event.preventDefault();
    keys[key]();
  };
  window.onresize = redraw;
  matchMedia("(prefers-color-scheme: dark)").onchange = () => { readColours(); redraw(); };
}
