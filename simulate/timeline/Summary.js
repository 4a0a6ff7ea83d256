// What stands around.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

function tile(name, value, kind) {
  const e = element("div", undefined, "tile" + (kind ? " " + kind : ""));
  e.append(element("b", value), element("span", name));
  $("tiles").append(e);
}

// Parts are [name, amount, colour or class].
function stack(bar, legend, parts, whole, print) {
  for (const [name, amount, colour] of parts) {
    if (!(amount > 0)) continue;
    const isClass = !colour.startsWith("#"), piece = element("i", undefined, isClass ? colour : "");
    piece.style.width = 100 * amount / whole + "%";
    if (!isClass) piece.style.background = colour;
    piece.title = name + ": " + print(amount);
    bar.append(piece);
    const label = element("span"), swatch = element("span", undefined, "swatch" + (isClass ? " " + colour : ""));
    if (!isClass) swatch.style.background = colour;
    label.append(swatch, name + " ", element("b", print(amount)));
    legend.append(label);
  }
}

function summarise() {
  const memory = DATA.memory, step = DATA.length, fits = memory.held <= memory.capacity;
  document.title = "predicted step: " + DATA.title + " on " + DATA.cluster;
  $("title").append((DATA.title || "a step") + " on " + DATA.cluster,
    element("small", DATA.ranks + (DATA.ranks === 1 ? " rank on " : " ranks on ") + DATA.nodes + (DATA.nodes === 1 ? " node" : " nodes") + ", predicted" + (DATA.measured ? " and measured" : "")));
  tile(DATA.programs.length > 1 ? "step, all micro-batches" : "step", time(step));
  if (DATA.measured) {
    const measured = DATA.measured, ratio = step / (measured.length || 1);
    tile("measured, in the median of " + measured.steps + (measured.steps === 1 ? " step" : " steps") + " on " + measured.ranks + (measured.ranks === 1 ? " rank" : " ranks"), time(measured.length));
    tile("predicted over measured", ratioText(ratio), Math.abs(Math.log(ratio)) > .15 ? "bad" : "good");
  }
  tile("in kernels", percent(DATA.compute, step));
  tile("exposed communication", percent(DATA.exposed, step), DATA.exposed > .05 * step ? "bad" : "");
  if (DATA.idle > .001 * step) tile("waiting for the host", percent(DATA.idle, step), DATA.idle > .05 * step ? "bad" : "");
  if (step) tile("TFLOP/s of a rank", (DATA.flops / step / 1e3).toFixed(DATA.flops / step < 1e4 ? 2 : 0));
  tile("moved in collectives", bytes(DATA.wireBytes));
  tile(fits ? "it fits: of " + bytes(memory.capacity) : "does not fit: of " + bytes(memory.capacity), bytes(memory.held), fits ? "good" : "bad");
  const sums = DATA.kinds.map((_, kind) => DATA.programs.reduce((sum, p) => sum + p.runs * (p.byKind[kind] || 0), 0));
  const kinds = DATA.kinds.map((name, kind) => [name, sums[kind], KIND_COLOURS[name] || "#999999"]).sort((a, b) => b[1] - a[1]);
  stack($("timebar"), $("timelegend"), [...kinds, ["exposed", DATA.exposed, "hatch"], ["waiting for the host", DATA.idle, "empty"]], step || 1,
    (amount) => time(amount) + ", " + percent(amount, step));
  if (DATA.measured) summariseMeasured();
  if (DATA.fusion) summariseFusion();
  const amounts = MEMORY.map(([name]) => memory[name]), tensors = amounts.slice(0, 7).reduce((a, b) => a + b, 0);
  amounts[7] = Math.max(0, memory.planned - tensors);
  amounts[8] = memory.isHost ? memory.host : 0;
  amounts[9] = memory.scratch;
  amounts[10] = memory.reserved;
  amounts[11] = memory.communicators;
  const whole = Math.max(memory.capacity, memory.held) || 1;
  // A few scalars say nothing.
  const parts = MEMORY.map(([name, colour], i) => [name, amounts[i], colour]).filter((part) => part[1] > memory.planned / 5000);
  stack($("memorybar"), $("memorylegend"), parts, whole, bytes);
  if (fits) $("memorylegend").append(element("span", "free " + bytes(memory.capacity - memory.held)));
  else { const limit = element("em"); limit.style.left = 100 * memory.capacity / whole + "%"; limit.title = "the device has " + bytes(memory.capacity); $("memorybar").append(limit); }
  if (memory.scratchUnknown.length) $("memorylegend").append(element("span", "unknown: temporaries of " + memory.scratchUnknown.join(", ")));
  if (memory.host && !memory.isHost) $("memorylegend").append(element("span", "beside it, on the host: " + bytes(memory.host)));
  $("memorytitle").textContent = "Memory of a rank at its peak: " + bytes(memory.held) + " of " + bytes(memory.capacity) + (fits ? "" : ", " + bytes(memory.held - memory.capacity) + " are missing");
}

function makeTools() {
  if (DATA.programs.length > 1)
    DATA.programs.forEach((raw, i) => {
      const button = element("button", raw.name + (raw.runs === 1 ? "" : " × " + raw.runs) + ", " + time(raw.length));
      button.dataset.program = i;
      button.onclick = () => choose(raw);
      $("tools").append(button);
    });
  const box = document.createElement("input"), label = element("label");
  box.type = "checkbox";
  box.checked = showStates = DATA.memory.states < .85 * DATA.memory.planned;
  box.onchange = () => { showStates = box.checked; redraw(); };
  label.append(box, " memory with states");
  const inView = element("span");
  inView.id = "inview";
  $("tools").append(label, inView);
  const views = [["buckets", true], ["transfers", false]].map(([name, which]) => {
    const button = element("button", name, which === byBucket ? "on" : "");
    button.onclick = () => { byBucket = which; order = null; views.forEach((b) => b.classList.toggle("on", b === button)); fillTable(); };
    return button;
  });
  const find = document.createElement("input");
  find.type = "search";
  find.placeholder = "find a bucket";
  find.oninput = () => { search = find.value.toLowerCase(); fillTable(); };
  $("tabletools").append(...views, find);
}

readColours();
summarise();
makeTools();
listen();
if (DATA.programs.length) choose(DATA.programs.reduce((a, b) => b.length * b.runs > a.length * a.runs ? b : a));
