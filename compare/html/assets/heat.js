// The heat map of one tensor's errors: each cell is the largest |A - B| of a block of its last two dimensions.
const STOPS = [[13, 8, 60], [84, 15, 109], [157, 35, 106], [218, 68, 72], [247, 140, 45], [250, 226, 120]];

function heatColour(t) {
  const at = Math.max(0, Math.min(1, t)) * (STOPS.length - 1);
  const i = Math.min(STOPS.length - 2, Math.floor(at));
  const mix = STOPS[i].map((from, k) => Math.round(from + (STOPS[i + 1][k] - from) * (at - i)));
  return `rgb(${mix.join(",")})`;
}

function heatMap(grid, width) {
  const values = grid.values.map(number);
  const finite = values.filter((v) => v > 0 && Number.isFinite(v));
  const most = Math.max(...finite, 0);
  const least = Math.max(Math.min(...finite, most), most * 1e-6);
  const span = Math.log(most / least) || 1;
  const cellWidth = width / grid.columns, cellHeight = Math.max(6, Math.min(cellWidth, 260 / grid.rows));
  const canvas = element("canvas", { role: "img",
    "aria-label": `Heat map of ${grid.rows} by ${grid.columns} blocks, largest error ${short(most)}` });
  const draw = () => {
    const context = sizeCanvas(canvas, width, cellHeight * grid.rows);
    values.forEach((value, i) => {
      const x = (i % grid.columns) * cellWidth, y = Math.floor(i / grid.columns) * cellHeight;
      context.fillStyle = value === 0 ? colour("none") : !Number.isFinite(value) ? colour("special")
        : heatColour(Math.log(value / least) / span);
      context.fillRect(x, y, Math.ceil(cellWidth), Math.ceil(cellHeight));
    });
  };
  canvas.redraw = draw;
  draw();
  canvas.addEventListener("mousemove", (event) => {
    const column = Math.min(grid.columns - 1, Math.floor(event.offsetX / cellWidth));
    const line = Math.min(grid.rows - 1, Math.floor(event.offsetY / cellHeight));
    const value = grid.values[line * grid.columns + column];
    const text = value === "inf" ? "NaN or infinity on one side" : `largest |A − B| ${short(value)}`;
    showTip(event, `${blockOf(line, grid.rows, grid.height, "row")}, ${blockOf(column, grid.columns, grid.width, "column")}\n${text}`);
  });
  canvas.addEventListener("mouseleave", (event) => showTip(event, ""));
  const legend = element("div", { class: "scale" }, short(least),
    element("i", { style: `background: linear-gradient(90deg, ${[0, 0.2, 0.4, 0.6, 0.8, 1].map(heatColour).join(",")})` }),
    short(most), element("span", {}, "grey: no error"));
  const where = `step ${grid.step}, rank ${grid.rank}`;
  const what = grid.dimensions > 2 ? ", the largest over the other dimensions" : "";
  return element("div", { class: "heat" }, canvas, legend, element("p", { class: "soft" },
    `${where}; ${count(grid.height)} rows × ${count(grid.width)} columns: the last two dimensions${what}`));
}

// Block i of `blocks` over `size` indices, as the engine cuts them.
function blockOf(i, blocks, size, word) {
  const begin = Math.floor((i * size) / blocks), end = Math.floor(((i + 1) * size) / blocks) - 1;
  return begin === end ? `${word} ${begin}` : `${word}s ${begin}–${end}`;
}
