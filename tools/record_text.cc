#include "tools/record_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "core/text.h"
#include "tools/statistics_text.h"

namespace tdump::tools {

std::string NameText(const Key& key) {
  std::string text = Printable(PlainName(key.root, key.path, key.op));
  if (key.call != 0) text += fmt::format("::call{}", key.call);
  return text + KeyMarks(key);
}

std::string RoleText(const Key& key) {
  std::string text(ToString(key.role));
  return key.arg.empty() ? text : text + " " + Printable(key.arg);
}

std::string ShapeText(const io::Record& record) {
  return fmt::format("[{}]", fmt::join(record.sizes, ", "));
}

std::string Quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

std::string SliceText(const io::Slice& slice) {
  std::string text;
  for (size_t i = 0; i < slice.sizes.size(); ++i) {
    const int64_t begin = slice.begins[i], size = slice.sizes[i], step = slice.steps[i];
    const int64_t end = begin + (size > 0 ? (size - 1) * step + 1 : 0);
    text += fmt::format("{}{}:{}", text.empty() ? "" : ", ", begin, end);
    if (step != 1) text += fmt::format(":{}", step);
  }
  return "[" + text + "]";
}

std::string HashText(const io::Hash128& hash) { return fmt::format("{:02x}", fmt::join(hash, "")); }

std::string KeptText(const io::Record& record) {
  const std::string kept = PartsToString(record.parts_kept);
  if (record.reason == SkipReason::kNone) return kept;
  std::string why(ToString(record.reason));
  if (!record.reason_detail.empty()) why += fmt::format(" ({})", Printable(record.reason_detail));
  return fmt::format("{} only: {}", kept, why);
}

std::string RemarksText(const io::PassReader& reader, const io::Record& record) {
  std::string text;
  const auto add = [&](const std::string& word) { text += (text.empty() ? "" : ", ") + word; };
  if (record.late) add("read after the call");
  if (record.compiled) add("compiled");
  if (record.conj) add("conj view");
  if (record.neg) add("neg view");
  if (record.layout != Layout::kStrided) add(std::string(ToString(record.layout)));
  if (!record.subclass.empty()) add(Printable(record.subclass));
  if (record.payload && record.payload->same_as != 0) {
    const auto owner = reader.Get(record.payload->same_as);
    add("same bytes as " + (owner.ok() ? Printable(ToText(owner->key))
                                       : fmt::format("record {}", record.payload->same_as)));
  }
  return text;
}

nlohmann::ordered_json RecordJson(const io::Record& record) {
  using Json = nlohmann::ordered_json;
  Json json = {{"key", ToText(record.key)},
               {"name", PlainName(record.key.root, record.key.path, record.key.op)},
               {"kind", ToString(record.kind)},
               {"class", record.cls},
               {"role", ToString(record.key.role)},
               {"arg", record.key.arg},
               {"call", record.key.call},
               {"micro", record.key.micro},
               {"phase", ToString(record.key.phase)},
               {"lane", record.key.lane},
               {"recompute", record.key.recompute},
               {"record", record.id},
               {"dtype", record.dtype.view()},
               {"shape", record.sizes},
               {"strides", record.strides},
               {"storage_offset", record.storage_offset},
               {"storage_id", record.storage_id},
               {"device", record.device},
               {"layout", ToString(record.layout)},
               {"asked", PartsToString(record.parts_asked)},
               {"kept", PartsToString(record.parts_kept)},
               {"late", record.late},
               {"requires_grad", record.requires_grad}};
  json["bytes"] = record.payload ? record.payload->logical_bytes : 0;
  json["hash"] = record.hash ? Json(HashText(*record.hash)) : Json();
  if (record.reason != SkipReason::kNone) {
    json["reason"] = ToString(record.reason);
    json["reason_detail"] = record.reason_detail;
  }
  if (record.statistics) json["stats"] = StatisticsJson(*record.statistics);
  if (record.slice) json["slice"] = SliceText(*record.slice);
  if (!record.dims.empty()) json["dims"] = record.dims;
  if (!record.subclass.empty()) json["subclass"] = record.subclass;
  return json;
}

}  // namespace tdump::tools
