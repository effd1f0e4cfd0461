#include "compare/weight_update.h"

#include <utility>

#include "compare/element.h"

namespace tdump::compare {

Result<std::unique_ptr<BothSides>> BothSides::Open(const StepView& view_a, const StepView& view_b,
                                                   const RecordIds& ids) {
  auto both = std::make_unique<BothSides>();
  TDUMP_ASSIGN_OR_RETURN(both->record_a_, view_a.Get(ids.a));
  TDUMP_ASSIGN_OR_RETURN(both->record_b_, view_b.Get(ids.b));
  for (const io::Record* record : {&both->record_a_, &both->record_b_}) {
    if (!record->payload || FormatOf(record->dtype).kind != NumberKind::kFloat ||
        ElementShape(*record) != ElementShape(both->record_a_))
      return InvalidArgument("no real numbers of one shape");
  }
  TDUMP_ASSIGN_OR_RETURN(ReadBytes a, view_a.Open(both->record_a_));
  TDUMP_ASSIGN_OR_RETURN(ReadBytes b, view_b.Open(both->record_b_));
  both->sides_.reserve(2);
  both->sides_.emplace_back(both->record_a_, std::move(a), std::vector<bool>());
  both->sides_.emplace_back(both->record_b_, std::move(b), std::vector<bool>());
  return both;
}

std::vector<uint64_t> BothSides::shape() const { return ElementShape(record_a_); }

Status BothSides::LoadA(uint64_t first, uint64_t count) {
  TDUMP_RETURN_IF_ERROR(sides_[0].Load(first, count));
  a = sides_[0].Floats(0, count);
  return {};
}

Status BothSides::Load(uint64_t first, uint64_t count) {
  TDUMP_RETURN_IF_ERROR(LoadA(first, count));
  TDUMP_RETURN_IF_ERROR(sides_[1].Load(first, count));
  b = sides_[1].Floats(0, count);
  return {};
}

}  // namespace tdump::compare
