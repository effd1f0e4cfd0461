#include "io/count_history.h"

#include <fmt/format.h>

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

uint64_t More(uint64_t now, uint64_t before) { return now - std::min(now, before); }

}  // namespace

void CountHistory::EndPass(uint64_t ordinal) {
  ordinal_ = ordinal;
  counted_ = false;
}

void CountHistory::Add(OperatorCountSection&& counts) {
  key_.clear();
  for (const std::string* part : {&counts.root, &counts.path, &counts.op})
    AppendSized(*part, &key_);
  const auto [found, is_new] = places_.try_emplace(key_, operators_.size());
  if (is_new) operators_.push_back({.word = {counts.root, counts.path, counts.op, 0, 0, 0}});
  Operator& op = operators_[found->second];
  const OperatorCountSection before = WordOf(op);
  op.word = std::move(counts);
  op.growth.reset();
  const Growth growth = {found->second, More(op.word.calls, before.calls),
                         More(op.word.records, before.records),
                         More(op.word.not_kept, before.not_kept)};
  if (!ordinal_ || (growth.calls | growth.records | growth.not_kept) == 0) return;
  if (!std::exchange(counted_, true)) {
    passes_.emplace_back(*ordinal_, growths_.size());
    growths_.push_back({.ordinal = *ordinal_});
  }
  growths_.back().of.push_back(growth);
  op.growth = growth;
  op.growths = growths_.size() - 1;
}

Status CountHistory::Repeat(const SameCountsSection& same) {
  if (growths_.empty() || growths_.back().ordinal != same.as)
    return Corrupt(fmt::format("as: {} is not the last pass before it with counts", same.as));
  ++growths_.back().repeats;
  passes_.emplace_back(same.ordinal, growths_.size() - 1);
  return Status();
}

OperatorCountSection CountHistory::WordOf(const Operator& op) const {
  OperatorCountSection word = op.word;
  if (!op.growth) return word;
  const uint64_t repeats = growths_[op.growths].repeats;
  word.calls += repeats * op.growth->calls;
  word.records += repeats * op.growth->records;
  word.not_kept += repeats * op.growth->not_kept;
  return word;
}

std::vector<size_t> CountHistory::ByName() const {
  std::vector<size_t> places(operators_.size());
  std::iota(places.begin(), places.end(), size_t{0});
  const auto name = [&](size_t place) {
    const OperatorCountSection& word = operators_[place].word;
    return std::tie(word.root, word.path, word.op);
  };
  std::sort(places.begin(), places.end(), [&](size_t a, size_t b) { return name(a) < name(b); });
  return places;
}

std::vector<OperatorCountSection> CountHistory::LastWords() const {
  std::vector<OperatorCountSection> words;
  words.reserve(operators_.size());
  for (const size_t place : ByName()) words.push_back(WordOf(operators_[place]));
  return words;
}

std::vector<uint64_t> CountHistory::RecordsOf(const std::set<uint64_t>& ordinals) const {
  std::vector<uint64_t> passes(growths_.size()), by_place(operators_.size());
  for (const auto& [ordinal, growths] : passes_) passes[growths] += ordinals.contains(ordinal);
  for (size_t i = 0; i < growths_.size(); ++i) {
    for (const Growth& growth : growths_[i].of)
      by_place[growth.place] += passes[i] * growth.records;
  }
  std::vector<uint64_t> records;
  records.reserve(by_place.size());
  // A forged manifest may count downwards in between.
  for (const size_t place : ByName())
    records.push_back(std::min(by_place[place], WordOf(operators_[place]).records));
  return records;
}

}  // namespace tdump::io
