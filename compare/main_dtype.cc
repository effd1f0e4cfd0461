#include "compare/main_dtype.h"

#include <map>

#include "compare/element.h"

namespace tdump::compare {

std::string MainDType(const StepView& view) {
  std::map<std::string, uint64_t> counts;
  const Status status = view.ForEachTensor([&](const io::Record& record) {
    const NumberKind kind = FormatOf(record.dtype).kind;
    if (kind == NumberKind::kFloat || kind == NumberKind::kComplex)
      ++counts[std::string(record.dtype.view())];
    return true;
  });
  std::string most;
  uint64_t count = 0;
  for (const auto& [dtype, n] : counts) {
    if (n > count) most = dtype, count = n;
  }
  return status.ok() ? most : "";
}

}  // namespace tdump::compare
