// Puts the page together.
function showSummary(section) {
  const kind = page.verdict === "same" ? "same" : page.verdict === "differs" ? "differs" : "other";
  const [first, ...others] = page.summary.split(/ {2,}/);
  section.append(element("div", { class: `verdict ${kind}`, id: "verdict" },
    element("b", {}, first), element("span", {}, others.join("  "))));
  const tile = (text, value, hot) => element("div", { class: hot && value > 0 ? "tile hot" : "tile" },
    element("b", {}, count(value)), element("span", { class: "soft" }, text));
  const { counts } = page, differing = counts.differing;
  section.append(element("div", { class: "tiles" },
    tile("pairs", counts.paired), tile("bit for bit equal", counts.bitwise_equal), tile("outside their bound", counts.failing, true),
    tile("shape differs", differing.shape, true), tile("dtype differs", differing.dtype, true),
    tile("NaN or Inf differ", differing.special, true), tile("without a partner", counts.unpaired_a + counts.unpaired_b, true)));
  const facts = page.facts.flatMap(([name, text]) => [element("dt", {}, name), element("dd", {}, text)]);
  section.append(element("div", { class: "card" }, element("dl", { class: "facts" }, ...facts)));
  document.title = `${first} – ${page.a.label} and ${page.b.label} – tdump-diff`;
}

function showOrigin(section) {
  const { origin } = page;
  if (!origin) return;
  section.hidden = false;
  const lines = element("div", {}, element("div", { class: "where" }, origin.title),
    ...origin.lines.map((line) => element("p", {}, line)));
  if (origin.command) lines.append(copyable(origin.command));
  section.append(element("div", { class: "columns" }, lines, origin.grid ? heatMap(origin.grid, 376) : null));
}

function showRest(section) {
  const list = (title, items) => {
    if (items.length === 0) return;
    section.append(element("h3", {}, title), element("ul", { class: "list" }, ...items.map((text) => element("li", {}, text))));
  };
  list("Without a partner", page.unpaired);
  list("Notes", page.notes);
  list("Damage", page.damage);
  if (section.children.length === 1) section.append(element("p", { class: "soft" }, "Nothing: every record has a partner."));
}

showSummary($("summary"));
showOrigin($("origin"));
const table = new OperatorTable($("operators"));
new Curve($("growth"));
new LayerMap($("map"), (layer) => {
  table.setLayer(layer);
  $("operators").scrollIntoView({ behavior: "smooth" });
});
showRest($("rest"));
listeners.push((row) => showDetail(table.detail, row));
table.update();
choose(originRow || rows.find((row) => row.failing > 0) || rows[0] || null);
if (chosen) table.reveal(chosen);

function setTheme(dark) {
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  $("theme").textContent = dark ? "Light" : "Dark";
  redraw();
}
function redraw() {
  colourCache.clear();
  document.querySelectorAll("canvas").forEach((canvas) => canvas.redraw());
}
$("theme").addEventListener("click", () => setTheme(document.documentElement.dataset.theme !== "dark"));
setTheme(matchMedia("(prefers-color-scheme: dark)").matches);
let resized = 0;
addEventListener("resize", () => {
  clearTimeout(resized);
  resized = setTimeout(() => {
    redraw();
    table.render();
  }, 100);
});
document.documentElement.dataset.ready = "yes";
