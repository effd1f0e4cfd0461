#include "compare/main_dtype.h"

#include <map>

#include "compare/dequantised.h"
#include "compare/element.h"

namespace tdump::compare {

std::string MainDType(const StepView& view) {
  std::map<std::string, uint64_t> counts;
  const Status status = view.ForEachTensor([&](const io::Record& record) {
    const DType stored = RecordedDType(record);
    const NumberKind kind = FormatOf(stored).kind;
    if (kind == NumberKind::kFloat || kind == NumberKind::kComplex || stored != record.dtype)
      ++counts[std::string(stored.view())];
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
