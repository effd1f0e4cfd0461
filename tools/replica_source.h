// The two sides of tdump-diff RUN --across AXIS.
#pragma once

#include <string>

#include "core/status.h"
#include "tools/diff_source.h"

namespace tdump::tools {

// `text`: a run of tdump. `topology`: where its ranks lie, as "tp=4,dp=2" (fastest axis first); "":
// as its manifests say. Error: there is no such axis, or nothing says where the ranks lie.
Result<DiffSources> OpenReplicas(const std::string& text, const std::string& axis,
                                 const std::string& topology);

}  // namespace tdump::tools
