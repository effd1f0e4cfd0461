#include "compare/foreign/pickle_walk.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>

#include "core/utf8.h"

namespace tdump::compare::foreign {
namespace {

constexpr size_t kMaxDepth = 64;
constexpr size_t kMaxTensors = 1'000'000;
constexpr size_t kMaxVisits = 4'000'000;
constexpr size_t kMaxSkipped = 1000;
constexpr size_t kMaxKey = 4096;
constexpr size_t kMaxTexts = 1000, kMaxText = 1024;
constexpr uint64_t kMaxPlaces = 256ull << 20;  // bytes of all places together

class Walker {
 public:
  Walker(const PickleHeap& heap, const std::string& file) : heap_(heap), file_(file) {}

  Status Visit(PickleRef ref) {
    if (++visits_ > kMaxVisits || contents_.tensors.size() > kMaxTensors)
      return Bad("more values than are read");
    switch (heap_.kind(ref)) {
      case PickleKind::kTensor:
        place_bytes_ += TextOf(place_).size() + place_.size() * sizeof(std::string);
        if (place_bytes_ > kMaxPlaces) return Bad("names that are too long");
        contents_.tensors.push_back({place_, ref});
        return {};
      case PickleKind::kList:
      case PickleKind::kDict:
        if (place_.size() == kMaxDepth) return Bad(fmt::format("nested deeper than {}", kMaxDepth));
        return heap_.kind(ref) == PickleKind::kList ? VisitList(ref) : VisitDict(ref);
      case PickleKind::kOpaque:
      case PickleKind::kStorage:
        Skip(ref);
        return {};
      case PickleKind::kText:
        if (contents_.texts.size() < kMaxTexts && heap_.text(ref).size() < kMaxText &&
            place_.size() < 3)
          contents_.texts.emplace(TextOf(place_), heap_.text(ref));
        return {};
      default:
        return {};
    }
  }

  PickleContents Take() { return std::move(contents_); }

 private:
  Status VisitList(PickleRef ref) {
    size_t index = 0;
    for (const PickleRef item : heap_.items(ref))
      TDUMP_RETURN_IF_ERROR(VisitAt(std::to_string(index++), item));
    return {};
  }

  Status VisitDict(PickleRef ref) {
    const std::vector<PickleRef>& items = heap_.items(ref);
    std::set<std::string> keys;
    for (size_t i = 0; i + 1 < items.size(); i += 2) {
      std::string key;
      if (heap_.kind(items[i]) == PickleKind::kText)
        key = heap_.text(items[i]);
      else if (heap_.kind(items[i]) == PickleKind::kInteger)
        key = std::to_string(heap_.at(items[i]).number);
      else {
        SkipUnnamed(items[i], items[i + 1]);
        continue;
      }
      if (!keys.insert(key).second) return Bad(fmt::format("the key '{}' twice", key));
      TDUMP_RETURN_IF_ERROR(VisitAt(std::move(key), items[i + 1]));
    }
    return {};
  }

  Status VisitAt(std::string key, PickleRef value) {
    if (key.size() > kMaxKey)
      return Bad(fmt::format("a key of {} bytes, more than {}", key.size(), kMaxKey));
    place_.push_back(std::move(key));
    TDUMP_RETURN_IF_ERROR(Visit(value));
    place_.pop_back();
    return {};
  }

  // An entry whose key cannot be a name: a tuple, None, True, a float, bytes.
  void SkipUnnamed(PickleRef key, PickleRef value) {
    const bool may_hold = heap_.kind(value) == PickleKind::kTensor || heap_.has_items(value) ||
                          heap_.kind(value) == PickleKind::kOpaque;
    if (!may_hold || contents_.skipped.size() == kMaxSkipped) return;
    contents_.skipped.push_back(
        fmt::format("'{}': an entry whose key is neither a text nor a whole number (offset {})",
                    Shown(), heap_.at(key).offset));
  }

  void Skip(PickleRef ref) {
    if (contents_.skipped.size() == kMaxSkipped) return;
    const bool storage = heap_.kind(ref) == PickleKind::kStorage;
    contents_.skipped.push_back(fmt::format(
        "'{}': {} (offset {}), never run", Shown(),
        storage ? "a storage without a tensor" : heap_.text(ref), heap_.at(ref).offset));
  }

  Status Bad(const std::string& what) const {
    return Corrupt(fmt::format("'{}', '{}': {}", file_, Shown(), what));
  }

  std::string Shown() const {
    return place_.empty() ? "." : std::string(CutUtf8(TextOf(place_), 200));
  }

  const PickleHeap& heap_;
  const std::string& file_;
  std::vector<std::string> place_;
  PickleContents contents_;
  size_t visits_ = 0;
  uint64_t place_bytes_ = 0;
};

}  // namespace

std::string TextOf(const std::vector<std::string>& place) {
  return fmt::format("{}", fmt::join(place, "."));
}

Result<PickleContents> WalkPickle(const PickleHeap& heap, PickleRef root, const std::string& file) {
  Walker walker(heap, file);
  TDUMP_RETURN_IF_ERROR(walker.Visit(root));
  PickleContents contents = walker.Take();
  if (contents.tensors.empty() && !contents.skipped.empty())
    return Unsupported(
        fmt::format("'{}' holds no tensor that can be read: {}", file, contents.skipped.front()));
  return contents;
}

}  // namespace tdump::compare::foreign
