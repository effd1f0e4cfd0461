// The operator log: the calls of each pass as a tree, in the order in which they began, with the
// shapes of what they were given and made. A call stands below the one it ran in; of what a filter
// takes, the calls around it are shown as well, without arguments.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "core/text.h"
#include "tools/coverage_json.h"
#include "tools/record_text.h"
#include "tools/summary_text.h"
#include "tools/view.h"

namespace tdump::tools {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kBytesAtOnce = 64 * 1024;
constexpr size_t kDeepest = 40;  // levels that are indented further

// What a record says of an argument beyond its dtype and shape.
struct Placed {
  std::string placements, mesh, subclass;
  std::vector<int64_t> global_shape;
};

struct Line {
  io::CallRecord record;
  std::string cls;  // as its records have it
  size_t depth = 0;
  bool taken = false;        // by the filter
  bool around = false;       // a taken one ran in it
  bool below_owner = false;  // an operator that ran in the call of its module
};

std::string JsonLine(const Json& json) {
  return json.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

// The last part of "torch.nn.modules.linear.Linear".
std::string_view ShortClass(std::string_view cls) { return cls.substr(cls.rfind('.') + 1); }

bool IsGiven(Role role) {
  return role == Role::kInput || role == Role::kGradOutput || role == Role::kBefore;
}

class PassLog {
 public:
  PassLog(const ViewRequest& request, const io::PassReader& reader)
      : filter_(request.filter), reader_(reader) {}

  Status Read() {
    TDUMP_RETURN_IF_ERROR(reader_.ForEachCall([this](const io::CallRecord& call) {
      lines_.push_back({.record = call, .taken = Takes(call)});
      return true;
    }));
    std::stable_sort(lines_.begin(), lines_.end(), [](const Line& a, const Line& b) {
      return a.record.call.begin < b.record.call.begin;
    });
    PlaceInTree();
    TDUMP_RETURN_IF_ERROR(reader_.ForEachRecordMeta([this](const io::Record& record) {
      const auto line = by_begin_.find(record.call_begin);
      if (line == by_begin_.end()) return true;
      if (!record.cls.empty()) lines_[line->second].cls = record.cls;
      if (!lines_[line->second].taken || summaries_.Add(record)) return true;
      if (!record.placements.empty() || !record.subclass.empty() || !record.global_shape.empty())
        placed_.insert_or_assign(
            {record.call_begin, record.key.role, record.key.arg},
            Placed{record.placements, record.mesh, record.subclass, record.global_shape});
      return true;
    }));
    summaries_.Read(reader_);
    return Status();
  }

  const Summaries& summaries() const { return summaries_; }
  const std::vector<Line>& lines() const { return lines_; }
  bool takes_any() const {
    return std::any_of(lines_.begin(), lines_.end(), [](const Line& line) { return line.taken; });
  }

  const Placed* PlacedOf(const io::CallRecord& call, const ArgumentMeta& argument) const {
    const auto found = placed_.find({call.call.begin, argument.role, argument.arg});
    return found == placed_.end() ? nullptr : &found->second;
  }

 private:
  bool Takes(const io::CallRecord& call) const {
    const auto takes = [&](Role role, const std::string& arg) {
      io::Record probe;
      probe.key = {.root = call.root,
                   .path = call.path,
                   .op = call.op,
                   .role = role,
                   .arg = arg,
                   .call = call.call.index,
                   .micro = call.call.micro,
                   .chunk = call.call.chunk,
                   .phase = call.call.phase,
                   .recompute = call.call.recompute,
                   .lane = call.call.lane};
      probe.kind = call.kind;
      return filter_.Takes(probe);
    };
    if (call.arguments.empty()) return takes(Role::kOutput, "");
    return std::any_of(call.arguments.begin(), call.arguments.end(),
                       [&](const ArgumentMeta& a) { return takes(a.role, a.arg); });
  }

  // A parent began before what ran in it, so it stands before it.
  void PlaceInTree() {
    for (size_t i = 0; i < lines_.size(); ++i) {
      const Call& call = lines_[i].record.call;
      by_begin_.emplace(call.begin, i);
      const auto parent = call.parent < call.begin ? by_begin_.find(call.parent) : by_begin_.end();
      if (parent == by_begin_.end()) continue;
      const Line& outer = lines_[parent->second];
      const io::CallRecord& record = lines_[i].record;
      lines_[i].depth = outer.depth + 1;
      lines_[i].below_owner = !record.op.empty() && outer.record.op.empty() &&
                              outer.record.path == record.path && outer.record.root == record.root;
      parents_.emplace(i, parent->second);
    }
    for (size_t i = lines_.size(); i-- > 0;) {
      const auto parent = parents_.find(i);
      if (parent == parents_.end()) continue;
      if (lines_[i].taken || lines_[i].around) lines_[parent->second].around = true;
    }
  }

  const RecordFilter& filter_;
  const io::PassReader& reader_;
  std::vector<Line> lines_;
  std::unordered_map<uint64_t, size_t> by_begin_;
  std::unordered_map<size_t, size_t> parents_;
  std::map<std::tuple<uint64_t, Role, std::string>, Placed> placed_;
  Summaries summaries_;
};

class LogPrinter {
 public:
  explicit LogPrinter(const ViewRequest& request) : request_(request) {
    for (const io::OperatorCoverage& op : request.run.index.operators) classes_[op.name] = op.cls;
  }

  int Run() {
    const std::vector<const io::IndexedPass*> passes = SelectPasses(request_.run, request_.filter);
    if (passes.empty()) return FailWithoutPass(request_);
    if (request_.common.json)
      Show("{\n  \"run\": " + JsonLine(request_.run.ref.path) + ",\n  \"passes\": [");
    for (const io::IndexedPass* place : passes) ShowPass(*place);
    if (request_.common.json) Show("\n  ]\n}\n");
    Flush();
    if (calls_ == 0 && !trouble_) return FailWithoutCalls();
    return trouble_ || calls_ == 0 ? kExitTrouble : kExitOk;
  }

 private:
  void Trouble(const Status& status) {
    trouble_ = true;
    Flush();
    Fail(kViewTool, status.message());
  }

  // Names near the one asked for are those of operators that have records.
  int FailWithoutCalls() const {
    if (seen_ != 0) return FailWithoutRecords(request_);
    return Fail(kViewTool, "no call was recorded of these steps and ranks; see tdump-view --names");
  }

  void ShowPass(const io::IndexedPass& place) {
    const auto pass = Open(request_.run, place);
    if (!pass.ok()) return Trouble(pass.status());
    PassLog log(request_, *pass->reader);
    if (const Status status = log.Read(); !status.ok()) Trouble(status);
    seen_ += log.lines().size();
    const int32_t rank = pass->process->identity.rank;
    if (request_.common.json) {
      Show(fmt::format("{}\n    {{\"step\": {}, \"rank\": {}, \"process\": {}, \"calls\": [",
                       passes_++ == 0 ? "" : ",", place.global_step, rank,
                       pass->process->identity.process));
    } else if (log.takes_any()) {
      Show(fmt::format("step {}, rank {}{}\n", place.global_step, rank,
                       place.extra ? ", extra" : ""));
    }
    bool first = true;
    for (const Line& line : log.lines()) {
      if (!line.taken && !line.around) continue;
      calls_ += line.taken;
      if (request_.common.json)
        Show(fmt::format("{}\n      {}", std::exchange(first, false) ? "" : ",",
                         JsonLine(CallJson(log, line))));
      else
        Show(CallText(log, line));
    }
    if (request_.common.json) Show(first ? "]}" : "\n    ]}");
  }

  std::string_view ClassOf(const Line& line) const {
    const io::CallRecord& call = line.record;
    if (!call.op.empty()) return {};
    if (!line.cls.empty()) return ShortClass(line.cls);
    const auto found = classes_.find(PlainName(call.root, call.path, call.op));
    return found == classes_.end() ? std::string_view() : ShortClass(found->second);
  }

  std::string CallText(const PassLog& log, const Line& line) const {
    const io::CallRecord& call = line.record;
    std::string text(2 * (1 + std::min(line.depth, kDeepest)), ' ');
    // What stands below its module needs no path.
    text += Printable(line.below_owner ? call.op : PlainName(call.root, call.path, call.op));
    if (call.call.index != 0) text += fmt::format("::call{}", call.call.index);
    text += MarksText(call.call);
    if (const std::string_view cls = ClassOf(line); !cls.empty())
      text += fmt::format("  {}", Printable(cls));
    if (line.taken) {
      const std::string given = ArgumentsText(log, call, true);
      const std::string made = ArgumentsText(log, call, false);
      if (!given.empty() || !call.text.empty())
        text += fmt::format("  ({}{}{})", given, given.empty() || call.text.empty() ? "" : "; ",
                            Printable(call.text));
      if (!made.empty()) text += " -> " + made;
      if (call.call.threw) text += "  raised";
    }
    return text + "\n";
  }

  static std::string MarksText(const Call& call) {
    std::string text = call.phase == Phase::kBackward ? ", backward" : "";
    if (call.micro != 0) text += fmt::format(", micro-batch {}", call.micro);
    if (call.recompute) text += ", recomputed";
    if (call.compiled) text += ", compiled";
    return text;
  }

  // Positions tell nothing that the order does not.
  static std::string ArgumentsText(const PassLog& log, const io::CallRecord& call, bool given) {
    std::string text;
    for (const ArgumentMeta& argument : call.arguments) {
      if (IsGiven(argument.role) != given) continue;
      if (!text.empty()) text += ", ";
      const bool is_position = argument.arg.find_first_not_of("0123456789") == std::string::npos;
      if (!is_position) text += Printable(argument.arg) + ": ";
      text += fmt::format("{}[{}]", Printable(argument.dtype), fmt::join(argument.sizes, ", "));
      const Placed* placed = log.PlacedOf(call, argument);
      if (placed != nullptr) text += PlacedText(*placed);
      for (const auto& [name, values] :
           log.summaries().Of(call.call.begin, argument.role, argument.arg))
        text += fmt::format(" {}={}", Printable(name), values);
    }
    return text;
  }

  static std::string PlacedText(const Placed& placed) {
    std::string text;
    if (!placed.placements.empty()) text += " " + Printable(placed.placements);
    if (!placed.mesh.empty()) text += " on " + Printable(placed.mesh);
    if (!placed.global_shape.empty())
      text += fmt::format(" of [{}]", fmt::join(placed.global_shape, ", "));
    if (text.empty() && !placed.subclass.empty()) text = " " + Printable(placed.subclass);
    return text;
  }

  Json CallJson(const PassLog& log, const Line& line) const {
    const io::CallRecord& record = line.record;
    const Call& call = record.call;
    Json json = {{"name", PlainName(record.root, record.path, record.op)},
                 {"kind", ToString(record.kind)},
                 {"class", ClassOf(line)},
                 {"depth", line.depth},
                 {"begin", call.begin},
                 {"end", call.end},
                 {"parent", call.parent},
                 {"call", call.index},
                 {"micro", call.micro},
                 {"phase", ToString(call.phase)},
                 {"thread", call.thread},
                 {"recompute", call.recompute},
                 {"compiled", call.compiled},
                 {"threw", call.threw},
                 {"taken", line.taken},
                 {"text", record.text},
                 {"arguments", Json::array()}};
    for (const ArgumentMeta& argument : record.arguments) {
      Json one = {{"role", ToString(argument.role)},
                  {"arg", argument.arg},
                  {"dtype", argument.dtype},
                  {"shape", argument.sizes}};
      if (const Placed* placed = log.PlacedOf(record, argument)) {
        one["placements"] = placed->placements;
        one["mesh"] = placed->mesh;
        one["subclass"] = placed->subclass;
        one["global_shape"] = placed->global_shape;
      }
      for (const auto& [name, values] : log.summaries().Of(call.begin, argument.role, argument.arg))
        one["summary"][name] = values;
      json["arguments"].push_back(std::move(one));
    }
    return json;
  }

  void Show(const std::string& text) {
    if (request_.common.quiet) return;
    waiting_ += text;
    if (waiting_.size() >= kBytesAtOnce) Flush();
  }
  void Flush() { Print(std::exchange(waiting_, {})); }

  const ViewRequest& request_;
  std::unordered_map<std::string, std::string> classes_;
  std::string waiting_;
  uint64_t passes_ = 0, seen_ = 0, calls_ = 0;
  bool trouble_ = false;
};

}  // namespace

int ViewLog(const ViewRequest& request) { return LogPrinter(request).Run(); }

}  // namespace tdump::tools
