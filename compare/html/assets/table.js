// The table of operators. Only the rows in view are in the document, so 100,000 scroll like 100.
const ROW_HEIGHT = 34;
const ABOVE = 8; // rows kept beyond the view on either side

const metric = (name) => (row) => row.metrics && number(row.metrics[name]);
const COLUMNS = [
  { title: "#", width: 50, right: true, key: (r) => r.index, cell: (r) => count(r.index + 1) },
  { title: "State", width: 92, key: (r) => r.level, cell: stateOf, down: true },
  { title: "Operator", key: (r) => `${r.name} ${r.what}`, cell: nameOf },
  { title: "Failing", width: 78, right: true, key: (r) => r.failing, cell: failingOf, down: true },
  { title: "Outside", width: 80, right: true, key: (r) => r.share, cell: shareOf, down: true },
  { title: "Max abs", width: 88, right: true, key: metric("max_abs"), down: true,
    cell: (r) => (r.metrics ? specialOf(r.metrics) || r.metrics.max_abs_text : noneOf(r)) },
  { title: "Max rel", width: 76, right: true, key: metric("max_rel"), down: true,
    cell: (r) => (r.metrics ? short(r.metrics.max_rel) : noneOf(r)) },
  { title: "SQNR dB", width: 80, right: true, key: (r) => r.sqnr, cell: (r) => (r.metrics && specialOf(r.metrics) ? "–" : decibels(r.sqnr)) },
  { title: "Max ULP", width: 78, right: true, key: metric("max_ulp"), down: true,
    cell: (r) => (r.metrics ? short(r.metrics.max_ulp) : noneOf(r)) },
];

function stateOf(row) {
  const level = LEVELS[row.level];
  const dot = element("i", { style: `background: var(--${level.name})` });
  const text = row.allowed && level.bad ? "allowed" : level.brief;
  return element("span", { class: level.bad && !row.allowed ? "state bad" : "state", title: level.text }, dot, text);
}

// The end of a name says most: the start gives way.
function nameOf(row) {
  const cut = row.place.lastIndexOf(".", row.place.lastIndexOf(".") - 1) + 1;
  const name = element("span", { class: "name mono", title: row.name },
    element("span", { class: "head" }, row.place.slice(0, cut)), element("span", { class: "tail" }, row.place.slice(cut)));
  return element("span", { class: "operator" }, name, element("span", { class: "what" }, row.what));
}
// Of a pair whose values were not read: equal hashes leave no error.
function noneOf(row) {
  return row.level === 2 ? "0" : "–";
}
// NaN or an infinity on one side has no distance.
function specialOf(m) {
  return m.nan_mismatch > 0 ? "NaN" : m.inf_mismatch > 0 ? "Inf" : "";
}
function failingOf(row) {
  return row.failing ? `${count(row.failing)} of ${count(row.pairs)}` : "0";
}
function shareOf(row) {
  if (row.share === null) return noneOf(row);
  return row.share === 0 ? "0" : row.share < 1e-4 ? "<0.01 %" : `${(100 * row.share).toFixed(2)} %`;
}

const FILTERS = [
  ["all", "all", () => true],
  ["failing", "outside their bound", (r) => r.failing > 0],
  ["bits", "not bit for bit equal", (r) => r.level >= 3],
  ["equal", "bit for bit equal", (r) => r.level === 2],
  ["unjudged", "not judged", (r) => r.level <= 1],
];

function makeMatcher(text) {
  if (text.length > 2 && text.startsWith("/") && text.endsWith("/")) {
    try {
      const expression = new RegExp(text.slice(1, -1), "i");
      return (row) => expression.test(row.search);
    } catch {
      return () => false;
    }
  }
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  return (row) => words.every((word) => row.search.includes(word));
}

class OperatorTable {
  constructor(section) {
    this.shown = rows;
    this.layer = null;
    this.sort = { column: COLUMNS[0], down: false };
    this.active = 0;
    this.pending = false;
    this.addControls(section);
    this.body = element("tbody");
    this.heads = COLUMNS.map((column) => this.makeHead(column));
    const widths = COLUMNS.map((c) => element("col", c.width ? { style: `width: ${c.width}px` } : {}));
    this.table = element("table", { role: "grid", tabindex: "0", "aria-label": "Operators; arrow keys move, Enter shows details",
      keydown: (event) => this.onKey(event), focus: () => this.render(), blur: () => this.render() },
      element("colgroup", {}, ...widths), element("thead", {}, element("tr", {}, ...this.heads)), this.body);
    this.view = element("div", { class: "view", scroll: () => this.renderSoon() }, this.table);
    this.body.addEventListener("click", (event) => this.onClick(event));
    this.detail = element("aside", { class: "detail", "aria-live": "polite", "aria-label": "One operator in detail" });
    section.append(element("div", { class: "split" }, this.view, this.detail));
    listeners.push(() => this.render());
  }

  addControls(section) {
    this.search = element("input", { type: "search", id: "search", placeholder: "name, class, or /regex/",
      input: () => this.update() });
    const options = FILTERS.map(([value, text]) => element("option", { value }, text));
    this.filter = element("select", { id: "filter", change: () => this.update() }, ...options);
    const roles = [...new Set(rows.map((row) => row.role))].sort();
    this.role = element("select", { id: "role", change: () => this.update() },
      element("option", { value: "" }, "all"), ...roles.map((role) => element("option", {}, role)));
    this.layerChip = element("button", { type: "button", hidden: true, click: () => this.setLayer(null) });
    this.status = element("span", { class: "soft", id: "shown", role: "status" });
    section.append(element("div", { class: "bar" },
      element("label", {}, "Search", this.search), element("label", {}, "State", this.filter),
      element("label", {}, "Role", this.role), this.layerChip, this.status));
  }

  makeHead(column) {
    const button = element("button", { type: "button", click: () => this.sortBy(column) }, column.title);
    return element("th", { scope: "col", class: column.right ? "right" : null }, button);
  }

  sortBy(column) {
    const down = this.sort.column === column ? !this.sort.down : Boolean(column.down);
    this.sort = { column, down };
    this.update();
  }

  setLayer(layer) {
    this.layer = layer;
    this.layerChip.hidden = layer === null;
    if (layer !== null) this.layerChip.textContent = `${page.map.layers[layer]} ×`;
    this.update();
  }

  update() {
    const matches = makeMatcher(this.search.value.trim());
    const passes = FILTERS.find(([value]) => value === this.filter.value)[2];
    const role = this.role.value;
    this.shown = rows.filter((row) => passes(row) && (!role || row.role === role) &&
      (this.layer === null || row.layer === this.layer) && matches(row));
    this.order();
    this.heads.forEach((head, i) => {
      const sorted = this.sort.column === COLUMNS[i];
      const arrow = sorted ? (this.sort.down ? " ↓" : " ↑") : "";
      head.setAttribute("aria-sort", sorted ? (this.sort.down ? "descending" : "ascending") : "none");
      head.firstChild.textContent = COLUMNS[i].title + arrow;
    });
    this.table.setAttribute("aria-rowcount", this.shown.length + 1);
    this.status.textContent = `${count(this.shown.length)} of ${count(rows.length)}` +
      (page.observations.left_out ? `; ${count(page.observations.left_out)} more, all within bounds, are left out` : "");
    this.active = 0;
    this.view.scrollTop = 0;
    this.render();
  }

  // Rows without a value go last, whichever way.
  order() {
    const { column, down } = this.sort;
    const sign = down ? -1 : 1;
    const missing = (value) => value === null || value === undefined || Number.isNaN(value);
    this.shown.sort((x, y) => {
      const a = column.key(x), b = column.key(y);
      if (missing(a) || missing(b)) return missing(a) - missing(b) || x.index - y.index;
      return (a < b ? -sign : a > b ? sign : 0) || x.index - y.index;
    });
  }

  renderSoon() {
    if (this.pending) return;
    this.pending = true;
    requestAnimationFrame(() => {
      this.pending = false;
      this.render();
    });
  }

  render() {
    const first = Math.max(0, Math.floor(this.view.scrollTop / ROW_HEIGHT) - ABOVE);
    const last = Math.min(this.shown.length, first + Math.ceil(this.view.clientHeight / ROW_HEIGHT) + 2 * ABOVE);
    const gap = (n) => element("tr", { class: "gap", "aria-hidden": "true" },
      element("td", { style: `height: ${n * ROW_HEIGHT}px` }));
    const lines = [];
    for (let i = first; i < last; ++i) lines.push(this.makeLine(i));
    this.body.replaceChildren(gap(first), ...lines, gap(this.shown.length - last));
    this.table.setAttribute("aria-activedescendant", `row-${this.active}`);
  }

  makeLine(i) {
    const row = this.shown[i];
    const classes = [row === chosen ? "chosen" : "", i === this.active && document.activeElement === this.table ? "active" : ""];
    const cells = COLUMNS.map((c) => element("td", { class: c.right ? "right" : null }, c.cell(row)));
    return element("tr", { id: `row-${i}`, "data-at": i, "aria-rowindex": i + 2, "aria-selected": String(row === chosen),
      class: classes.join(" ").trim() || null }, ...cells);
  }

  onClick(event) {
    const line = event.target.closest("tr[data-at]");
    if (!line) return;
    this.active = Number(line.dataset.at);
    choose(this.shown[this.active]);
  }

  onKey(event) {
    const perPage = Math.floor(this.view.clientHeight / ROW_HEIGHT) - 2;
    const moves = { ArrowDown: 1, ArrowUp: -1, PageDown: perPage, PageUp: -perPage, Home: -Infinity, End: Infinity };
    if (event.target !== this.table) return;
    if (event.key === "Enter" && this.shown.length > 0) choose(this.shown[this.active]);
    else if (event.key in moves) this.moveTo(this.active + moves[event.key]);
    else return;
    event.preventDefault();
  }

  moveTo(at) {
    this.active = Math.max(0, Math.min(this.shown.length - 1, at));
    const top = this.active * ROW_HEIGHT, room = this.view.clientHeight - 2 * ROW_HEIGHT;
    if (top < this.view.scrollTop) this.view.scrollTop = top;
    else if (top > this.view.scrollTop + room) this.view.scrollTop = top - room;
    this.render();
  }

  // Shows a row that is among the shown ones.
  reveal(row) {
    const at = this.shown.indexOf(row);
    if (at < 0) return;
    this.active = at;
    this.view.scrollTop = at * ROW_HEIGHT - this.view.clientHeight / 3;
    this.render();
  }
}
