// The data of the page: rows become objects, one for each observation (a tensor at one point of one operator).
const page = JSON.parse($("data").textContent);

// Levels of difference, from none to the worst; the cells of the map use the same.
const LEVELS = [
  { name: "none", brief: "–", text: "not compared", bad: false },
  { name: "unjudged", brief: "not judged", text: "not judged", bad: false },
  { name: "equal", brief: "equal", text: "bit for bit equal", bad: false },
  { name: "within", brief: "within", text: "within bounds", bad: false },
  { name: "bits", brief: "bits", text: "bits differ, by how much is not known", bad: false },
  { name: "outside", brief: "outside", text: "outside its bound", bad: true },
  { name: "special", brief: "special", text: "shape, dtype, NaN or Inf", bad: true },
];

function toObject(columns, values) {
  const object = {};
  columns.forEach((column, i) => {
    object[column] = values[i];
  });
  return object;
}

const rows = page.observations.rows.map((values, index) => {
  const row = toObject(page.observations.columns, values);
  row.index = index;
  row.metrics = row.metrics && toObject(page.observations.metrics, row.metrics);
  row.sqnr = row.metrics ? number(row.metrics.sqnr_db) : row.level === 2 ? Infinity : null;
  row.by_step = row.by_step.map(number);
  // The parameter is in both: "fc.weight.exp_avg", "state weight.exp_avg".
  const own = row.role === "state" || row.role === "param" ? `.${row.what.slice(row.role.length + 1)}` : "";
  row.place = own.length > 1 && row.name.endsWith(own) ? row.name.slice(0, -own.length) : row.name;
  row.share = row.metrics && row.metrics.elements ? row.metrics.outside / row.metrics.elements : null;
  row.search = `${row.name} ${row.what} ${row.class}`.toLowerCase();
  return row;
});
const originRow = page.origin ? rows[page.origin.observation] || null : null;
const grids = new Map(page.grids.map((grid) => [grid.observation, grid]));

// What shows a row everywhere at once: the table, the curve and the details.
const listeners = [];
let chosen = null;
function choose(row) {
  chosen = row;
  listeners.forEach((listener) => listener(row));
}
