// One operator in detail: verdicts, metrics, histogram of its errors, heat map.
const VERDICTS = ["shape", "dtype", "special values", "bits", "tolerance"];

function showDetail(panel, row) {
  if (!row) {
    panel.replaceChildren(element("p", { class: "soft" }, "Choose an operator: its metrics, error histogram and heat map are shown here."));
    return;
  }
  const parts = [
    element("div", { class: "title mono" }, row.name),
    element("div", { class: "soft" }, [row.what, row.class].filter(Boolean).join(" · ")),
    verdictChips(row.verdicts),
    element("p", {}, placeOf(row)),
    numbersOf(row),
  ];
  if (row.metrics && row.metrics.ulp.length > 0) {
    parts.push(element("h3", {}, "Errors in units in the last place"), ulpHistogram(row.metrics.ulp));
  }
  const grid = grids.get(row.index);
  if (grid) parts.push(element("h3", {}, "Where the errors are"), heatMap(grid, 376));
  if (row.notes.length > 0) {
    parts.push(element("h3", {}, "Notes"), element("ul", { class: "list" }, ...row.notes.map((n) => element("li", {}, n))));
  }
  if (page.b.address) parts.push(element("h3", {}, "Look closer"), copyable(viewCommand(row)));
  panel.replaceChildren(...parts);
  panel.scrollTop = 0;
}

// "s" same, "d" differs, "-" not judged, in the order of VERDICTS.
function verdictChips(letters) {
  const chip = (letter, i) => element("span",
    { class: letter === "d" ? "chip bad" : letter === "s" ? "chip good" : "chip" },
    `${VERDICTS[i]}: ${letter === "d" ? "differs" : letter === "s" ? "same" : "not judged"}`);
  return element("div", { class: "chips" }, ...[...letters].map(chip));
}

function placeOf(row) {
  const pairs = row.pairs === 1 ? "1 pair" : `${count(row.pairs)} pairs`;
  if (row.pairs === 1) return `step ${row.step}, rank ${row.rank}`;
  const shown = row.places.map(([step, rank]) => `step ${step} rank ${rank}`).join(", ");
  const more = row.failing > row.places.length ? ` and ${count(row.failing - row.places.length)} more` : "";
  const failing = row.failing > 0 ? `, ${count(row.failing)} outside (${shown}${more})` : "";
  return `${pairs}${failing}; shown: the worst, step ${row.step}, rank ${row.rank}`;
}

function shellWord(text) {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}
// Without values it prints what else was kept.
function viewCommand(row) {
  const values = row.has_values ? ` --values 8${row.at && ` --at ${row.at}`}` : "";
  return `tdump-view ${shellWord(`${page.b.address}:${row.step}/${row.rank === "all" ? 0 : row.rank}/${row.key}`)}${values}`;
}

function numbersOf(row) {
  const m = row.metrics;
  const lines = [["dtype", either(row.dtype_a, row.dtype_b)], ["shape", either(extent(row.shape_a), extent(row.shape_b))]];
  if (!m) lines.push(["compared by", row.evidence]);
  if (m) {
    // What is said of errors leaves out what is special on one side.
    const which = m.nan_mismatch + m.inf_mismatch > 0 ? " (where both are finite)" : "";
    lines.push(
      ["elements", count(m.elements)],
      ["bit for bit equal", count(m.bits_equal)],
      ["outside the bound", count(m.outside)],
      [`SQNR${which}`, row.sqnr === null ? "undefined" : row.sqnr === Infinity ? "exact" : `${row.sqnr.toFixed(2)} dB`],
      ["cosine", m.cosine === null ? "undefined" : String(m.cosine)],
      [`max abs${which}`, m.max_abs_text],
      ["max rel", short(m.max_rel)],
      ["mean abs", short(m.mean_abs)],
      ["mean of B − A", short(m.mean_error)],
      ["RMSE", short(m.rmse)],
      ["max ULP", short(m.max_ulp)],
      ["|error| 50 / 90 / 99 / 99.9 %", [m.p50, m.p90, m.p99, m.p999].map(short).join(" / ")],
      ["rms of A, of B", `${short(m.rms_a)}, ${short(m.rms_b)}`],
      ["NaN in A, in B; on one side", `${count(m.nan_a)}, ${count(m.nan_b)}; ${count(m.nan_mismatch)}`],
      ["Inf in A, in B; on one side", `${count(m.inf_a)}, ${count(m.inf_b)}; ${count(m.inf_mismatch)}`],
      ["other sign", count(m.sign_mismatch)]);
    if (m.channel !== null) lines.push(["worst channel (mean error)", `${count(m.channel[0])} (${short(m.channel[1])})`]);
    for (const [name, worst] of [["worst element", m.worst], ["largest relative error", m.worst_relative]]) {
      if (worst !== null) lines.push([name, extent(worst[0])], ["  in A", worst[1]], ["  in B", worst[2]]);
    }
    if (row.bound !== null) lines.push(["bound", page.bounds[row.bound]]);
  }
  return element("table", { class: "numbers" },
    ...lines.map(([name, value]) => element("tr", {}, element("th", { scope: "row" }, name), element("td", {}, value))));
}
const either = (a, b) => (a === b ? a : `${a} → ${b}`);

const brief = (n) => (n < 1e4 ? String(Math.round(n)) : n.toExponential(0).replace("e+", "e"));

// Bin 0 is no error, 1 less than one ULP, k from 2^(k - 2) on.
const ulpName = (bin) => (bin === 0 ? "0" : bin === 1 ? "<1" : bin < 9 ? String(2 ** (bin - 2)) : `2^${bin - 2}`);

function ulpHistogram(bins) {
  const width = 396, height = 130, base = height - 18, left = 42;
  const last = bins[bins.length - 1][0];
  const counts = new Array(last + 1).fill(0);
  bins.forEach(([bin, n]) => { counts[bin] = n; });
  const top = Math.log10(Math.max(...counts)) || 1;
  const step = (width - left) / counts.length;
  const svg = shape("svg", { viewBox: `0 0 ${width} ${height}`, width: "100%", role: "img",
    "aria-label": "Histogram of errors: " + bins.map(([bin, n]) => `${count(n)} from ${ulpName(bin)} ULP`).join(", ") });
  counts.forEach((n, bin) => {
    const tall = n === 0 ? 0 : Math.max(2, (Math.log10(n) / top) * (base - 8));
    const bar = shape("rect", { x: left + bin * step + 1, y: base - tall, width: Math.max(1, step - 2), height: tall,
      rx: 1, fill: `var(--${bin === 0 ? "equal" : "accent"})` });
    bar.append(shape("title", {}, `${count(n)} elements from ${ulpName(bin)} ULP`));
    svg.append(bar);
    const every = Math.ceil(counts.length / 8);
    if (bin % every === 0) {
      svg.append(shape("text", { x: left + (bin + 0.5) * step, y: height - 4, "text-anchor": "middle" }, ulpName(bin)));
    }
  });
  svg.append(shape("line", { x1: left, x2: width, y1: base, y2: base, stroke: "var(--line)" }));
  for (const power of [0, top]) {
    svg.append(shape("text", { x: left - 4, y: base - (power / top) * (base - 8) + 4, "text-anchor": "end" },
      brief(10 ** power)));
  }
  return svg;
}
