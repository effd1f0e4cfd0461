// What a job wants to be kept of tensors in place of their values: tdump.log(stat=...).
//
// The function is one of Python, so only the collector of Python can call it: it hands its caller
// over here.
#pragma once

#include <string_view>

#include "collectors/torch/export.h"

namespace at {
class TensorBase;
}

namespace tdump::collectors {

// Of the records that hold a summary, in place of a Python class of tensors.
inline constexpr std::string_view kSummaryClass = "tdump.log";

// `name`: "" or one that the function gave. Keeps nothing of what it is given.
using UseSummary = void (*)(void* context, std::string_view name, const at::TensorBase& summary);
// Of any thread. Calls `use` for each tensor that the function gives for `tensor`.
using Summariser = void (*)(const at::TensorBase& tensor, UseSummary use, void* context);

// Null: values are kept as the rules say.
TDUMP_TORCH_EXPORT void SetSummariser(Summariser summariser);
Summariser CurrentSummariser();

}  // namespace tdump::collectors
