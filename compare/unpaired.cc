#include "compare/unpaired.h"

#include <fmt/format.h>

#include "core/key.h"

namespace tdump::compare {
namespace {

Unpaired NewUnpaired(char side, const PassRef& pass) {
  Unpaired unpaired;
  unpaired.side = side;
  unpaired.step = pass.step;
  unpaired.rank = pass.rank;
  return unpaired;
}

}  // namespace

bool UnpairedList::IsAllowed(const std::string& name) const {
  return options_->allow_unpaired && options_->allow_unpaired(name);
}

void UnpairedList::Add(Unpaired unpaired) {
  Counts& c = report_->counts;
  (unpaired.side == 'A' ? c.unpaired_a : c.unpaired_b) += unpaired.records;
  if (unpaired.allowed) c.unpaired_allowed += unpaired.records;
  if (options_->on_unpaired) options_->on_unpaired(unpaired);
  if (report_->unpaired.size() < options_->top) report_->unpaired.push_back(std::move(unpaired));
}

Status UnpairedList::AddPass(char side, const PassRef& pass, const RunSide& here,
                             const RunSide& other) {
  TDUMP_ASSIGN_OR_RETURN(const auto view, here.Open(pass));
  Unpaired unpaired = NewUnpaired(side, pass);
  unpaired.extra = pass.extra;
  unpaired.why = other.WhyMissing(other.rank().value_or(pass.rank));
  unpaired.allowed = true;
  Status status = view->ForEachTensor([&](const io::Record& record) {
    const std::string name = NameOf(record);
    if (options_->pass.select && !options_->pass.select(name)) return true;
    ++unpaired.records;
    unpaired.allowed = unpaired.allowed && IsAllowed(name);
    return true;
  });
  if (unpaired.records > 0) Add(std::move(unpaired));
  return status;
}

void UnpairedList::AddRecordsOf(char side, const PassDiff& pass, const PassRef& here,
                                const PassRef& other) {
  const bool of_a = side == 'A';
  const StepView& view = of_a ? *pass.a : *pass.b;
  for (const uint64_t id : of_a ? pass.only_a : pass.only_b) {
    const auto record = view.Get(id);
    if (!record.ok()) continue;
    Unpaired unpaired = NewUnpaired(side, here);
    if (here.rank == kAllRanks) unpaired.rank = view.RankAt(id, {});
    unpaired.records = 1;
    unpaired.name = NameOf(*record);
    unpaired.key = ToText(record->key);
    unpaired.allowed = IsAllowed(unpaired.name);
    std::string& sample = of_a ? sample_a_ : sample_b_;
    if (sample.empty()) sample = unpaired.name;
    if (other.part) unpaired.why = "the other side's pass is unfinished";
    Add(std::move(unpaired));
  }
}

void UnpairedList::AddRecords(const PassDiff& pass, const PassPair& pair) {
  AddRecordsOf('A', pass, pair.a, pair.b);
  AddRecordsOf('B', pass, pair.b, pair.a);
}

std::string UnpairedList::NamesText() const {
  if (sample_a_.empty() || sample_b_.empty()) return "";
  return fmt::format("A has names like {}, B like {}", sample_a_, sample_b_);
}

}  // namespace tdump::compare
