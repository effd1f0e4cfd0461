// A record in words: for tables, detail views, exports and JSON. All text is safe for a terminal.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "io/pass_reader.h"
#include "io/records.h"

namespace tdump::tools {

// "encoder.layer.0.attention/aten::mm::call1", with micro-batch and phase where they are not the
// first, as tdump-view takes it: "...~m2.b".
std::string NameText(const Key& key);
std::string RoleText(const Key& key);             // "output", "input kwargs.mask"
std::string ShapeText(const io::Record& record);  // "[4, 28, 384]"; of packed types in units
std::string SliceText(const io::Slice& slice);    // "[0:8, 0:64:2]"
std::string HashText(const io::Hash128& hash);    // 32 hexadecimal digits
std::string Quoted(const std::string& text);      // in ASCII, as JSON and Python read it
// "payload+hash", or why less was kept than asked: "meta only: sparse layout (sparse_coo)".
std::string KeptText(const io::Record& record);
// Whatever is unusual, with commas: "read after the call, conj, ...". `reader`: that gave it.
std::string RemarksText(const io::PassReader& reader, const io::Record& record);

nlohmann::ordered_json RecordJson(const io::Record& record);

}  // namespace tdump::tools
