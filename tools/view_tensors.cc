// The records under one name: what they are, their first values, and the call they belong to.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "coordinator/coverage.h"
#include "core/text.h"
#include "io/value_parts.h"
#include "tools/coverage_json.h"
#include "tools/exponents.h"
#include "tools/near_names.h"
#include "tools/record_text.h"
#include "tools/recorded_elsewhere.h"
#include "tools/statistics_text.h"
#include "tools/value_stream.h"
#include "tools/view.h"

namespace tdump::tools {
namespace {

// "[0, 0, 0:4] = 1 2 3 4": where in the tensor the first `count` units are.
std::string WhereText(const io::Record& record, uint64_t count) {
  if (record.sizes.empty()) return "value";
  if (count > static_cast<uint64_t>(record.sizes.back()))
    return fmt::format("first {} of {}", count, CountText(record.numel()));
  std::vector<std::string> index(record.sizes.size(), "0");
  index.back() = fmt::format("0:{}", count);
  return fmt::format("[{}]", fmt::join(index, ", "));
}

bool HasValues(const io::Record& record) { return record.payload || record.slice; }

struct Values {
  std::string where;  // "[0, 0:4]"; "its first" of a slice
  std::vector<std::string> texts;
  std::string at;  // the element that was asked for, with its place
};

Result<std::vector<std::string>> Texts(ValueStream* values, uint64_t most) {
  std::vector<std::string> texts;
  while (!values->done() && texts.size() < most) {
    TDUMP_ASSIGN_OR_RETURN(const auto unit, values->Next());
    texts.push_back(values->Text(unit));
  }
  return texts;
}

Result<Values> FirstValues(const io::PassReader& reader, const io::Record& record, uint64_t most) {
  Values shown;
  if (!HasValues(record)) return shown;
  const io::Record kept = record.payload ? record : io::SliceAsRecord(record);
  ValueStream values(&reader, &kept);
  TDUMP_ASSIGN_OR_RETURN(shown.texts, Texts(&values, most));
  shown.where = record.payload ? WhereText(record, shown.texts.size()) : "its first";
  return shown;
}

// Whether there is such an element.
bool Holds(const io::Record& record, const std::vector<uint64_t>& at) {
  std::vector<uint64_t> sizes(record.sizes.begin(), record.sizes.end());
  if (!sizes.empty()) sizes.back() *= std::max<uint64_t>(1, record.dtype.elements_per_unit);
  return at.size() == sizes.size() && !at.empty() &&
         std::equal(at.begin(), at.end(), sizes.begin(), std::less<>());
}

// The element, and those beside it in the last dimension.
Result<Values> ValuesAt(const io::PassReader& reader, const io::Record& record,
                        const std::vector<uint64_t>& at, uint64_t most) {
  if (!record.payload)
    return InvalidArgument(ToText(record.key) +
                           ": --at needs its values, which were not kept whole");
  if (!Holds(record, at))
    return InvalidArgument(fmt::format("{}: --at {}: its shape is {}", ToText(record.key),
                                       fmt::join(at, ","), ShapeText(record)));
  const uint64_t packed = std::max<uint64_t>(1, record.dtype.elements_per_unit);
  const auto length = static_cast<uint64_t>(record.sizes.back());
  const uint64_t unit = at.back() / packed, count = std::min(most, length);
  uint64_t row = 0;
  for (size_t i = 0; i + 1 < at.size(); ++i)
    row = row * static_cast<uint64_t>(record.sizes[i]) + at[i];
  const uint64_t begin = std::min(unit - std::min(unit, count / 2), length - count);
  ValueStream values(&reader, &record);
  Values shown;
  values.Seek(row * length + unit);
  TDUMP_ASSIGN_OR_RETURN(const auto bytes, values.Next());
  shown.at = fmt::format("[{}] = {}", fmt::join(at, ", "),
                         values.decoder().Text(bytes, static_cast<uint32_t>(at.back() % packed)));
  values.Seek(row * length + begin);
  TDUMP_ASSIGN_OR_RETURN(shown.texts, Texts(&values, count));
  std::vector<std::string> index;
  for (const uint64_t place : at) index.push_back(std::to_string(place));
  index.back() = fmt::format("{}:{}", begin, begin + count);
  shown.where = fmt::format("[{}]", fmt::join(index, ", "));
  return shown;
}

// The first and last few of a sample.
std::string SampleText(const io::Record& record) {
  constexpr size_t kShown = 6;
  const io::ValueDecoder decoder(record.dtype);
  const size_t unit = decoder.unit_bytes();
  const size_t count = unit == 0 ? 0 : record.sample->size() / unit;
  std::string text = fmt::format("of {}:", CountText(count));
  for (size_t i = 0; i < count; ++i) {
    if (i == kShown / 2 && count > kShown) {
      text += "  ...";
      i = count - kShown / 2;
    }
    text += "  " + decoder.Text(std::span(*record.sample).subspan(i * unit, unit));
  }
  return text;
}

// Of a record of which there is nothing to show.
std::string NotKeptText(const io::Record& record) {
  std::vector<std::string_view> kept;
  for (const auto& [part, name] : {std::pair{kPartMeta, "meta"}, {kPartHash, "hash"}})
    if (record.parts_kept & part) kept.push_back(name);
  return fmt::format("its values were not kept, only {}", fmt::join(kept, " and "));
}

std::string StorageText(const io::Record& record) {
  std::string text = fmt::format("strides [{}]", fmt::join(record.strides, ", "));
  if (record.storage_offset != 0) text += fmt::format(", offset {}", record.storage_offset);
  if (record.storage_id != 0) text += fmt::format(", storage {:#x}", record.storage_id);
  return text;
}

bool HasComponents(const io::Record& record) {
  return record.layout >= Layout::kSparseCoo && record.layout <= Layout::kJagged;
}

bool HasNothingToShow(const io::Record& record) {
  return !HasValues(record) && !record.sample && !record.statistics && !HasComponents(record);
}

// How Python gets what was kept of the record.
std::string InPython(const io::Record& record, const std::string& name) {
  if (HasValues(record) || HasComponents(record)) return "[" + name + "]";
  if (record.sample) return ".sample(" + name + ")";
  return ".record(" + name + (record.statistics ? ").stats" : ")");
}

class Viewer {
 public:
  explicit Viewer(const ViewRequest& request) : request_(request) {}

  int Run() {
    for (const io::IndexedPass* place : SelectPasses(request_.run, request_.filter)) {
      const auto pass = Open(request_.run, *place);
      if (!pass.ok()) {
        Trouble(pass.status());
        continue;
      }
      calls_.clear();
      head_.clear();
      std::vector<uint64_t> others;
      const Status status = pass->reader->ForEachRecord([&](const io::Record& record) {
        if (!request_.filter.Takes(record)) return true;
        // An element is looked for in those that have one there; without any the others say why.
        if (request_.at && (!record.payload || !Holds(record, *request_.at)))
          others.push_back(record.id);
        else
          Show(*pass, record);
        return true;
      });
      if (!status.ok()) Trouble(status);
      if (found_ == 0) ShowAll(*pass, others);
      ShowCalls(*pass);
    }
    if (found_ == 0) return NothingFound();
    if (request_.common.json)
      Print(JsonText({{"run", request_.run.ref.path}, {"records", json_}}));
    else if (!request_.common.quiet)
      Say("python: " + python_ + "\n");
    return trouble_ ? kExitTrouble : kExitOk;
  }

 private:
  void Trouble(const Status& status) {
    trouble_ = true;
    Fail(kViewTool, status.message());
  }
  void Say(const std::string& text) {
    if (!request_.common.quiet && !request_.common.json) Print(text);
  }

  void ShowAll(const OpenPass& pass, const std::vector<uint64_t>& ids) {
    for (const uint64_t id : ids) {
      const auto record = pass.reader->Get(id);
      if (record.ok())
        Show(pass, *record);
      else
        Trouble(record.status());
    }
  }

  void Show(const OpenPass& pass, const io::Record& record) {
    ++found_;
    if (record.call_begin != 0 && calls_.size() < kMostCalls) calls_.emplace(record.call_begin, 0);
    const auto values = request_.at ? ValuesAt(*pass.reader, record, *request_.at, request_.values)
                                    : FirstValues(*pass.reader, record, request_.values);
    if (!values.ok()) Trouble(values.status());
    if (request_.common.json) {
      nlohmann::ordered_json json = {{"step", pass.place->global_step},
                                     {"rank", pass.process->identity.rank}};
      json.update(RecordJson(record));
      json["values"] =
          values.ok() ? nlohmann::ordered_json(values->texts) : nlohmann::ordered_json();
      if (values.ok()) json["values_of"] = values->where;
      if (values.ok() && request_.at) json["at"] = values->at;
      if (const auto exponents = ExponentsOf(pass, record))
        json["exponents"] = ExponentsJson(*exponents);
      else if (HasOnlyBins(record))
        json["exponents"] = BinsJson(*record.statistics);
      json_.push_back(std::move(json));
      return;
    }
    Remember(pass, record);
    Heading(pass, record);
    std::string line =
        fmt::format("  {:<12} {} {}  kept {}", RoleText(record.key), ShapeText(record),
                    Printable(record.dtype.view()), KeptText(record));
    if (record.payload) line += "  " + BytesText(record.payload->logical_bytes);
    const std::string remarks = RemarksText(*pass.reader, record);
    if (!remarks.empty()) line += "  (" + remarks + ")";
    line += "\n";
    if (record.layout == Layout::kStrided)
      line += fmt::format("  {:<12} {}, {}\n", "", StorageText(record), Printable(record.device));
    if (record.hash) line += fmt::format("  {:<12} hash {}\n", "", HashText(*record.hash));
    if (record.statistics)
      line += fmt::format("  {:<12} stats {}\n", "", StatisticsText(*record.statistics));
    if (record.slice) line += fmt::format("  {:<12} slice {}\n", "", SliceText(*record.slice));
    if (record.sample) line += fmt::format("  {:<12} sample {}\n", "", SampleText(record));
    if (!record.dims.empty()) line += fmt::format("  {:<12} dims {}\n", "", Printable(record.dims));
    if (values.ok() && !values->at.empty()) line += fmt::format("  {:<12} {}\n", "", values->at);
    if (values.ok() && !values->texts.empty())
      line += fmt::format("  {:<12} {} = {}\n", "", values->where, fmt::join(values->texts, "  "));
    const bool asked_for_place = request_.at.has_value();  // told as trouble
    if (request_.values > 0 && !asked_for_place && HasNothingToShow(record))
      line += fmt::format("  {:<12} {}\n", "", NotKeptText(record));
    line += ExponentsLines(pass, record);
    Say(line);
  }

  bool HasOnlyBins(const io::Record& record) const {
    return request_.exponents && !HasValues(record) && record.statistics &&
           record.statistics->kind != StatisticsKind::kBits;
  }
  std::string ExponentsLines(const OpenPass& pass, const io::Record& record) {
    const std::string indent(kIndent, ' ');
    if (!request_.exponents) return "";
    if (const auto exponents = ExponentsOf(pass, record)) return ExponentsText(*exponents, indent);
    if (HasOnlyBins(record)) return BinsText(*record.statistics, indent);
    return HasValues(record) ? ""
                             : indent +
                                   "exponents: neither values nor statistics were kept; capture "
                                   "with level stats or full\n";
  }

  // Where they are asked for and values were kept.
  std::optional<Exponents> ExponentsOf(const OpenPass& pass, const io::Record& record) {
    if (!request_.exponents || !HasValues(record)) return std::nullopt;
    const auto exponents = CountExponents(*pass.reader, record);
    if (exponents.ok()) return *exponents;
    Trouble(exponents.status());
    return std::nullopt;
  }

  // Once for each name and call.
  void Heading(const OpenPass& pass, const io::Record& record) {
    const std::string name = NameText(record.key);
    if (head_ == name) return;
    head_ = name;
    Say(fmt::format("step {}, rank {}{}   {}   {}{}\n", pass.place->global_step,
                    pass.process->identity.rank, pass.place->extra ? " (extra)" : "", name,
                    Printable(record.cls), pass.entry->part ? "   (unfinished pass)" : ""));
  }

  // What the calls took, whatever was kept of it.
  void ShowCalls(const OpenPass& pass) {
    if (calls_.empty() || request_.common.json || request_.common.quiet) return;
    (void)pass.reader->ForEachCall([&](const io::CallRecord& call) {
      if (!calls_.contains(call.call.begin)) return true;
      std::string text =
          fmt::format("  {:<12} sequence {}-{}, lane {}, thread {}", "call", call.call.begin,
                      call.call.end, call.call.lane, call.call.thread);
      if (call.call.threw) text += ", threw";
      for (const ArgumentMeta& argument : call.arguments) {
        text += fmt::format("; {} {} [{}] {}", ToString(argument.role), Printable(argument.arg),
                            fmt::join(argument.sizes, ", "), Printable(argument.dtype));
      }
      if (!call.text.empty()) text += "; " + Printable(call.text);
      Say(text + "\n");
      return true;
    });
  }

  // How well a record does for the line for Python: an output before anything else, and what has
  // something to show before what has not.
  static int RankForPython(const io::Record& record) {
    if (HasNothingToShow(record)) return 0;
    if (IsPlain(record)) return 3;
    return record.key.role == Role::kOutput && record.key.phase == Phase::kForward ? 2 : 1;
  }
  static bool IsPlain(const io::Record& record) {
    const Key& key = record.key;
    return key.role == Role::kOutput && record.payload && key.arg.empty() && key.call == 0 &&
           key.phase == Phase::kForward;
  }

  // Of those that do as well the first; an output with values goes by its plain name, others by
  // their key.
  void Remember(const OpenPass& pass, const io::Record& record) {
    const Key& key = record.key;
    const int rank = RankForPython(record);
    if (rank <= python_rank_) return;
    python_rank_ = rank;
    const std::string name =
        Quoted(IsPlain(record) ? PlainName(key.root, key.path, key.op) : ToText(key));
    python_ =
        fmt::format("tdump.open({})[{}, {}]{}", Quoted(request_.run.ref.text),
                    pass.place->global_step, pass.process->identity.rank, InPython(record, name));
  }

  int NothingFound() {
    if (SelectPasses(request_.run, request_.filter).empty()) return FailWithoutPass(request_);
    if (const std::string text = ElsewhereText(request_.run, request_.filter); !text.empty())
      return Fail(kViewTool, fmt::format("{}. See tdump-view {} --coverage", text,
                                         ShellWord(Printable(request_.shown))));
    for (const io::OperatorCoverage& op : request_.run.index.operators) {
      if (op.name != request_.filter.name) continue;
      if (op.ranks_called != 0) {
        return Fail(kViewTool,
                    fmt::format("'{}' was called, but has no record there (a rule without 'phase' "
                                "records the forward alone). See tdump-view {} --names",
                                op.name, ShellWord(Printable(request_.shown))));
      }
      if (coordinator::IsIdleContainer(op))
        return Fail(kViewTool,
                    fmt::format("'{}' is a {}, which is never called: only its modules are",
                                op.name, op.cls.substr(op.cls.find_last_of(".:") + 1)));
      return Fail(kViewTool, fmt::format("'{}' was selected but never called", op.name));
    }
    std::string others = OthersOfName();
    if (others.empty()) others = NearText(request_.run, request_.filter.name);
    return Fail(kViewTool,
                fmt::format("no record '{}' there{}. See tdump-view {} --names",
                            request_.filter.name, others, ShellWord(Printable(request_.shown))));
  }

  // "; 'fc' has @input#0, @output#": of an address whose role or argument is none of its operator.
  std::string OthersOfName() const {
    RecordFilter filter = request_.filter;
    filter.name = filter.name.substr(0, filter.name.find('@'));
    if (filter.name.empty() || filter.name == request_.filter.name) return "";
    std::vector<std::string> roles;
    const auto add = [&](const OpenPass&, const io::Record& record) {
      const std::string role =
          Printable(fmt::format("@{}#{}", ToString(record.key.role), record.key.arg));
      if (std::find(roles.begin(), roles.end(), role) == roles.end()) roles.push_back(role);
      return roles.size() < kMostRoles;
    };
    ForEachRecord(request_.run, filter, add, [](const std::string&) {});
    if (roles.empty()) return "";
    return fmt::format("; '{}' has {}", Printable(filter.name), fmt::join(roles, ", "));
  }

  static constexpr size_t kMostCalls = 64;
  static constexpr size_t kMostRoles = 20;  // and arguments, told of one name
  static constexpr size_t kIndent = 15;     // of what is said of a record

  const ViewRequest& request_;
  nlohmann::ordered_json json_ = nlohmann::ordered_json::array();
  std::map<uint64_t, int> calls_;  // by begin
  std::string head_;
  uint64_t found_ = 0;
  std::string python_;
  int python_rank_ = -1;
  bool trouble_ = false;
};

}  // namespace

int ViewTensors(const ViewRequest& request) { return Viewer(request).Run(); }

}  // namespace tdump::tools
