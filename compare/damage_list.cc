#include "compare/damage_list.h"

namespace tdump::compare {
namespace {

constexpr size_t kMostListed = 1000;

}  // namespace

void DamageList::Add(io::Damage damage) {
  const bool is_new = seen_.emplace(damage.file, damage.what).second;
  if (is_new && report_->damage.size() < kMostListed) report_->damage.push_back(std::move(damage));
}

void DamageList::Add(const Status& status) {
  if (!status.ok()) Add({"", 0, status.message()});
}

void DamageList::AddOf(const RunSide& side) {
  if (!side.rank() && options_->ranks.is_all()) {
    // Not rank by rank: a damaged manifest may tell of any number of them.
    for (io::Damage& damage : side.DamageOf(kAllRanks)) Add(std::move(damage));
    return;
  }
  for (int32_t rank = 0; rank < side.world(); ++rank) {
    if (!IsSelected(side, *options_, rank)) continue;
    for (io::Damage& damage : side.DamageOf(rank)) Add(std::move(damage));
  }
}

}  // namespace tdump::compare
