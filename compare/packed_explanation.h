// PackedExplanation: what explains the error of a pair; of most pairs nothing has to.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "compare/explain.h"
#include "compare/packed.h"

namespace tdump::compare {

template <>
struct Packing<std::optional<Explanation>> {
  static std::string Pack(const std::optional<Explanation>& explanation);
  static std::optional<Explanation> Unpack(std::string_view bytes);
};
using PackedExplanation = Packed<std::optional<Explanation>>;

}  // namespace tdump::compare
