#include "launch/runtime/predicates.h"

#include "core/key.h"

namespace tdump::launch {

Result<bool> RuntimePredicates::Evaluate(const std::string& spec, const OperatorInfo& info,
                                         const void* subject) {
  char error[512] = "";
  const std::string name = PlainName(info.root, info.path, info.op);
  const int answer = evaluate_(spec.c_str(), name.c_str(), subject, error, sizeof error);
  if (answer < 0) return Internal(error);
  return answer != 0;
}

}  // namespace tdump::launch
