// collect.kernels: print. Reads an argument of a kernel and hands it on to be printed.
#pragma once

#include <string_view>

#include "collectors/torch/capture.h"
#include "core/kernels.h"
#include "core/recorder.h"

namespace tdump::collectors {

// Where the rules want `seen` of the call; nothing of it goes to the sink. What is on a device has
// no values here: a copy would have to wait for the job's stream. May throw std::bad_alloc.
void PrintArgument(Recorder* recorder, Recorder::CallScope* scope, KernelReports* reports,
                   std::string_view kernel, const Seen& seen, const at::TensorBase& tensor);

}  // namespace tdump::collectors
