// The divergence curve: SQNR of every output in program order, the worst rank of a step. Down is worse.
const CURVE_HEIGHT = 380;

class Curve {
  constructor(section) {
    this.section = section;
    this.step = page.origin ? Math.max(0, page.steps.indexOf(page.origin.step)) : 0;
    this.points = rows.filter((row) => row.is_output);
    this.cursor = null;
    this.canvas = element("canvas", { tabindex: "0", role: "img" });
    this.canvas.addEventListener("mousemove", (event) => this.onMove(event));
    this.canvas.addEventListener("mouseleave", (event) => showTip(event, ""));
    this.canvas.addEventListener("click", (event) => this.pick(this.near(event)));
    this.canvas.addEventListener("keydown", (event) => this.onKey(event));
    this.said = element("p", { class: "soft", role: "status" },
      "Signal to error in dB, the worst rank; higher is closer. Click a point, or use the arrow keys.");
    const steps = page.steps.map((step, i) => element("option", { value: i, selected: i === this.step }, step));
    const choice = element("select", { change: (event) => { this.step = Number(event.target.value); this.draw(); } }, ...steps);
    if (steps.length > 1) section.append(element("div", { class: "bar" }, element("label", {}, "Step", choice)));
    section.append(this.canvas, this.said);
    this.canvas.redraw = () => this.draw();
    listeners.push(this.canvas.redraw);
    this.draw();
  }

  // In dB; Infinity: equal, "bits": not equal, by how much is not known, null: nothing is known.
  value(row) { return this.step < row.by_step.length ? row.by_step[this.step] : null; }

  draw() {
    const width = Math.max(300, this.section.clientWidth - 42);
    const context = sizeCanvas(this.canvas, width, CURVE_HEIGHT);
    const values = this.points.map((row) => this.value(row)).filter((v) => v !== null && !Number.isNaN(v));
    const finite = values.filter((v) => Number.isFinite(v));
    this.unknown = values.includes("bits");
    const least = finite.reduce((x, y) => Math.min(x, y), Infinity);
    this.low = Math.floor(Math.min(0, least) / 10) * 10;
    this.high = Math.ceil((finite.reduce((x, y) => Math.max(x, y), 20) + 5) / 10) * 10;
    this.box = { left: 46, right: width - 10, top: this.unknown ? 48 : 26, bottom: CURVE_HEIGHT - 22 };
    this.drawAxes(context);
    if (values.length === 0) this.sayWhyEmpty(context);
    this.points.forEach((row, i) => this.drawPoint(context, row, i));
    if (originRow) this.mark(context, originRow, "origin", colour("outside"));
    if (chosen && chosen !== originRow) this.mark(context, chosen, "chosen", colour("accent"));
    const worst = finite.length ? `, the lowest ${least.toFixed(1)} dB` : "";
    this.canvas.setAttribute("aria-label", `Error along the program: ${count(this.points.length)} outputs${worst}`);
  }

  sayWhyEmpty(context) {
    context.textAlign = "center";
    const text = this.points.length === 0
      ? "No output was recorded on both sides: nothing to draw."
      : "Of no output of this step values or hashes were kept on both sides: nothing to draw.";
    context.fillText(text, (this.box.left + this.box.right) / 2, (this.box.top + this.box.bottom) / 2);
  }

  x(i) { return this.box.left + ((i + 0.5) / Math.max(1, this.points.length)) * (this.box.right - this.box.left); }
  y(value) {
    if (value === "bits") return this.box.top - 14; // two bands above the scale
    if (value === Infinity) return this.box.top - (this.unknown ? 32 : 10);
    const share = (Math.max(this.low, value) - this.low) / (this.high - this.low);
    return this.box.bottom - share * (this.box.bottom - this.box.top);
  }

  drawAxes(context) {
    const { left, right, top, bottom } = this.box;
    context.strokeStyle = colour("line");
    context.fillStyle = colour("soft");
    context.textAlign = "right";
    const step = Math.max(10, Math.ceil((this.high - this.low) / 60) * 10);
    for (let db = this.low; db <= this.high; db += step) {
      context.beginPath();
      context.moveTo(left, this.y(db));
      context.lineTo(right, this.y(db));
      context.stroke();
      context.fillText(db, left - 8, this.y(db) + 4);
    }
    context.fillText("exact", left - 8, this.y(Infinity) + 4);
    if (this.unknown) context.fillText("bits", left - 8, this.y("bits") + 4);
    context.textAlign = "left";
    context.fillText("program order →", left, bottom + 17);
  }

  drawPoint(context, row, i) {
    const value = this.value(row);
    if (value === null || Number.isNaN(value)) return;
    const size = this.points.length > 2000 ? 2 : this.points.length > 300 ? 3 : 5;
    const differs = row.failing > 0 ? LEVELS[row.level].name : "within";
    context.fillStyle = colour2(value === Infinity ? "equal" : value === "bits" ? "bits" : differs);
    context.fillRect(this.x(i) - size / 2, this.y(value) - size / 2, size, size);
  }

  mark(context, row, label, paint) {
    const i = this.points.indexOf(row);
    if (i < 0) return;
    const x = this.x(i);
    context.strokeStyle = context.fillStyle = paint;
    context.setLineDash([4, 3]);
    context.beginPath();
    context.moveTo(x, this.y(Infinity) - 6);
    context.lineTo(x, this.box.bottom);
    context.stroke();
    context.setLineDash([]);
    context.textAlign = x > (this.box.left + this.box.right) / 2 ? "right" : "left";
    context.fillText(label, x + (context.textAlign === "left" ? 5 : -5), this.box.bottom - 6);
  }

  near(event) {
    const share = (event.offsetX - this.box.left) / (this.box.right - this.box.left);
    const i = Math.floor(share * this.points.length);
    return i >= 0 && i < this.points.length ? i : null;
  }
  text(i) {
    const row = this.points[i], value = this.value(row);
    const named = value === "bits" ? "bits differ, by how much is not known" : value === Infinity ? "exact" : "no SQNR";
    return `${row.name}, ${row.what}: ${Number.isFinite(value) ? `${value.toFixed(1)} dB` : named}`;
  }
  onMove(event) {
    const i = this.near(event);
    showTip(event, i === null ? "" : this.text(i));
  }
  pick(i) {
    if (i !== null && i < this.points.length) choose(this.points[i]);
  }
  onKey(event) {
    const moves = { ArrowRight: 1, ArrowLeft: -1, PageDown: 50, PageUp: -50, Home: -Infinity, End: Infinity };
    if (!(event.key in moves) || this.points.length === 0) return;
    const from = this.cursor === null ? this.points.indexOf(chosen) : this.cursor;
    this.cursor = Math.max(0, Math.min(this.points.length - 1, from + moves[event.key]));
    this.pick(this.cursor);
    this.said.textContent = this.text(this.cursor);
    event.preventDefault();
  }
}

// Looked up once a drawing, not once a point.
const colourCache = new Map();
function colour2(name) {
  if (!colourCache.has(name)) colourCache.set(name, colour(name));
  return colourCache.get(name);
}
