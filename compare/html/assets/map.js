// The map: layers down, ranks (or steps) across; each cell the worst that was found there.
class LayerMap {
  constructor(section, onLayer) {
    this.section = section;
    this.onLayer = onLayer;
    // Over all steps one fault is on all ranks that work with what it made.
    const several = page.map.steps.length > 1 && (page.origin || page.map.ranks.length <= 1);
    this.axis = several ? "steps" : "ranks";
    this.at = null; // [layer, column] of the keyboard
    this.canvas = element("canvas", { tabindex: "0", role: "img" });
    this.canvas.addEventListener("mousemove", (event) => showTip(event, this.textAt(this.cellOf(event))));
    this.canvas.addEventListener("mouseleave", (event) => showTip(event, ""));
    this.canvas.addEventListener("click", (event) => this.pick(this.cellOf(event)));
    this.canvas.addEventListener("keydown", (event) => this.onKey(event));
    this.canvas.addEventListener("blur", () => { this.at = null; this.draw(); });
    this.canvas.redraw = () => this.draw();
    this.said = element("p", { class: "soft", role: "status" },
      page.origin && this.axis === "steps" ? `The origin is in step ${page.origin.step}.` : "");
    const choice = element("select", { change: (event) => { this.axis = event.target.value; this.draw(); } },
      ...["ranks", "steps"].map((axis) => element("option", { value: axis, selected: axis === this.axis }, axis)));
    this.holder = element("div", { style: "overflow: auto; max-height: 440px" }, this.canvas);
    section.append(element("div", { class: "bar" }, element("label", {}, "Layers by", choice)), this.holder, this.said,
      legendOf(LEVELS.filter((level) => level.name !== "none")));
    this.draw();
  }

  // Columns are joined where there are more than pixels for them.
  draw() {
    const { layers } = page.map;
    const columns = page.map[this.axis];
    this.left = Math.min(190, 24 + 7 * Math.max(4, ...layers.map((layer) => layer.length)));
    const room = Math.max(120, this.section.clientWidth - 44 - this.left);
    this.joined = Math.max(1, Math.ceil((columns.length * 3) / room));
    this.columns = Math.ceil(columns.length / this.joined);
    this.wide = Math.max(3, Math.min(34, room / Math.max(1, this.columns)));
    this.tall = layers.length > 40 ? 11 : 18;
    const context = sizeCanvas(this.canvas, this.left + this.wide * this.columns + 4, this.tall * layers.length + 22);
    const colours = LEVELS.map((level) => colour(level.name));
    layers.forEach((layer, line) => {
      context.fillStyle = colour("soft");
      context.textAlign = "right";
      context.font = `${Math.min(12, this.tall - 1)}px system-ui, sans-serif`;
      const name = layer.length > 24 ? `…${layer.slice(-23)}` : layer;
      context.fillText(name, this.left - 8, (line + 1) * this.tall - Math.max(2, (this.tall - 10) / 2));
      for (let column = 0; column < this.columns; ++column) {
        this.drawCell(context, colours, line, column);
      }
    });
    this.drawScale(context, columns);
    const bad = layers.filter((_, line) => /[56]/.test(this.cells(line)));
    this.canvas.setAttribute("aria-label", `Map of ${layers.length} layers by ${columns.length} ${this.axis}. ` +
      (bad.length === 0 ? "Nothing is outside its bound." : `Outside their bound: ${bad.slice(0, 10).join(", ")}`));
  }

  drawCell(context, colours, line, column) {
    const level = this.levelAt(line, column);
    const x = this.left + column * this.wide, y = line * this.tall;
    const gap = this.wide > 6 ? 1 : 0;
    context.fillStyle = colours[level];
    context.fillRect(x, y, this.wide - gap, this.tall - 1);
    if (LEVELS[level].bad && this.wide >= 9) {
      context.fillStyle = colour("card");
      context.fillRect(x + this.wide / 2 - 2, y + this.tall / 2 - 2.5, 4, 4); // told apart without colour
    }
    if (this.at && this.at[0] === line && this.at[1] === column) {
      context.strokeStyle = colour("ink");
      context.lineWidth = 2;
      context.strokeRect(x, y, this.wide - gap, this.tall - 1);
    }
  }

  drawScale(context, columns) {
    context.fillStyle = colour("soft");
    context.textAlign = "left";
    context.font = "12px system-ui, sans-serif";
    const y = this.tall * page.map.layers.length + 15;
    const every = Math.max(1, Math.ceil(44 / this.wide));
    for (let column = 0; column < this.columns; column += every) {
      context.fillText(String(columns[column * this.joined]), this.left + column * this.wide, y);
    }
  }

  cells(line) { return page.map[this.axis === "ranks" ? "by_rank" : "by_step"][line]; }
  levelAt(line, column) {
    const cells = this.cells(line);
    let level = 0;
    for (let i = column * this.joined; i < Math.min(cells.length, (column + 1) * this.joined); ++i) {
      level = Math.max(level, Number(cells[i]));
    }
    return level;
  }
  cellOf(event) {
    const line = Math.floor(event.offsetY / this.tall), column = Math.floor((event.offsetX - this.left) / this.wide);
    const inside = line >= 0 && line < page.map.layers.length && column >= 0 && column < this.columns;
    return inside ? [line, column] : null;
  }
  textAt(cell) {
    if (!cell) return "";
    const columns = page.map[this.axis];
    const from = columns[cell[1] * this.joined];
    const to = columns[Math.min(columns.length, (cell[1] + 1) * this.joined) - 1];
    const word = this.axis.slice(0, -1);
    return `${page.map.layers[cell[0]]}, ${word} ${from === to ? from : `${from} to ${to}`}: ${LEVELS[this.levelAt(...cell)].text}`;
  }
  pick(cell) { if (cell) this.onLayer(cell[0]); }

  onKey(event) {
    const moves = { ArrowDown: [1, 0], ArrowUp: [-1, 0], ArrowRight: [0, 1], ArrowLeft: [0, -1] };
    if (event.key === "Enter") this.pick(this.at);
    else if (event.key in moves) this.move(moves[event.key]);
    else return;
    event.preventDefault();
  }
  move([down, right]) {
    const clamp = (value, size) => Math.max(0, Math.min(size - 1, value));
    const [line, column] = this.at || [-down, -right];
    this.at = [clamp(line + down, page.map.layers.length), clamp(column + right, this.columns)];
    this.said.textContent = this.textAt(this.at);
    this.draw();
  }
}

function legendOf(levels) {
  return element("div", { class: "legend" }, ...levels.map((level) =>
    element("span", {}, element("i", { style: `background: var(--${level.name})` }), level.text)));
}
