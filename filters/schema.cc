#include "filters/schema.h"

#include <cstdio>

#include "filters/regex.h"
#include "filters/units.h"

namespace tdump::filters {
namespace {

std::string Text(bool value) { return value ? "true" : "false"; }
std::string OnOff(bool value) { return value ? "on" : "off"; }
std::string AutoOnOff(Tri tri) { return tri == Tri::kAuto ? "auto" : OnOff(tri == Tri::kOn); }

void ReadVersion(Reader& r, const Setting& s, Config*) { r.Word(s, {"1"}); }

void ReadDir(Reader& r, const Setting& s, Config* c) {
  std::string dir;
  if (!r.Text(s, &dir)) return;
  if (dir.empty() || dir.size() > 4000)
    r.Bad(s, Describe(s.node), "the path of a directory");
  else
    c->dir = dir;
}

void ReadLimit(Reader& r, const Setting& s, Config* c) {
  uint64_t bytes = 0;
  if (s.node.text != "auto") {
    if (!r.Bytes(s, &bytes)) return;
    if (bytes == 0) {
      r.Bad(s, "a limit of 0 bytes keeps nothing", "auto, or bytes above 0");
      return;
    }
  }
  c->limit_bytes = bytes;
}

void ReadMode(Reader& r, const Setting& s, Config* c) {
  int mode = 0;
  bool good = s.node.is_text() && !s.node.text.empty() && s.node.text.size() <= 5;
  for (char digit : s.node.text) {
    good &= digit >= '0' && digit <= '7';
    mode = mode * 8 + (digit - '0');
  }
  if (good && (mode & 0700) == 0700 && mode <= 07777)
    c->mode = mode;
  else
    r.Bad(s, Describe(s.node),
          "an octal mode in quotes that lets the owner in, such as '0700' or '0750'");
}

std::string PrintMode(const Config& c) {
  char text[16];
  std::snprintf(text, sizeof text, "'%04o'", static_cast<unsigned>(c.mode));
  return text;
}

void ReadBoundary(Reader& r, const Setting& s, Config* c) {
  static constexpr std::string_view kForms =
      "auto | optimizer | backward | forward[:REGEX] | op:REGEX | explicit";
  std::string text;
  if (!r.Text(s, &text)) return;
  const size_t colon = text.find(':');
  const std::string word = text.substr(0, colon);
  if (colon == std::string::npos && word == "op") {
    r.Bad(s, "'op' names no operator", "op:REGEX");
  } else if (colon != std::string::npos && word != "forward" && word != "op") {
    r.Bad(s, Describe(s.node), kForms);
  } else if (colon == std::string::npos &&
             r.Word(s, {"auto", "optimizer", "backward", "forward", "explicit"}) < 0) {
    return;
  } else {
    const Result<Regex> regex =
        Regex::Compile(colon == std::string::npos ? "" : text.substr(colon + 1));
    if (regex.ok())
      c->boundary = text;
    else
      r.Bad(s, Printable(regex.status().message()));
  }
}

void ReadFirst(Reader& r, const Setting& s, Config* c) {
  uint64_t number = 0;
  if (s.node.text != "auto" && !r.Count(s, &number)) return;
  c->first_step = s.node.text == "auto" ? -1 : static_cast<int64_t>(number);
}

void ReadSkip(Reader& r, const Setting& s, Config* c) {
  c->skip_steps = 0;
  if (s.node.text != "auto") r.Count(s, &c->skip_steps);
}

void ReadRanks(Reader& r, const Setting& s, Config* c) {
  if (s.node.is_map() || s.node.text == "one-per-node") {
    r.Later(s, "rank numbers such as 0-7,16, 0-511:8, [-1] or all");
  } else {
    r.Specification(s, true, &c->ranks);
  }
}

void ReadRoots(Reader& r, const Setting& s, Config* c) {
  if (s.node.text == "auto") {
    c->roots.clear();
    return;
  }
  if (!s.node.is_map()) {
    r.Bad(s, Describe(s.node), "auto, or a map from class to prefix such as {EagleModel: draft}");
    return;
  }
  std::map<std::string, std::string> roots;
  for (const YamlEntry& entry : s.node.entries) {
    r.Text({s.key + "." + entry.key, *entry.value}, &roots[entry.key]);
  }
  c->roots = std::move(roots);
}

std::string PrintRoots(const Config& c) {
  if (c.roots.empty()) return "auto";
  std::string text;
  for (const auto& [cls, prefix] : c.roots) {
    text += (text.empty() ? "" : ", ") + YamlScalar(cls) + ": " + YamlScalar(prefix);
  }
  return "{" + text + "}";
}

void ReadFilters(Reader& r, const Setting& s, Config* c) {
  if (!s.node.is_map()) {
    r.Bad(s, Describe(s.node), "a map from a name to a list of rules");
    return;
  }
  std::map<std::string, std::vector<Rule>> filters;
  for (const YamlEntry& entry : s.node.entries) {
    ReadRules(r, {s.key + "." + entry.key, *entry.value}, &filters[entry.key]);
  }
  c->filters = std::move(filters);
}

void ReadHost(Reader& r, const Setting& s, Config* c) {
  uint64_t bytes = 0;
  if (s.node.text != "auto" && !r.Bytes(s, &bytes)) return;
  c->host_bytes = bytes;
}

std::string PrintBytes(uint64_t bytes) { return bytes == 0 ? "auto" : FormatBytes(bytes); }

void ReadLog(Reader& r, const Setting& s, Config* c) {
  if (r.Word(s, {"debug", "info", "warning", "error"}) >= 0) c->log = s.node.text;
}

#define READ [](Reader & r, const Setting& s, Config* c)
#define PRINT [](const Config& c) -> std::string
constexpr KeySpec<Config> kKeys[] = {
    {"version", "1", "1", "Version of this layout.", ReadVersion, PRINT{return "1";
}  // namespace
}  // namespace tdump::filters
, {"output.dir", "path", "outputs/tdump_{job}",
   "Run directory. `{job}`: Slurm job.step, torchelastic run id, PMIx namespace, else the start "
   "time.",
   ReadDir, PRINT{return YamlScalar(c.dir);
}
}
, {"output.if_exists", "generation | error", "generation",
   "A new generation beside the old one, or an error. Nothing is ever overwritten.",
   READ{if (int w = r.Word(s, {"generation", "error"}); w >= 0) c->error_if_exists = w == 1;
}
, PRINT { return c.error_if_exists ? "error" : "generation"; }
}
, {"output.limit", "auto | bytes", "auto",
   "Largest size of the whole run; auto is 10 % of the free space, at most 100 GiB.", ReadLimit,
   PRINT{return PrintBytes(c.limit_bytes);
}
}
, {"output.at_limit", "stop", "stop", "At the limit: stop and keep the first steps. Later: `ring`.",
   READ{r.Word(s, {"stop"}, {"ring"});
}
, PRINT { return "stop"; }
}
, {"output.layout", "auto | pass", "auto",
   "`pass`: a file per rank and step. Later: `packed`, `node`.",
   READ{r.Word(s, {"auto", "pass"}, {"packed", "node"});
}
, PRINT { return "auto"; }
}
, {"output.staging", "path",  "none", "Node-local directory to write to first.",
   nullptr,          nullptr, kLater},
    {"output.compress", "none | zstd", "none", "Compression of payloads.",
     nullptr,           nullptr,       kLater},
    {"output.durability",
     "none | pass | step | finalize",
     "none",
     "When files are forced to the disk.",
     nullptr,
     nullptr,
     kLater},
    {"output.mode", "octal", "'0700'", "Permissions of the run directory.", ReadMode, PrintMode},
    {"steps.select", "SPEC", "0-9",
     "Steps to record, inclusive: `0-9`, `100-200:50`, `[3, 7]`, `all`, `none`.",
     READ{r.Specification(s, false, &c->steps);
}
, PRINT { return PrintSpec(c.steps); }
}
, {"steps.boundary", "auto | optimizer | backward | forward[:REGEX] | op:REGEX | explicit", "auto",
   "What ends a step. The one found is printed at the start.", ReadBoundary,
   PRINT{return YamlScalar(c.boundary);
}
}
, {"steps.first", "auto | number", "auto",
   "Number of the first step: the framework's own iteration if it tells, else 0.", ReadFirst,
   PRINT{return c.first_step < 0 ? "auto" : std::to_string(c.first_step);
}
}
, {"steps.skip", "auto | number", "auto",
   "Steps at the start that are not counted (warm-up, profiling).", ReadSkip,
   PRINT{return std::to_string(c.skip_steps);
}
}
, {"steps.micro", "SPEC", "all", "Micro-batches (calls of the root within a step) to record.",
   READ{r.Specification(s, false, &c->micro);
}
, PRINT { return PrintSpec(c.micro); }
}
, {"ranks", "SPEC", "all",
   "Ranks to record: `0-7,16`, `0-511:8`, `[-1]` (the last). Later: `one-per-node`, coordinates "
   "such as `{dp: 0}`.",
   ReadRanks, PRINT{return PrintSpec(c.ranks);
}
}
, {"topology.order", "list", "auto", "Parallel axes, fastest first.", nullptr, nullptr, kLater},
    {"topology.size", "map", "auto", "Size of each axis.", nullptr, nullptr, kLater},
    {"collect.modules", "auto | on | off", "auto",
     "nn.Module, torch::nn and scopes; auto: when LibTorch is loaded.",
     READ{r.AutoOnOff(s, &c->modules);
}
, PRINT { return AutoOnOff(c.modules); }
}
, {"collect.taps", "auto | on | off", "auto", "Tensors named by `tdump::tap` and `tdump.tap`.",
   READ{r.AutoOnOff(s, &c->taps);
}
, PRINT { return AutoOnOff(c.taps); }
}
, {"collect.aten", "on | off", "off",
   "ATen operators; needed by rules with `op`, and makes them count as leaves.",
   READ{r.OnOff(s, &c->aten);
}
, PRINT { return OnOff(c.aten); }
}
, {"collect.collectives", "on | off", "off", "MPI, NCCL, c10d.", nullptr, nullptr, kLater},
    {"collect.kernels", "on | off", "off", "Launches of compiled kernels.",
     nullptr,           nullptr,    kLater},
    {"names.profile", "auto | none", "auto",
     "Framework whose conventions are known. Later: a framework's name.",
     READ{r.Word(s, {"auto", "none"},
                 {"transformers", "megatron", "vllm", "sglang", "transformer_engine"});
}
, PRINT { return "auto"; }
}
,
    {"names.roots",
     "auto | map",
     "auto",
     "Prefix of a further root by its class: `{EagleModel: draft}`; auto: the class and a number.",
     ReadRoots,
     PrintRoots},
    {"filters", "map", "{}", "Named lists of rules, for `use`.", ReadFilters},
    {"capture", "list of rules, or map of lists", "[{leaf: true}]",
     "What to record. A list is one filter set; a map names several, each on its own.",
     READ{ReadCapture(r, s, &c->capture);
}
}
, {"memory.host", "auto | bytes", "auto",
   "Arena per process; auto is the lesser of 4 GiB and 5 % of the memory, shared by the ranks of a "
   "node.",
   ReadHost, PRINT{return PrintBytes(c.host_bytes);
}
}
, {"memory.device", "bytes", "256MiB", "Staging per GPU.", nullptr, nullptr, kLater},
    {"memory.at_limit", "block | drop", "block",
     "When the arena is full: wait for the writer, or keep meta only and count it. Later: `stats`.",
     READ{if (int w = r.Word(s, {"block", "drop"}, {"stats"}); w >= 0) c->drop_when_full = w == 1;
}
, PRINT { return c.drop_when_full ? "drop" : "block"; }
}
, {"memory.thread", "true | false", "true",
   "false: no writer thread; what was kept is written at step boundaries.",
   READ{r.Bool(s, &c->thread);
}
, PRINT { return Text(c.thread); }
}
, {"memory.max_block", "percent", "20%", "Longest wait per step.", nullptr, nullptr, kLater},
    {"triggers", "list", "[]", "Conditions that start a capture.", nullptr, nullptr, kLater},
    {"signature", "true | false", "true",
     "Hash of the root's inputs in each step, and of every parameter and buffer in the first.",
     READ{r.Bool(s, &c->signature);
}
, PRINT { return Text(c.signature); }
}
, {"history.steps", "number", "0", "Flight recorder.", nullptr, nullptr, kLater},
    {"history.level", "level", "stats", "Flight recorder: what it keeps.",
     nullptr,         nullptr, kLater},
    {"history.survive",
     "finalize | crash",
     "finalize",
     "Flight recorder: what it outlives.",
     nullptr,
     nullptr,
     kLater},
    {"breadcrumbs.ranks",
     "SPEC",
     "none",
     "Last operators of a rank that crashed.",
     nullptr,
     nullptr,
     kLater},
    {"breadcrumbs.dir", "path",  "auto", "Node-local place of breadcrumbs.",
     nullptr,           nullptr, kLater},
    {"signal", "name", "none", "Signal that starts a capture.", nullptr, nullptr, kLater},
    {"control", "true | false", "true", "tdump-ctl.", nullptr, nullptr, kLater},
    {"compile.taps", "auto", "auto", "Taps in compiled regions.", nullptr, nullptr, kLater},
    {"compile.cache", "private", "private", "Cache of compiled code with taps.",
     nullptr,         nullptr,   kLater},
    {"cuda_graphs.slots",
     "bytes",
     "256MiB",
     "Room for tensors of captured graphs.",
     nullptr,
     nullptr,
     kLater},
    {"cuda_graphs.armed_only",
     "true | false",
     "true",
     "Graphs copy only while armed.",
     nullptr,
     nullptr,
     kLater},
    {"cuda_graphs.rows",
     "auto | name",
     "auto",
     "What holds the real batch size.",
     nullptr,
     nullptr,
     kLater},
    {"recompute", "mark | drop", "mark",
     "Recomputed forwards are recorded and marked. Later: `drop`.",
     READ{r.Word(s, {"mark"}, {"drop"});
}
, PRINT { return "mark"; }
}
, {"exit.drain", "time", "30s", "Longest time that tdump may add at the end of the job.",
   READ{r.Seconds(s, &c->drain_seconds);
}
, PRINT { return FormatSeconds(c.drain_seconds); }
}
, {"strict", "true | false", "false", "true: holes make tdump-merge and tdump-diff exit non-zero.",
   READ{r.Bool(s, &c->strict);
}
, PRINT { return Text(c.strict); }
}
, {"log", "debug | info | warning | error", "info",
   "What rank 0 says on stderr; other ranks write to their manifest.", ReadLog, PRINT{return c.log;
}
}
,
}
;
#undef READ
#undef PRINT

}  // namespace

std::span<const KeySpec<Config>> ConfigKeys() { return kKeys; }

std::string PrintSpec(const Spec& spec) {
  const std::string text = spec.ToString();
  return text.find_first_of(",") == std::string::npos ? text : "'" + text + "'";
}

std::string PrintTexts(const std::vector<std::string>& texts) {
  std::string out;
  for (const std::string& text : texts) out += (out.empty() ? "" : ", ") + YamlScalar(text);
  return "[" + out + "]";
}

}  // namespace tdump::filters
