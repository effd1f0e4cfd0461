// The text of a device, "cuda:0", made once.
#pragma once

#include <c10/core/Device.h>

#include <string_view>

#include "collectors/torch/export.h"

namespace tdump::collectors {

// Valid for good. Any thread. May throw std::bad_alloc the first time.
TDUMP_TORCH_EXPORT std::string_view DeviceText(c10::Device device);

}  // namespace tdump::collectors
