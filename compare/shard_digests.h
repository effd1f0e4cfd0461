// What shards kept of their values where not all have a hash, in one number each, so that copies
// that differ are told apart.
#pragma once

#include <vector>

#include "compare/load_shards.h"

namespace tdump::compare {

// Equal for shards of which all that every one of them kept is equal: statistics, sample, slice; of
// one that kept the values, made from them where another one did not. Empty: they have nothing in
// common, or all have a hash or the values. Errors: a payload's.
Result<std::vector<io::Hash128>> ShardDigests(const LoadedShards& loaded);

}  // namespace tdump::compare
