// The table.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

function rowsOfBuckets() {
  const buckets = new Map();
  for (const t of run.transfers) {
    const row = buckets.get(t.bucket) || {bucket: t.bucket, count: 0, size: 0, given: t.given, moves: 0, hidden: 0, exposed: 0, flight: 0, measured: 0, measuredExposed: 0, kinds: new Map()};
    buckets.set(t.bucket, row);
    ++row.count;
    row.size += t.size;
    for (const key of ["moves", "hidden", "exposed"]) row[key] += t[key];
    if (t.twin) { row.flight += t.flight; row.measured += t.twin.medianFlight; row.measuredExposed += t.twin.medianExposed; }
    row.kinds.set(t.kind, (row.kinds.get(t.kind) || 0) + 1);
  }
  return [...buckets.values()].map((row) => ({...row, kind: [...row.kinds].map(([kind, count]) => (count > 1 ? count + " " : "") + kind).join(", ")}));
}

function fillTable() {
  const columns = [["bucket", "bucket"], [byBucket ? "transfers" : "transfer", "kind"], ["bytes", "size", bytes], ["starts", "given", time],
    ...(byBucket ? [] : [["alone", "alone", time]]), ["moves", "moves", time], ["hidden", "hidden", time], ["exposed", "exposed", time], ["", "share"],
    ...(sets.length > 1 ? [["in flight", "flight", time], ["measured", "measured", time], ["ratio", "ratio", ratioText], ["exposed, measured", "measuredExposed", time]] : []),
    ...(byBucket ? [] : [["starts in front of", "startsAt"], ["waited for in front of", "waitsAt"]])];
  const all = (byBucket ? rowsOfBuckets() : run.transfers.map((t) => ({...t, transfer: t, measured: t.twin ? t.twin.medianFlight : 0, measuredExposed: t.twin ? t.twin.medianExposed : 0})))
    .map((row) => ({...row, ratio: row.measured ? row.flight / row.measured : 0}));
  const rows = all.filter((row) => !search || (row.bucket + " " + row.kind).toLowerCase().includes(search));
  if (order) rows.sort((a, b) => (a[order.key] < b[order.key] ? -1 : a[order.key] > b[order.key] ? 1 : 0) * (order.isDown ? -1 : 1));
  const longest = Math.max(...all.map((row) => Math.max(row.moves, row.exposed)), 1), head = element("tr");
  for (const [title, key, print] of columns) {
    const th = element("th", title + (order && order.key === key ? (order.isDown ? " ▾" : " ▴") : ""), print ? "n" : "");
    if (key !== "share") th.onclick = () => { order = {key, isDown: order && order.key === key ? !order.isDown : !!print && key !== "given"}; fillTable(); };
    head.append(th);
  }
  $("head").replaceChildren(head);
  $("rows").replaceChildren(...rows.map((row) => {
    const tr = element("tr");
    tr.bucket = row.bucket;
    tr.transfer = row.transfer;
    tr.classList.toggle("on", isRowLit(tr));
    for (const [, key, print] of columns) {
      const td = element("td", key === "share" ? undefined : row[key] === "" || (row[key] === 0 && key !== "given") ? "–" : print ? print(row[key]) : row[key], print ? "n" : "");
      if (key === "exposed" && row.exposed > 0) td.classList.add("bad");
      if (key === "share") {
        const bar = element("div", undefined, "share"), hidden = element("i"), exposed = element("i", undefined, "hatch");
        hidden.style.cssText = "width:" + 100 * row.hidden / longest + "%;background:" + (row.transfer ? STREAM_COLOURS[row.transfer.stream] || "#999" : "#6aab5e");
        exposed.style.width = 100 * row.exposed / longest + "%";
        bar.append(hidden, exposed);
        td.append(bar);
      }
      tr.append(td);
    }
    const what = row.transfer ? {transfer: row.transfer, bucket: row.bucket} : {bucket: row.bucket};
    tr.onmouseenter = () => light(what);
    tr.onmouseleave = () => light(null);
    tr.onclick = () => {
      kept = what;
      const mine = row.transfer ? [row.transfer] : run.transfers.filter((t) => t.bucket === row.bucket);
      show(Math.min(...mine.map((t) => t.given)), Math.max(...mine.map((t) => Math.max(t.end, t.asked))));
    };
    return tr;
  }));
}
