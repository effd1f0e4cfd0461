// The number of a layer in a path: "decoder.layers.3.mlp" -> 3.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tdump::compare {

// The first component that is a number; none where it does not fit in 32 bits.
std::optional<uint32_t> LayerOf(std::string_view path);
// The path with that component replaced. Precondition: LayerOf(path).
std::string WithLayer(std::string_view path, uint64_t layer);

}  // namespace tdump::compare
