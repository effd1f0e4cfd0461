"""The HTML report in a browser (Debian's chromium): what it shows, how it is used, and that nothing leaves it."""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import struct
import sys
from pathlib import Path

import pytest
from conftest import BUILD, SOURCE, TDUMP_RUN, execute, mpirun

PROGRAM = BUILD / "bin" / "examples" / "tp_transformer"
CONFIG = SOURCE / "examples" / "tp_transformer" / "tdump.yaml"
CHROMIUM = shutil.which("chromium")
FAULT = "layers.1.mlp.down"
MANY = 10_000  # modules, each with an input and an output
EVIL = ["</script><script>owned=1</script>", "\"'><img src=x onerror='owned=1'>", "\x1b[31m\u202egnp\x07", "${owned=1}"]
JOB = f"""
import sys, torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        most = [float(sys.argv[1]) if i == 1000 else 9 for i in range({MANY} // 2)]
        self.layers = torch.nn.ModuleList(torch.nn.Sequential(torch.nn.Hardtanh(-9, m)) for m in most)
        for name in {EVIL!r}:
            self.add_module(name, torch.nn.ReLU())

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        for name in {EVIL!r}:
            x = getattr(self, name)(x)
        return x

with torch.no_grad():
    Net()(torch.linspace(-1, 1, 8))
"""

TRAINING = """
import sys, torch

torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(8, 64), torch.nn.Linear(64, 1))
opt = torch.optim.Adam(net.parameters())
for step in range(3):
    opt.zero_grad()
    net(torch.ones(4, 8)).sum().backward()
    if step == 1:
        opt.state[net[0].weight]["exp_avg"][0] += float(sys.argv[1])
    opt.step()
"""

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium")


def report(a: Path, b: Path, page: Path, *options: str, status: int = 1) -> str:
    """What the terminal says beside it."""
    done = execute([BUILD / "bin" / "tdump-diff", a, b, "--html", page, *options], page.parent)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def parallel(tmp_path_factory) -> tuple[Path, str]:
    """Of the C++ example on two ranks, with a fault in a shard of rank 1."""
    if not PROGRAM.exists():
        pytest.skip("built without the C++ examples")
    root = tmp_path_factory.mktemp("tp")
    for name, arguments in (("a", []), ("b", ["--fault", f"1:{FAULT}.weight:23"])):
        done = mpirun(2, [TDUMP_RUN, "-c", CONFIG, "-o", root / name, "--", PROGRAM, *arguments], root)
        assert done.returncode == 0, done.stderr
    return root / "report.html", report(root / "a", root / "b", root / "report.html")


@pytest.fixture(scope="module")
def many(tmp_path_factory) -> Path:
    """10,000 observations, one of them where the runs part, and hostile names."""
    root = tmp_path_factory.mktemp("many")
    (root / "app.py").write_text(JOB)
    config = "steps: 0\ncapture: [{role: [input, output], level: full}]\n"
    (root / "c.yaml").write_text(config)
    for name, most in (("a", 9), ("b", 0.5)):
        done = execute([TDUMP_RUN, "-c", "c.yaml", "-o", name, "--", sys.executable, "app.py", str(most)], root)
        assert done.returncode == 0, done.stderr
    report(root / "a", root / "b", root / "report.html")
    return root / "report.html"


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    """Three steps, of which only the hash was kept of what Adam keeps; in step 1 that differs, and nothing before."""
    root = tmp_path_factory.mktemp("trained")
    (root / "app.py").write_text(TRAINING)
    rules = "{role: [input, output, param_grad], level: full}, {role: [state], level: hash}"
    (root / "c.yaml").write_text(f"steps: 0-2\ncapture: [{rules}]\n")
    for name, fault in (("a", 0), ("b", 1)):
        done = execute([TDUMP_RUN, "-c", "c.yaml", "-o", name, "--", sys.executable, "app.py", str(fault)], root)
        assert done.returncode == 0, done.stderr
    report(root / "a", root / "b", root / "report.html")
    return root / "report.html"


class Browser:
    """Chromium without a window and without a network, on one page at a time."""

    def __init__(self, scratch: Path) -> None:
        self.scratch = scratch

    def run(self, page: Path, *options: str) -> str:
        root = ["--no-sandbox"] if os.geteuid() == 0 else []
        quiet = ["--headless=new", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--no-first-run"]
        offline = ["--host-resolver-rules=MAP * ~NOTFOUND", "--disable-background-networking"]
        profile = f"--user-data-dir={self.scratch / 'profile'}"
        command = [CHROMIUM, *root, *quiet, *offline, profile, "--virtual-time-budget=8000", *options, page.as_uri()]
        done = execute(command, self.scratch, {"HOME": str(self.scratch)})
        assert done.returncode == 0, done.stderr
        return done.stdout

    def dom(self, page: Path, width: int = 1440) -> str:
        return self.run(page, "--dump-dom", f"--window-size={width},1000")

    def ask(self, page: Path, script: str, width: int = 1440) -> dict:
        """Runs `script` in the page when it is drawn; what it puts into `said`."""
        copy = self.scratch / "asked.html"
        text = page.read_text(encoding="utf-8")
        body = f"""<script>
          const said = {{}};
          const settle = () => new Promise((done) => setTimeout(done, 100));
          const key = (node, name) => node.dispatchEvent(new KeyboardEvent("keydown", {{ key: name, bubbles: true }}));
          const type = (node, text) => {{ node.value = text; node.dispatchEvent(new Event("input")); }};
          const pick = (node, value) => {{ node.value = value; node.dispatchEvent(new Event("change")); }};
          const lines = () => [...document.querySelectorAll("#operators tr[data-at]")];
          const names = () => lines().map((line) => line.querySelector(".name").textContent);
          (async () => {{
            await settle();
            try {{ {script} }} catch (error) {{ said.error = String(error.stack); }}
            const result = document.createElement("pre");
            result.id = "result";
            result.textContent = JSON.stringify(said);
            document.body.append(result);
          }})();
        </script></body>"""
        # Without a screen there may be no frames: timers stand in for them.
        timers = "<body><script>window.requestAnimationFrame = (draw) => setTimeout(draw, 16);</script>"
        copy.write_text(text.replace("<body>", timers, 1).replace("</body>", body), encoding="utf-8")
        found = re.search(r'<pre id="result">(.*?)</pre>', self.dom(copy, width), re.DOTALL)
        assert found, "the script did not end"
        said = json.loads(html.unescape(found[1]))
        assert "error" not in said, said["error"]
        return said

    def picture(self, page: Path, name: str, width: int, height: int) -> bytes:
        file = self.scratch / name
        self.run(page, f"--screenshot={file}", f"--window-size={width},{height}")
        return file.read_bytes()


@pytest.fixture(scope="module")
def browser(tmp_path_factory) -> Browser:
    return Browser(tmp_path_factory.mktemp("browser"))


def text_of(dom: str) -> str:
    """Without scripts, styles and tags."""
    dom = re.sub(r"<(script|style)\b.*?</\1>", "", dom, flags=re.DOTALL)
    return html.unescape(re.sub(r"<[^>]+>", "\n", dom))


def test_the_page_says_what_the_terminal_says(parallel, browser):
    page, terminal = parallel
    dom = browser.dom(page)
    assert 'data-ready="yes"' in dom
    text = text_of(dom)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    verdict = re.search(r"^DIFFERS  (.*)$", terminal, re.MULTILINE)[1]
    assert lines[lines.index("DIFFERS") + 1] == verdict
    origin = re.search(r"^ORIGIN    (.*)$", terminal, re.MULTILINE)[1]
    assert origin == f"rank 1, step 0, {FAULT}, tap partial" and origin in lines
    said = [line.strip() for line in terminal[terminal.index("ORIGIN") :].split("\n\n")[0].splitlines()[1:]]
    assert len(said) > 3 and all(line in " ".join(lines) for line in said)
    assert re.search(r"look closer: (.*)$", terminal, re.MULTILINE)[1] in lines
    assert re.search(r"<title>DIFFERS – .*a@0 and .*b@0 – tdump-diff</title>", dom)


def test_nothing_is_loaded(parallel, browser):
    said = browser.ask(
        parallel[0],
        """
        said.loaded = performance.getEntriesByType("resource").map((entry) => entry.name);
        said.blocked = await fetch("https://example.invalid/").then(() => "open", () => "blocked");
        """,
    )
    assert said == {"loaded": [], "blocked": "blocked"}


def test_the_map_shows_where_it_differs(parallel, browser):
    said = browser.ask(
        parallel[0],
        """
        const canvas = document.querySelector("#map canvas");
        pick(document.querySelector("#map select"), "ranks");
        said.label = canvas.getAttribute("aria-label");
        const data = JSON.parse(document.getElementById("data").textContent).map;
        said.layers = data.layers;
        said.cells = data.by_rank;
        said.first_step = data.by_step.map((cells) => cells[0]);
        // The colour in the corner of each cell of the line of the layer with the fault.
        const scale = window.devicePixelRatio || 1;
        canvas.focus();
        const tall = (canvas.height / scale - 22) / data.layers.length;
        const line = data.layers.indexOf("layers.1");
        const left = canvas.width / scale - 4 - 2 * 34;
        const paint = canvas.getContext("2d");
        said.colours = [0, 1].map((rank) =>
          [...paint.getImageData((left + rank * 34 + 4) * scale, (line * tall + 4) * scale, 1, 1).data].slice(0, 3));
        const swatch = document.createElement("canvas").getContext("2d");
        said.outside = ["outside", "equal"].map((name) => {
          swatch.fillStyle = getComputedStyle(document.documentElement).getPropertyValue(`--${name}`);
          swatch.fillRect(0, 0, 1, 1);
          return [...swatch.getImageData(0, 0, 1, 1).data].slice(0, 3);
        });
        key(canvas, "ArrowDown"); key(canvas, "ArrowRight");
        said.spoken = document.querySelector("#map p[role=status]").textContent;
        key(canvas, "Enter");
        said.filtered = [...new Set(lines().map((l) => l.querySelector(".name").title.split(".")[0]))];
        """,
    )
    line = said["layers"].index("layers.1")
    assert said["cells"][line] == "55"
    assert said["first_step"][said["layers"].index("layers.0")] == "2" and said["first_step"][line] == "5"
    assert said["colours"] == [said["outside"][0]] * 2
    assert (
        said["label"].startswith("Map of 10 layers by 2 ranks. Outside their bound: ") and "layers.1" in said["label"]
    )
    assert re.fullmatch(r".+, rank 1: .+", said["spoken"])
    assert len(said["filtered"]) == 1


def test_the_curve_shows_the_error_along_the_program(parallel, browser):
    """Every output in its column, exact ones above the scale, the others as far down as their error says."""
    said = browser.ask(
        parallel[0],
        """
        const canvas = document.querySelector("#growth canvas");
        said.label = canvas.getAttribute("aria-label");
        const { observations } = JSON.parse(document.getElementById("data").textContent);
        const points = observations.rows
          .map((row) => Object.fromEntries(observations.columns.map((name, i) => [name, row[i]])))
          .filter((row) => row.is_output);
        said.names = points.map((row) => row.name);
        said.values = points.map((row) => row.by_step[0]);
        said.failing = points.map((row) => row.failing > 0);
        // The first pixel of a point's colour, from above, in the column where the point belongs.
        const scale = window.devicePixelRatio || 1, width = canvas.width / scale;
        const at = (i) => 46 + ((i + 0.5) / points.length) * (width - 10 - 46);
        const swatch = document.createElement("canvas").getContext("2d");
        const colours = ["equal", "within", "outside"].map((name) => {
          swatch.fillStyle = getComputedStyle(document.documentElement).getPropertyValue(`--${name}`);
          swatch.fillRect(0, 0, 1, 1);
          return [name, [...swatch.getImageData(0, 0, 1, 1).data].slice(0, 3).join()];
        });
        const paint = canvas.getContext("2d");
        said.seen = points.map((_, i) => {
          const column = paint.getImageData(Math.floor(at(i) * scale), 0, 1, canvas.height).data;
          for (let y = 0; y < canvas.height; ++y) {
            const found = colours.find(([, colour]) => colour === column.slice(4 * y, 4 * y + 3).join());
            if (found) return [found[0], y / scale];
          }
          return null;
        });
        const spoken = () => document.querySelector("#growth p[role=status]").textContent;
        const title = () => document.querySelector(".detail .title").textContent;
        canvas.focus();
        key(canvas, "Home");
        said.first = [spoken(), title()];
        key(canvas, "ArrowRight");
        said.second = [spoken(), title()];
        key(canvas, "End");
        said.last = [spoken(), title()];
        const box = canvas.getBoundingClientRect();
        canvas.dispatchEvent(new MouseEvent("click", { clientX: box.left + at(2), clientY: box.top + 50, bubbles: true }));
        said.clicked = title();
        """,
    )
    names, values, seen = said["names"], said["values"], said["seen"]
    finite = [value for value in values if isinstance(value, float | int)]
    assert len(finite) > 3 and "inf" in values
    assert said["label"] == f"Error along the program: {len(names)} outputs, the lowest {min(finite):.1f} dB"
    origin = names.index(f"{FAULT}/partial")  # a line marks its column
    others = [i for i, value in enumerate(values) if value is not None and i != origin]
    exact = [seen[i] for i in others if values[i] == "inf"]
    assert exact and {tuple(point) for point in exact} == {("equal", exact[0][1])}
    differing = sorted((i for i in others if values[i] != "inf"), key=lambda i: -values[i])
    (best, top), (worst, bottom) = ((values[i], seen[i][1]) for i in (differing[0], differing[-1]))
    assert exact[0][1] < top < bottom
    for i in differing:  # in proportion, to a pixel
        assert seen[i][1] == pytest.approx(top + (bottom - top) * (best - values[i]) / (best - worst), abs=1), names[i]
        assert seen[i][0] == ("outside" if said["failing"][i] else "within"), names[i]
    for (spoken, title), i in ((said["first"], 0), (said["second"], 1), (said["last"], -1)):
        assert title == names[i] and spoken.startswith(f"{names[i]}, ")
        assert spoken.endswith(": exact" if values[i] == "inf" else f": {values[i]:.1f} dB")
    assert said["clicked"] == names[2]


def test_one_operator_in_detail(parallel, browser):
    """The origin is chosen at first: verdicts, metrics, histogram, heat map."""
    said = browser.ask(
        parallel[0],
        """
        const detail = document.querySelector(".detail");
        said.title = detail.querySelector(".title").textContent;
        said.chips = [...detail.querySelectorAll(".chip.bad")].map((chip) => chip.textContent);
        said.numbers = Object.fromEntries([...detail.querySelectorAll(".numbers tr")].map((tr) =>
          [tr.cells[0].textContent, tr.cells[1].textContent]));
        said.bars = [...detail.querySelectorAll("svg rect title")].map((title) => title.textContent);
        const heat = detail.querySelector("canvas");
        said.heat = heat.getAttribute("aria-label");
        const pixels = heat.getContext("2d").getImageData(0, 0, heat.width, heat.height).data;
        said.colours = new Set(Array.from({ length: pixels.length / 4 }, (_, i) => pixels.slice(4 * i, 4 * i + 3).join())).size;
        """,
    )
    assert said["title"] == f"{FAULT}/partial"
    assert said["chips"] == ["bits: differs", "tolerance: differs"]
    numbers = said["numbers"]
    assert numbers["dtype"] == "float32" and re.fullmatch(r"-?\d+\.\d\d dB", numbers["SQNR"])
    elements, equal = (int(numbers[n].replace(",", "")) for n in ("elements", "bit for bit equal"))
    counted = sum(int(bar.split(" ")[0].replace(",", "")) for bar in said["bars"] if bar[0] != "0")
    assert counted == elements > equal
    assert re.match(r"Heat map of \d+ by \d+ blocks", said["heat"]) and said["colours"] > 10


def test_bits_that_differ_by_hash_are_no_equal_ones(trained, browser):
    """The origin's row, its pair and its point on the curve; nothing of it is cut off in a window of 1300."""
    said = browser.ask(
        trained,
        """
        const spoken = () => document.querySelector("#growth p[role=status]").textContent;
        said.origin = document.querySelector("#origin .where").textContent;
        const row = document.querySelector("tr.chosen");
        said.row = [".state", ".name", ".what"].map((part) => row.querySelector(part).textContent);
        said.colour = row.querySelector(".state i").style.background;
        said.chips = [...document.querySelectorAll(".detail .chip")].map((chip) => chip.textContent);
        said.place = document.querySelector(".detail").textContent;
        said.map = document.querySelector("#map canvas").getAttribute("aria-label");
        said.step = document.querySelector("#growth select").selectedOptions[0].textContent;
        const canvas = document.querySelector("#growth canvas");
        key(canvas, "ArrowRight"); key(canvas, "ArrowLeft");
        said.point = spoken();
        const view = document.querySelector(".view");
        said.wide = [view.scrollWidth, view.clientWidth];
        said.cut = lines().flatMap((line) => [...line.cells].slice(3)).filter((cell) => cell.scrollWidth > cell.clientWidth)
          .map((cell) => cell.textContent);
        const tail = row.querySelector(".tail");
        said.tail = tail.scrollWidth <= tail.clientWidth;
        """,
        width=1300,
    )
    assert said["origin"] == "rank 0, step 1, 0, state weight.exp_avg"
    assert said["row"] == ["bits", "0", "state weight.exp_avg"] and said["colour"] == "var(--bits)"
    assert {"bits: differs", "tolerance: not judged"} <= set(said["chips"])
    assert "shown: the worst, step 1, rank 0" in said["place"]
    assert said["map"].startswith("Map of ") and " by 3 steps." in said["map"]
    assert said["step"] == "1"
    assert said["point"] == "0.weight.exp_avg, state weight.exp_avg: bits differ, by how much is not known"
    assert said["wide"][0] == said["wide"][1] and said["cut"] == [] and said["tail"]


def test_ten_thousand_operators_stay_quick(many, browser):
    said = browser.ask(
        many,
        """
        const view = document.querySelector(".view"), table = view.querySelector("table");
        said.rows = Number(table.getAttribute("aria-rowcount"));
        said.in_document = lines().length;
        said.chosen = document.querySelector("tr.chosen .name").textContent;
        table.focus();
        key(table, "End");
        said.last = Number(lines().at(-1).getAttribute("aria-rowindex"));
        key(table, "Home"); key(table, "ArrowDown"); key(table, "ArrowDown"); key(table, "Enter");
        said.third = [document.querySelector("tr.chosen").getAttribute("aria-rowindex"),
          document.querySelector(".detail .title").textContent];
        said.third_name = names()[2];
        view.scrollTop = 34 * 5000;
        await settle();
        said.middle = lines().map((line) => Number(line.dataset.at));
        type(document.getElementById("search"), "layers.1234.0 output");
        said.found = names();
        type(document.getElementById("search"), "/layers\\\\.12[0-3]\\\\.0 input/");
        said.by_expression = names().length;
        type(document.getElementById("search"), "");
        pick(document.getElementById("filter"), "failing");
        said.failing = Number(table.getAttribute("aria-rowcount")) - 1;
        pick(document.getElementById("role"), "input");
        said.failing_inputs = Number(table.getAttribute("aria-rowcount")) - 1;
        pick(document.getElementById("filter"), "all"); pick(document.getElementById("role"), "");
        const head = [...document.querySelectorAll("th button")].find((b) => b.textContent.startsWith("SQNR"));
        head.click();
        said.sorted = [head.parentNode.getAttribute("aria-sort"),
          lines().slice(0, 50).map((line) => Number(line.cells[7].textContent))];
        """,
    )
    expected = 2 * (MANY + len(EVIL) + 1)  # Sequential and Hardtanh, the hostile ones, the whole net
    assert said["rows"] == expected + 1
    assert 0 < said["in_document"] < 60
    assert said["chosen"] == "layers.1000.0"
    assert said["last"] == expected + 1
    assert said["third"] == ["4", said["third_name"]]
    assert min(said["middle"]) <= 5000 <= max(said["middle"]) and len(said["middle"]) < 60
    assert said["found"] == ["layers.1234.0"] and said["by_expression"] == 4
    later = MANY // 2 - 1001  # blocks after the one that differs, of two modules each
    assert said["failing"] == 2 + 4 * later + 2 * len(EVIL) + 1
    assert said["failing_inputs"] == 2 * later + len(EVIL)
    order, sqnr = said["sorted"]
    assert order == "ascending" and sqnr == sorted(sqnr) and len(sqnr) > 20


def test_hostile_names_stay_text(many, browser):
    said = browser.ask(
        many,
        """
        said.owned = typeof owned;
        said.images = document.images.length;
        said.scripts = document.scripts.length;
        type(document.getElementById("search"), "script");
        said.script = names();
        lines()[0].click();
        said.detail = document.querySelector(".detail .title").textContent;
        type(document.getElementById("search"), "gnp");
        said.control = names();
        """,
    )
    assert said["owned"] == "undefined" and said["images"] == 0
    assert said["scripts"] == 4  # the data, the page's own, two of the test
    assert said["script"] == [EVIL[0]] * 2 and said["detail"] == EVIL[0]
    assert said["control"] == ["\\x1b[31m\\xe2\\x80\\xaegnp\\x07"] * 2


def test_light_and_dark_can_be_read(parallel, browser):
    """Contrast of every text colour on its ground: at least 4.5 to 1 (WCAG 2.2, 1.4.3), in both themes."""
    said = browser.ask(
        parallel[0],
        """
        const paint = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
        const luminance = (name) => {
          paint.fillStyle = getComputedStyle(document.documentElement).getPropertyValue(`--${name}`);
          paint.fillRect(0, 0, 1, 1);
          const [r, g, b] = [...paint.getImageData(0, 0, 1, 1).data].map((c) => c / 255)
            .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
          return 0.2126 * r + 0.7152 * g + 0.0722 * b;
        };
        const contrast = (a, b) => {
          const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y);
          return (high + 0.05) / (low + 0.05);
        };
        const pairs = [["ink", "card"], ["ink", "back"], ["ink", "hover"], ["ink", "code"], ["soft", "card"], ["soft", "back"],
          ["soft", "hover"], ["accent", "card"], ["good", "good-back"], ["bad", "bad-back"], ["bad", "card"], ["bad", "hover"],
          ["warn", "warn-back"], ["card", "ink"]];
        said.themes = [];
        for (let i = 0; i < 2; ++i) {
          said.themes.push(document.documentElement.dataset.theme);
          said[said.themes[i]] = pairs.map(([a, b]) => [`${a} on ${b}`, contrast(a, b)]);
          document.getElementById("theme").click();
        }
        const named = (node) => node.textContent.trim() || node.getAttribute("aria-label") || node.closest("label");
        said.nameless = [...document.querySelectorAll("button:not([hidden]), select, input, canvas")]
          .filter((node) => !named(node)).map((node) => node.outerHTML);
        """,
    )
    assert sorted(said["themes"]) == ["dark", "light"]
    for theme in said["themes"]:
        assert [pair for pair in said[theme] if pair[1] < 4.5] == [], theme
    assert said["nameless"] == []


def test_a_screenshot(parallel, browser):
    picture = browser.picture(parallel[0], "report.png", 1440, 2000)
    assert picture.startswith(b"\x89PNG\r\n\x1a\n")
    assert struct.unpack(">II", picture[16:24]) == (1440, 2000)
    assert len(picture) > 50_000  # text and charts, not an empty page


def test_equal_runs_and_runs_that_cannot_be_compared(parallel, browser, tmp_path):
    a = parallel[0].parent / "a"
    report(a, a, tmp_path / "same.html", status=0)
    same = text_of(browser.dom(tmp_path / "same.html"))
    assert re.search(r"SAME\s+[\d,]+ of [\d,]+ bit for bit", same) and "Nothing: every record has a partner." in same
    report(a, a, tmp_path / "none.html", "--select", "^there is no such name$", status=2)
    assert re.search(
        r"NOT COMPARABLE\s+the paired steps hold no selected record", text_of(browser.dom(tmp_path / "none.html"))
    )
