#include "compare/foreign/next_file_records.h"

#include <algorithm>
#include <iterator>

namespace tdump::compare::foreign {

NextFileRecords::NextFileRecords(std::shared_ptr<OpenFiles> files, const DumpCatalog* catalog)
    : files_(std::move(files)), catalog_(*catalog) {}

bool NextFileRecords::Concerns(const DumpUnit& unit) const {
  return catalog_.kind == DumpKind::kPasses && catalog_.coordinates.contains(unit.rank);
}

void NextFileRecords::PutBack(size_t index, DumpContents* contents) const {
  const DumpUnit& unit = catalog_.units[index];
  if (!Concerns(unit)) return;
  const auto head = static_cast<ptrdiff_t>(CountLate(unit, contents->tensors));
  Tell(contents->tensors, static_cast<size_t>(head));
  contents->tensors.erase(contents->tensors.begin(), contents->tensors.begin() + head);
  const auto next =
      std::find_if(catalog_.units.begin() + static_cast<ptrdiff_t>(index), catalog_.units.end(),
                   [&](const DumpUnit& other) {
                     return other.directory == unit.directory && other.step == unit.step + 1;
                   });
  if (next == catalog_.units.end()) return;
  DumpContents later = ReadDump(files_, catalog_.kind, *next);
  const auto late = static_cast<ptrdiff_t>(CountLate(*next, later.tensors));
  std::move(later.tensors.begin(), later.tensors.begin() + late,
            std::back_inserter(contents->tensors));
}

// The head begins with a module ("model") of which the file has parts ("model.embed_tokens"): a
// module ends after its parts. It goes on until the next pass begins, with such a part or with what
// the first file, which has no head, has too.
size_t NextFileRecords::CountLate(const DumpUnit& unit,
                                  const std::vector<DumpTensor>& tensors) const {
  if (tensors.empty()) return 0;
  const std::set<std::string>& first = NamesOfFirst(unit);
  const std::string& module = tensors.front().name.key.path;
  if (first.contains(module)) return 0;
  const std::string inside = module + ".";
  const auto is_part = [&](const std::string& name) { return name.starts_with(inside); };
  if (std::none_of(first.begin(), first.end(), is_part)) return 0;
  const auto begins = std::find_if(tensors.begin(), tensors.end(), [&](const DumpTensor& tensor) {
    const std::string& name = tensor.name.key.path;
    return is_part(name) || first.contains(name);
  });
  return static_cast<size_t>(begins - tensors.begin());
}

const std::set<std::string>& NextFileRecords::NamesOfFirst(const DumpUnit& unit) const {
  std::lock_guard lock(mutex_);
  const auto [found, is_new] = first_.try_emplace(unit.directory);
  if (!is_new) return found->second;
  const auto first =
      std::find_if(catalog_.units.begin(), catalog_.units.end(),
                   [&](const DumpUnit& other) { return other.directory == unit.directory; });
  if (first->step != 0) return found->second;
  for (const DumpTensor& tensor : ReadDump(files_, catalog_.kind, *first).tensors)
    found->second.insert(tensor.name.key.path);
  return found->second;
}

void NextFileRecords::Tell(const std::vector<DumpTensor>& tensors, size_t count) const {
  std::lock_guard lock(mutex_);
  for (size_t i = 0; i < count; ++i) {
    const std::string& name = tensors[i].name.key.path;
    if (std::find(names_.begin(), names_.end(), name) == names_.end()) names_.push_back(name);
  }
}

std::vector<std::string> NextFileRecords::names() const {
  std::lock_guard lock(mutex_);
  return names_;
}

}  // namespace tdump::compare::foreign
