// The coverage of a run as JSON: what RunIndex holds, under stable names (docs/guide.md).
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "io/pass_store.h"
#include "io/run_index.h"

namespace tdump::tools {

nlohmann::ordered_json CoverageJson(const io::PassStore& store, const io::RunIndex& index);

// By which way of execution each selected operator was seen, or why it was not. Reads all passes.
nlohmann::ordered_json WaysJson(const io::PassStore& store, const io::RunIndex& index);

// The document as text with a newline; bytes that are no UTF-8 become U+FFFD,
// everything beyond ASCII is escaped.
std::string JsonText(const nlohmann::ordered_json& document);

}  // namespace tdump::tools
