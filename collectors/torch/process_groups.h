// What the operators of torch.distributed are given that is neither tensor nor number.
#pragma once

#include <string_view>

#include "core/call_text.h"

namespace c10 {
struct IValue;
}

namespace tdump::collectors {

// A process group as `group_name` and `group_size`, which is how the functional collectives have
// it, a reduction as "sum", "avg"; nothing of other objects.
void AddProcessGroup(std::string_view name, const c10::IValue& value, CallText* text) noexcept;

}  // namespace tdump::collectors
