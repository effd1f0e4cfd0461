#include "tools/signature.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/text.h"
#include "tools/record_filter.h"
#include "tools/record_text.h"

namespace tdump::tools {
namespace {

constexpr uint64_t kMostRecords = 100'000;
constexpr size_t kMostInputs = 4;

}  // namespace

SignatureFacts ReadSignature(const LoadedRun& run) {
  SignatureFacts facts;
  if (run.index.passes.empty()) return facts;
  const auto pass = Open(run, run.index.passes.front());
  if (!pass.ok()) return facts;
  facts.rank = pass->process->identity.rank;
  facts.step = pass->place->global_step;
  uint64_t looked_at = 0;
  (void)pass->reader->ForEachRecord([&](const io::Record& record) {
    if (++looked_at > kMostRecords) {
      facts.whole = false;
      return false;
    }
    if (!record.hash) return true;
    const Key& key = record.key;
    if (key.role == Role::kParam) ++facts.parameters;
    // Without what an optimizer keeps, "weight.exp_avg".
    if (key.role == Role::kState && key.arg.find('.') == std::string::npos) ++facts.states;
    if (key.role == Role::kInput && key.path == "." && key.op.empty() && key.call == 0)
      facts.inputs.push_back(
          {key.arg, std::string(record.dtype.view()), ShapeText(record), HashText(*record.hash)});
    return true;
  });
  return facts;
}

std::string SignatureText(const SignatureFacts& facts) {
  std::string text;
  for (size_t i = 0; i < std::min(facts.inputs.size(), kMostInputs); ++i) {
    const SignatureFacts::Input& input = facts.inputs[i];
    text += fmt::format("{}input {} {} {}", i == 0 ? "" : ", ", Printable(input.arg), input.shape,
                        Printable(input.dtype));
  }
  if (facts.inputs.size() > kMostInputs)
    text += fmt::format(" and {} more", facts.inputs.size() - kMostInputs);
  if (!facts.inputs.empty()) text += ", hashed each step; ";
  if (facts.parameters + facts.states != 0) {
    text += Plural(facts.parameters, "parameter");
    if (facts.states != 0) text += " and " + Plural(facts.states, "buffer");
    text += " hashed once";
  }
  if (text.empty()) return text;
  if (text.ends_with("; ")) text.resize(text.size() - 2);
  return text + fmt::format(" (rank {}, step {}{})", facts.rank, facts.step,
                            facts.whole ? "" : ", its first records");
}

}  // namespace tdump::tools
