// Names cut to the width of a column, so that names that differ look different.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace tdump::compare {

// At most `width` characters: "model.lay….mlp.down_proj". Precondition: well-formed UTF-8.
std::string Shorten(std::string_view text, size_t width);

// A name in a table, and what is said behind it: "layers.1.up" and ", output".
struct NamedCell {
  std::string name, what;
};

// Each in at most `width` characters. Names are cut where those that would look the same are equal;
// one that would look like another even so, or has less room than says anything, stays whole. What
// stands behind a name is not cut.
std::vector<std::string> ShortenApart(const std::vector<NamedCell>& cells, size_t width);

}  // namespace tdump::compare
