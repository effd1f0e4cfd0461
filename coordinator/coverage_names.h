// Names of operators, made short for people and guessed at for them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tdump::coordinator {

// Names that differ in one number are folded: "layer.0.drop", "layer.1.drop" -> "layer.{0-1}.drop".
// Several numbers fold when all combinations are there. In the order of first appearance.
std::vector<std::string> FoldNames(const std::vector<std::string>& names);

// The names most like `selector`, a regex that matched none of them; best first, at most `most`,
// without those that have nothing in common with it.
std::vector<std::string> NearNames(const std::string& selector,
                                   const std::vector<std::string>& names, size_t most);

// "a, b, and 3 more", printable.
std::string Listed(const std::vector<std::string>& items, size_t most,
                   std::string_view between = ", ");

}  // namespace tdump::coordinator
