#include "python/ext/record_dict.h"

#include <nanobind/stl/string.h>

#include <string>

#include "core/key.h"
#include "core/types.h"
#include "python/ext/part_dict.h"

namespace nb = nanobind;

namespace tdump::python {
namespace {

// "meta+hash+payload" as ("meta", "hash", "payload").
nb::tuple PartNames(Parts parts) {
  static constexpr std::pair<Parts, const char*> kNames[] = {
      {kPartMeta, "meta"},     {kPartHash, "hash"},   {kPartStats, "stats"},
      {kPartSample, "sample"}, {kPartSlice, "slice"}, {kPartPayload, "payload"}};
  nb::list list;
  for (const auto& [part, name] : kNames) {
    if ((parts & part) != 0) list.append(name);
  }
  return nb::tuple(list);
}

std::string Hex(const io::Hash128& hash) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const uint8_t byte : hash) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

void AddKey(const Key& key, nb::dict* out) {
  nb::dict& d = *out;
  d["name"] = Text(PlainName(key.root, key.path, key.op));
  d["key"] = Text(ToText(key));
  d["root"] = Text(key.root);
  d["path"] = Text(key.path);
  d["op"] = Text(key.op);
  d["role"] = Text(ToString(key.role));
  d["arg"] = Text(key.arg);
  d["call"] = key.call;
  d["micro"] = key.micro;
  d["chunk"] = key.chunk;
  d["phase"] = Text(ToString(key.phase));
  d["recompute"] = key.recompute;
  d["lane"] = key.lane;
}

void AddTensor(const io::Record& record, nb::dict* out) {
  nb::dict& d = *out;
  d["dtype"] = Text(record.dtype.view());
  d["bits_per_element"] = record.dtype.bits_per_element;
  d["elements_per_unit"] = record.dtype.elements_per_unit;
  d["unit_bytes"] = record.dtype.unit_bytes();
  d["shape"] = Integers(record.sizes);
  d["strides"] = Integers(record.strides);
  d["storage_offset"] = record.storage_offset;
  d["storage_id"] = record.storage_id;
  d["storage_bytes"] = record.storage_bytes;
  d["layout"] = Text(ToString(record.layout));
  d["device"] = Text(record.device);
  d["conj"] = record.conj;
  d["neg"] = record.neg;
  d["requires_grad"] = record.requires_grad;
  d["subclass"] = Text(record.subclass);
  d["dims"] = Text(record.dims);
  d["placements"] = Text(record.placements);
  d["mesh"] = Text(record.mesh);
  d["dim_names"] = Text(record.dim_names);
  d["global_shape"] = Integers(record.global_shape);
}

}  // namespace

nb::object Text(std::string_view text) {
  return nb::steal(
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "surrogateescape"));
}

nb::tuple Texts(const std::vector<std::string>& texts) {
  nb::list list;
  for (const std::string& text : texts) list.append(Text(text));
  return nb::tuple(list);
}

nb::tuple Integers(const std::vector<int64_t>& values) {
  nb::list list;
  for (const int64_t value : values) list.append(value);
  return nb::tuple(list);
}

nb::dict ToDict(const io::PassInfo& info) {
  nb::dict d;
  d["ordinal"] = info.ordinal;
  d["local_step"] = info.local_step;
  d["mode_step"] = info.mode_step;
  d["job_step"] = info.job_step < 0 ? nb::none() : nb::object(nb::int_(info.job_step));
  d["mode"] = Text(ToString(info.mode));
  d["generation"] = info.generation;
  d["rank"] = info.rank;
  d["world"] = info.world;
  d["pid"] = info.pid;
  d["started_ns"] = info.started_ns;
  d["host"] = Text(info.host);
  return d;
}

nb::dict ToDict(const io::Record& record) {
  nb::dict d;
  d["id"] = record.id;
  AddKey(record.key, &d);
  d["kind"] = Text(ToString(record.kind));
  d["cls"] = Text(record.cls);
  d["aliases"] = Texts(record.aliases);
  d["leaf"] = record.leaf;
  d["call_begin"] = record.call_begin;
  d["seen"] = record.seen;
  d["late"] = record.late;
  d["compiled"] = record.compiled;
  AddTensor(record, &d);
  d["asked"] = PartNames(record.parts_asked);
  d["kept"] = PartNames(record.parts_kept);
  d["filter_sets"] = record.filter_sets;
  d["reason"] = record.reason == SkipReason::kNone ? Text("") : Text(ToString(record.reason));
  d["reason_detail"] = Text(record.reason_detail);
  const std::optional<io::PayloadRef> slice =
      record.slice ? std::optional(record.slice->payload) : std::nullopt;
  const std::optional<io::PayloadRef>& values = record.payload ? record.payload : slice;
  d["bytes"] = values ? nb::object(nb::int_(values->logical_bytes)) : nb::none();
  d["hash"] = record.hash ? Text(Hex(*record.hash)) : nb::none();
  d["stats"] = StatisticsOrNone(record);
  d["sample"] = SampleOrNone(record);
  d["slice"] = SliceOrNone(record);
  return d;
}

nb::dict ToDict(const io::CallRecord& record) {
  const Call& call = record.call;
  nb::dict d;
  d["name"] = Text(PlainName(record.root, record.path, record.op));
  d["root"] = Text(record.root);
  d["path"] = Text(record.path);
  d["op"] = Text(record.op);
  d["kind"] = Text(ToString(record.kind));
  d["begin"] = call.begin;
  d["end"] = call.end;
  d["parent"] = call.parent;
  d["index"] = call.index;
  d["micro"] = call.micro;
  d["chunk"] = call.chunk;
  d["lane"] = call.lane;
  d["thread"] = call.thread;
  d["stream"] = call.stream;
  d["phase"] = Text(ToString(call.phase));
  d["recompute"] = call.recompute;
  d["compiled"] = call.compiled;
  d["threw"] = call.threw;
  d["text"] = Text(record.text);
  nb::list arguments;
  for (const ArgumentMeta& argument : record.arguments) {
    arguments.append(nb::make_tuple(Text(ToString(argument.role)), Text(argument.arg),
                                    Text(argument.dtype), Integers(argument.sizes)));
  }
  d["arguments"] = nb::tuple(arguments);
  return d;
}

nb::tuple ToTuple(const io::Damage& damage) {
  return nb::make_tuple(Text(damage.file), damage.offset, Text(damage.what));
}

}  // namespace tdump::python
