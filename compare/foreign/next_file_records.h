// SGLang writes the file of a pass when the module `model` has ended, before its output is taken:
// what a pass computes from there on (model, lm_head, logits_processor) stands at the head of the
// next file.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "compare/foreign/dump_catalog.h"
#include "compare/foreign/dump_reader.h"

namespace tdump::compare::foreign {

// Thread-safe.
class NextFileRecords {
 public:
  // `catalog` outlives it.
  NextFileRecords(std::shared_ptr<OpenFiles> files, const DumpCatalog* catalog);

  // Takes from the contents of a unit what belongs to the pass before, and adds what the next file
  // has of this one. Does nothing to other dumps.
  void PutBack(size_t unit, DumpContents* contents) const;

  // Names that stood in the wrong file, of the passes so far, in their order.
  std::vector<std::string> names() const;

 private:
  bool Concerns(const DumpUnit& unit) const;
  size_t CountLate(const DumpUnit& unit, const std::vector<DumpTensor>& tensors) const;
  const std::set<std::string>& NamesOfFirst(const DumpUnit& unit) const;
  void Tell(const std::vector<DumpTensor>& tensors, size_t count) const;

  const std::shared_ptr<OpenFiles> files_;
  const DumpCatalog& catalog_;
  mutable std::mutex mutex_;
  mutable std::map<std::string, std::set<std::string>> first_;  // by directory
  mutable std::vector<std::string> names_;
};

}  // namespace tdump::compare::foreign
