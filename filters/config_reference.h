// The page docs/config.md, made from the tables of filters/schema.h.
#pragma once

#include <string>

namespace tdump::filters {

std::string ConfigReference();

}  // namespace tdump::filters
