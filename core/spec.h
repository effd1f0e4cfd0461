// SPEC, the index lists of the command line and the YAML: "0-9", "3,7", "0-511:8", "all", "none",
// "-1" (from the end).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/status.h"

namespace tdump {

class Spec {
 public:
  static Spec All();
  static Spec None() { return {}; }
  // Grammar: "all" | "none" | item {"," item}; item = N | A-B | A-B:STRIDE, all inclusive; a single
  // negative number counts from the end (needs `count` in Contains). Spaces around items are
  // allowed. Error: position and what was expected.
  static Result<Spec> Parse(std::string_view text);

  // `count`: size of the set the index is from (ranks of the world), 0 when unbounded.
  bool Contains(uint64_t index, uint64_t count = 0) const;
  bool is_all() const { return all_; }
  bool is_none() const { return !all_ && items_.empty(); }
  bool has_negative() const;  // some item counts from the end
  // Smallest and largest index named; for all: 0 and UINT64_MAX. Undefined for none. Negative items
  // count as `count` + item.
  uint64_t Min(uint64_t count = 0) const;
  uint64_t Max(uint64_t count = 0) const;
  // Every index named is below `count`; else `*misfit` is the first
  // item with one that is not, as text.
  bool FitsIn(uint64_t count, std::string* misfit) const;
  std::string ToString() const;
  bool operator==(const Spec&) const = default;

 private:
  struct Item {
    int64_t first = 0;
    int64_t last = 0;
    int64_t stride = 1;
    bool operator==(const Item&) const = default;
  };
  bool all_ = false;
  std::vector<Item> items_;
};

}  // namespace tdump
