#include "coordinator/never_called.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <vector>

#include "coordinator/coverage.h"
#include "coordinator/coverage_ways.h"
#include "core/key.h"

namespace tdump::coordinator {
namespace {

// "torch.compile: Net is compiled; not captured inside" -> "Net"; "" for another note
// (python/tdump/_compiled.py writes it).
std::string_view CompiledClassOfNote(std::string_view note) {
  constexpr std::string_view kBefore = "torch.compile: ";
  constexpr std::string_view kBehind = " is compiled; not captured inside";
  if (!note.starts_with(kBefore) || !note.ends_with(kBehind)) return {};
  note.remove_prefix(kBefore.size());
  note.remove_suffix(std::min(note.size(), kBehind.size()));
  return note;
}

// Of modules that run in another way than by hooks. Beside a note of the second kind there is one
// with the class.
bool IsOfModules(std::string_view note) {
  return note.find("not captured") != std::string_view::npos &&
         note.find("module") != std::string_view::npos &&
         !note.starts_with("torch.compile: modules in this region are traced");
}

std::string ShortName(std::string_view cls) {
  return std::string(cls.substr(cls.find_last_of(".:") + 1));
}

// Classes of torch whose forward has a path in which no part is called.
bool HasFusedPath(std::string_view cls) {
  static constexpr std::string_view kClasses[] = {"MultiheadAttention", "TransformerEncoder",
                                                  "TransformerEncoderLayer"};
  return std::find(std::begin(kClasses), std::end(kClasses), cls) != std::end(kClasses);
}

constexpr size_t kDeepest = 256;  // of a forged path no more is looked at

// Paths of the modules around an operator, the innermost first: "a.b" -> "a", ".".
std::vector<std::string> PathsAround(const io::ExpectSection& op) {
  std::vector<std::string> paths;
  std::string path = op.path;
  if (!op.op.empty()) paths.push_back(path);
  while (path != "." && paths.size() < kDeepest) {
    const size_t dot = path.rfind('.');
    path = dot == std::string::npos ? "." : path.substr(0, dot);
    paths.push_back(path);
  }
  return paths;
}

}  // namespace

struct NeverCalled::Around {
  std::string compiled, compiled_class;  // the closest of a class that is not captured inside
  std::string called, called_class;      // the closest that was called
  std::string uncalled;                  // the closest that was not, though the rules select it
  bool unknown = false;                  // there are some of which nothing is known
};

NeverCalled::NeverCalled(const io::PassStore& store, const io::RunIndex& index) {
  for (const io::OperatorCoverage& op : index.operators) operators_.emplace(op.name, &op);
  for (const io::RankState& rank : index.ranks) {
    for (const size_t place : rank.processes) {
      const io::ProcessEntry& process = store.processes()[place];
      for (const io::ExpectSection& op : process.expected)
        expected_.try_emplace(PlainName(op.root, op.path, op.op), &op);
      for (const io::NoteSection& note : process.notes) AddNote(note.text);
    }
  }
  if (!compiled_.empty()) root_classes_ = RootClasses(store, index);
}

void NeverCalled::AddNote(const std::string& text) {
  const std::string_view cls = CompiledClassOfNote(text);
  if (!cls.empty())
    compiled_.emplace(cls);
  else if (first_note_.empty() && IsOfModules(text))
    first_note_ = text;
}

std::string NeverCalled::ClassOf(const io::OperatorCoverage& module) const {
  const auto root = root_classes_.find(module.name);
  return ShortName(module.cls.empty() && root != root_classes_.end() ? root->second : module.cls);
}

NeverCalled::Around NeverCalled::LookAround(const std::string& name) const {
  Around around;
  const auto op = expected_.find(name);
  if (op == expected_.end()) return {.unknown = true};
  for (const std::string& path : PathsAround(*op->second)) {
    const auto found = operators_.find(PlainName(op->second->root, path, ""));
    const std::string cls = found == operators_.end() ? "" : ClassOf(*found->second);
    if (cls.empty()) around.unknown = true;
    if (found == operators_.end()) continue;
    const io::OperatorCoverage& module = *found->second;
    if (compiled_.contains(cls)) {
      around.compiled = module.name;
      around.compiled_class = cls;
      return around;
    }
    if (module.calls != 0) {
      around.called = module.name;
      around.called_class = cls;
      return around;
    }
    if (around.uncalled.empty() && !IsIdleContainer(module)) around.uncalled = module.name;
  }
  return around;
}

NeverCalled::Compiled NeverCalled::InsideOf(const std::string& name) const {
  return compiled_.empty() ? Compiled{} : InsideOf(LookAround(name));
}

NeverCalled::Compiled NeverCalled::InsideOf(const Around& around) const {
  if (!around.compiled.empty())
    return {around.compiled,
            fmt::format("perhaps inside {}: a {} is compiled, and not captured inside",
                        around.compiled, around.compiled_class)};
  if (around.unknown && !compiled_.empty())
    return {"", fmt::format("perhaps inside {}, which is compiled, and not captured inside",
                            fmt::join(compiled_, " or "))};
  return {};
}

std::string NeverCalled::Why(const std::string& name) const {
  const Around around = LookAround(name);
  const Compiled compiled = InsideOf(around);
  if (!compiled.why.empty()) return compiled.why;
  if (HasFusedPath(around.called_class)) {
    return fmt::format(
        "{} was called and did not call it: a {} has a fused path that calls no part",
        around.called, around.called_class);
  }
  if (!first_note_.empty()) return "perhaps " + first_note_;
  if (!around.called.empty()) {
    return fmt::format(
        "{} was called and did not call it: a branch that was not taken, a fused "
        "path, or code that uses its weights without a call",
        around.called);
  }
  if (!around.uncalled.empty())
    return fmt::format("{}, which it is part of, was not called either", around.uncalled);
  return "not known: no module around it is selected or was called";
}

}  // namespace tdump::coordinator
