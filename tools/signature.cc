#include "tools/signature.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "core/key.h"
#include "core/text.h"
#include "tools/record_filter.h"
#include "tools/record_text.h"

namespace tdump::tools {
namespace {

constexpr uint64_t kMostRecords = 100'000;
constexpr size_t kMostInputs = 4, kMostNames = 4;

// Records of an operator, by its plain name.
using Counts = std::map<std::string, uint64_t>;

// `marked`: records of the pass that say what they lack. What was not kept beyond them is not
// there.
void FindLost(const OpenPass& pass, const Counts& marked, SignatureFacts* facts) {
  uint64_t not_kept = 0, there = 0;
  for (const io::ReasonCount& count : pass.entry->not_kept) {
    if (static_cast<SkipReason>(count.reason) != SkipReason::kMaxRecords) not_kept += count.count;
  }
  for (const auto& [name, count] : marked) there += count;
  if (not_kept <= there) return;
  facts->lost = not_kept - there;
  for (const io::OperatorCountSection& count : pass.process->counts) {
    const std::string name = PlainName(count.root, count.path, count.op);
    const auto found = marked.find(name);
    if (count.not_kept > (found != marked.end() ? found->second : 0))
      facts->lost_of.push_back(name);
  }
}

std::string InputsText(const SignatureFacts& facts) {
  std::string text;
  for (size_t i = 0; i < std::min(facts.inputs.size(), kMostInputs); ++i) {
    const SignatureFacts::Input& input = facts.inputs[i];
    text += fmt::format("{}input {}{} {} {}", i == 0 ? "" : ", ", Printable(input.arg),
                        input.root.empty() ? "" : " of " + Printable(input.root), input.shape,
                        Printable(input.dtype));
  }
  if (facts.inputs.size() > kMostInputs)
    text += fmt::format(" and {} more", facts.inputs.size() - kMostInputs);
  return text;
}

std::string LostText(const SignatureFacts& facts) {
  std::string names;
  for (size_t i = 0; i < std::min(facts.lost_of.size(), kMostNames); ++i)
    names += (i == 0 ? " of " : ", ") + Printable(facts.lost_of[i]);
  if (facts.lost_of.size() > kMostNames)
    names += fmt::format(" and {} more", facts.lost_of.size() - kMostNames);
  return fmt::format("{}{} left no trace, parameters may be among them",
                     Plural(facts.lost, "record"), names);
}

}  // namespace

SignatureFacts ReadSignature(const LoadedRun& run) {
  SignatureFacts facts;
  if (run.index.passes.empty()) return facts;
  const auto pass = Open(run, run.index.passes.front());
  if (!pass.ok()) return facts;
  facts.rank = pass->process->identity.rank;
  facts.step = pass->place->global_step;
  uint64_t looked_at = 0;
  Counts marked;
  (void)pass->reader->ForEachRecord([&](const io::Record& record) {
    if (++looked_at > kMostRecords) {
      facts.whole = false;
      return false;
    }
    const Key& key = record.key;
    if (record.reason != SkipReason::kNone && record.reason != SkipReason::kMaxRecords)
      ++marked[PlainName(key.root, key.path, key.op)];
    if (!record.hash) return true;
    if (key.role == Role::kParam) ++facts.parameters;
    // Without what an optimizer keeps, "weight.exp_avg".
    if (key.role == Role::kState && key.arg.find('.') == std::string::npos) ++facts.states;
    if (key.role == Role::kInput && key.path == "." && key.op.empty() && key.call == 0)
      facts.inputs.push_back({key.arg, std::string(record.dtype.view()), ShapeText(record),
                              HashText(*record.hash), key.root});
    return true;
  });
  if (facts.whole) FindLost(*pass, marked, &facts);
  return facts;
}

std::string SignatureText(const SignatureFacts& facts) {
  std::vector<std::string> parts;
  if (!facts.inputs.empty()) parts.push_back(InputsText(facts) + ", hashed each step");
  if (facts.parameters + facts.states != 0) {
    std::string text = Plural(facts.parameters, "parameter");
    if (facts.states != 0) text += " and " + Plural(facts.states, "buffer");
    parts.push_back(text + " hashed once");
  }
  if (facts.lost != 0) parts.push_back(LostText(facts));
  if (parts.empty()) return "";
  return fmt::format("{} (rank {}, step {}{})", fmt::join(parts, "; "), facts.rank, facts.step,
                     facts.whole ? "" : ", its first records");
}

}  // namespace tdump::tools
