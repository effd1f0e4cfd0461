// NameIndex: the names of a pass's records, made in one walk when the pass is opened, so that a
// look-up reads nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "core/status.h"
#include "io/pass_reader.h"

namespace tdump::python {

// Plain names as `tdump.Pass` describes them (python/tdump/reader.py). Not thread-safe: Python's
// lock is held in every call but the constructor.
class NameIndex {
 public:
  explicit NameIndex(const io::PassReader& pass);

  struct Named {
    std::string name;
    uint64_t id;
  };
  // Outputs with values, in the order in which they appeared; those without; by other names of
  // shared modules. Of equal names in one list the first counts.
  const std::vector<Named>& kept() const { return kept_; }
  const std::vector<Named>& not_kept() const { return not_kept_; }
  const std::vector<Named>& aliases() const { return aliases_; }
  const std::vector<uint64_t>& order() const { return order_; }  // all ids, in file order
  // The first record that could not be read.
  const Status& status() const { return status_; }

  // Of a key's text, as ToText writes it or as ParseKey takes it.
  std::optional<uint64_t> Find(std::string_view text) const;

 private:
  struct Output;
  void NameOutputs(std::vector<Output> outputs);
  void MoveComposites(const std::unordered_set<std::string>& composite);
  std::optional<uint64_t> FindExact(std::string_view text) const;

  std::vector<Named> kept_, not_kept_, aliases_;
  std::vector<uint64_t> order_;
  std::vector<std::string> keys_;                               // of the records of `order_`
  mutable std::unordered_map<std::string_view, uint64_t> ids_;  // filled by the first Find
  Status status_;
};

}  // namespace tdump::python
