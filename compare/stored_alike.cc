#include "compare/stored_alike.h"

#include <algorithm>
#include <string>
#include <unordered_map>

#include "compare/dequantised.h"
#include "core/key.h"

namespace tdump::compare {
namespace {

void ShowStoredWhere(std::span<StepView* const> views, std::span<StepView* const> others) {
  const auto dequantises = [](const StepView* view) { return view->dequantises(); };
  if (std::none_of(views.begin(), views.end(), dequantises)) return;
  std::unordered_map<std::string, DType> stored;  // by key
  for (const StepView* other : others) {
    (void)other->ForEachTensor([&](const io::Record& record) {
      if (RecordedDType(record) == record.dtype) stored.emplace(ToText(record.key), record.dtype);
      return true;
    });
  }
  for (StepView* view : views) {
    view->ShowStored([&](const io::Record& record) {
      const auto found = stored.find(ToText(record.key));
      return found != stored.end() && found->second == record.dtype;
    });
  }
}

}  // namespace

void ShowStoredAlike(std::span<StepView* const> a, std::span<StepView* const> b) {
  ShowStoredWhere(a, b);
  ShowStoredWhere(b, a);
}

}  // namespace tdump::compare
