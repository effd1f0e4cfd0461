#include "compare/channel_sums.h"

#include <algorithm>

#include "compare/pair_tile.h"

namespace tdump::compare {

void ChannelSums::Start() {
  split_ = false;
  sums_.assign(channels_, 0.0);
}

void ChannelSums::Add(const double* errors, size_t n, uint64_t first) {
  if (split_) {
    for (size_t i = 0; i < n; ++i) Add(first + i, errors[i]);
    return;
  }
  uint64_t channel = first % channels_;
  while (n > 0) {
    const auto run = static_cast<size_t>(std::min<uint64_t>(n, channels_ - channel));
    AddEach(sums_.data() + channel, errors, run);
    errors += run;
    n -= run;
    channel = 0;
  }
}

TileChannels ChannelSums::ForTile(uint64_t first) {
  if (empty()) return {};
  if (!split_) {
    moved_.resize(channels_);
    for (uint64_t i = 0; i < channels_; ++i) moved_[PlaceInBlock(i)] = sums_[i];
    sums_.swap(moved_);
    split_ = true;
  }
  return {.sums = sums_.data(), .count = channels_, .first = first % channels_};
}

std::vector<double>& ChannelSums::Finish() {
  if (split_) {
    moved_.resize(channels_);
    for (uint64_t i = 0; i < channels_; ++i) moved_[i] = sums_[PlaceInBlock(i)];
    sums_.swap(moved_);
    split_ = false;
  }
  return sums_;
}

}  // namespace tdump::compare
