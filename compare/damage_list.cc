#include "compare/damage_list.h"

#include <algorithm>

namespace tdump::compare {
namespace {

constexpr size_t kMostListed = 1000;
// Where a file ends too early (io/pass_scan.cc).
constexpr std::string_view kStopped = "reading stopped here";

}  // namespace

void DamageList::Add(io::Damage damage) {
  if (files_.contains(damage.file) && damage.what.ends_with(kStopped)) return;
  const bool is_new = seen_.emplace(damage.file, damage.what).second;
  if (is_new && report_->damage.size() < kMostListed) report_->damage.push_back(std::move(damage));
}

void DamageList::Add(const Status& status) {
  if (status.ok()) return;
  const auto names = [&](const std::string& file) {
    return status.message().find(file) != std::string::npos;
  };
  if (std::none_of(files_.begin(), files_.end(), names)) Add({"", 0, status.message()});
}

void DamageList::AddListed(const std::vector<io::Damage>& all) {
  for (const io::Damage& damage : all) Add(damage);
  for (const io::Damage& damage : all) {
    if (!damage.file.empty()) files_.insert(damage.file);
  }
}

void DamageList::AddOf(const RunSide& side) {
  if (!side.rank() && options_->ranks.is_all()) {
    // Not rank by rank: a damaged manifest may tell of any number of them.
    AddListed(side.DamageOf(kAllRanks));
    return;
  }
  std::vector<io::Damage> all;
  for (int32_t rank = 0; rank < side.world(); ++rank) {
    if (!IsSelected(side, *options_, rank)) continue;
    for (io::Damage& damage : side.DamageOf(rank)) all.push_back(std::move(damage));
  }
  AddListed(all);
}

}  // namespace tdump::compare
