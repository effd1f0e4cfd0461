#include "io/count_history.h"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

namespace tdump::io {
namespace {

void AppendSized(const std::string& text, std::string* to) {
  const uint64_t size = text.size();
  to->append(reinterpret_cast<const char*>(&size), sizeof(size));
  *to += text;
}

}  // namespace

void CountHistory::Add(OperatorCountSection&& counts) {
  key_.clear();
  for (const std::string* part : {&counts.root, &counts.path, &counts.op})
    AppendSized(*part, &key_);
  const auto [found, is_new] = places_.try_emplace(key_, last_.size());
  if (is_new) last_.push_back({counts.root, counts.path, counts.op, 0, 0, 0});
  OperatorCountSection& last = last_[found->second];
  if (ordinal_ && counts.records > last.records)
    growth_.push_back({*ordinal_, found->second, counts.records - last.records});
  last = std::move(counts);
}

std::vector<size_t> CountHistory::ByName() const {
  std::vector<size_t> places(last_.size());
  std::iota(places.begin(), places.end(), size_t{0});
  const auto name = [&](size_t place) {
    return std::tie(last_[place].root, last_[place].path, last_[place].op);
  };
  std::sort(places.begin(), places.end(), [&](size_t a, size_t b) { return name(a) < name(b); });
  return places;
}

std::vector<OperatorCountSection> CountHistory::LastWords() const {
  std::vector<OperatorCountSection> words;
  words.reserve(last_.size());
  for (const size_t place : ByName()) words.push_back(last_[place]);
  return words;
}

std::vector<uint64_t> CountHistory::RecordsOf(const std::set<uint64_t>& ordinals) const {
  std::vector<uint64_t> by_place(last_.size());
  for (const Growth& growth : growth_) {
    if (ordinals.contains(growth.ordinal)) by_place[growth.place] += growth.records;
  }
  std::vector<uint64_t> records;
  records.reserve(by_place.size());
  // A forged manifest may count downwards in between.
  for (const size_t place : ByName())
    records.push_back(std::min(by_place[place], last_[place].records));
  return records;
}

}  // namespace tdump::io
