#include "io/record_decoder.h"

#include <fmt/format.h>

#include <utility>

#include "io/archive.h"
#include "io/part_decoder.h"

namespace tdump::io {
namespace {

Status CheckSizes(const std::vector<int64_t>& sizes) {
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] < 0) return Corrupt(fmt::format("sizes[{}]: {} is negative", i, sizes[i]));
  }
  return Status::Ok();
}

// The number of units and their bytes fit in 63 bits, whatever strides say.
Status CheckProduct(const std::vector<int64_t>& sizes, uint64_t unit_bytes) {
  for (int64_t size : sizes) {
    if (size == 0) return Status::Ok();
  }
  int64_t product = unit_bytes == 0 ? 1 : static_cast<int64_t>(unit_bytes);
  for (int64_t size : sizes) {
    if (__builtin_mul_overflow(product, size, &product))
      return Corrupt("sizes: their product overflows 63 bits");
  }
  return Status::Ok();
}

Status CheckShape(const Record& record) {
  TDUMP_RETURN_IF_ERROR(CheckSizes(record.sizes));
  TDUMP_RETURN_IF_ERROR(CheckProduct(record.sizes, record.dtype.unit_bytes()));
  if (!record.strides.empty() && record.strides.size() != record.sizes.size()) {
    return Corrupt(fmt::format("strides: {} of them for {} sizes", record.strides.size(),
                               record.sizes.size()));
  }
  return Status::Ok();
}

Status CheckPlace(const PayloadRef& payload, const DecodeContext& context) {
  if (payload.earlier != 0) {
    if (payload.earlier < context.base && payload.stored_bytes <= context.base - payload.earlier)
      return Status::Ok();
    return Corrupt(
        fmt::format("payload of an earlier pass: offset {} and stored_bytes {} do not "
                    "lie before this pass, which begins at {}",
                    payload.earlier, payload.stored_bytes, context.base));
  }
  if (payload.offset <= context.file_bytes &&
      payload.stored_bytes <= context.file_bytes - payload.offset)
    return Status::Ok();
  return Corrupt(
      fmt::format("payload offset {} and stored_bytes {} lie outside the file's {} bytes",
                  payload.offset, payload.stored_bytes, context.file_bytes));
}

Status CheckDigests(const Record& record) {
  const PayloadRef& payload = *record.payload;
  const uint64_t bytes = record.tile_digests.size();
  if (payload.same_as != 0) return Status::Ok();
  const uint64_t expected =
      (payload.logical_bytes / kHashTile + (payload.logical_bytes % kHashTile != 0)) *
      sizeof(Hash128);
  if (bytes == expected) return Status::Ok();
  return Corrupt(fmt::format("digests: {} bytes, expected {} for a payload of {} bytes", bytes,
                             expected, payload.logical_bytes));
}

Status CheckPayload(const Record& record, const DecodeContext& context) {
  if (!record.payload) {
    if ((record.parts_kept & kPartPayload) != 0)
      return Corrupt("parts_kept: has payload, but the frame has no payload section");
    return Status::Ok();
  }
  const PayloadRef& payload = *record.payload;
  TensorMeta meta;
  meta.dtype = record.dtype;
  meta.layout = record.layout;
  meta.sizes = record.sizes;
  meta.strides = record.strides;
  uint64_t expected = 0;
  if (!PayloadBytes(meta, &expected)) return Corrupt("sizes: their product overflows 64 bits");
  if (payload.logical_bytes != expected) {
    return Corrupt(fmt::format("logical_bytes: {}, expected {} by dtype and sizes",
                               payload.logical_bytes, expected));
  }
  if (payload.same_as != 0) return Status::Ok();
  TDUMP_RETURN_IF_ERROR(CheckPlace(payload, context));
  if (payload.codec == 0 && payload.stored_bytes != payload.logical_bytes) {
    return Corrupt(fmt::format("stored_bytes: {}, expected logical_bytes {}", payload.stored_bytes,
                               payload.logical_bytes));
  }
  return Status::Ok();
}

Key KeyOf(const RecordSection& section, const OperatorInfo& op, const std::string& arg) {
  return {.root = op.root,
          .path = op.path,
          .op = op.op,
          .role = static_cast<Role>(section.role),
          .arg = arg,
          .call = section.call_index,
          .micro = section.micro,
          .chunk = section.chunk,
          .phase = static_cast<Phase>(section.phase),
          .recompute = (section.flags & 1) != 0,
          .lane = section.lane};
}

void FillTensor(RecordSection&& section, Record* record) {
  record->layout = static_cast<Layout>(section.layout);
  record->sizes = std::move(section.sizes);
  record->strides = std::move(section.strides);
  record->storage_offset = section.storage_offset;
  record->storage_id = section.storage_id;
  record->storage_bytes = section.storage_bytes;
  record->conj = (section.flags & 8) != 0;
  record->neg = (section.flags & 16) != 0;
  record->requires_grad = (section.flags & 32) != 0;
}

Status FillRecord(const NameTable& names, RecordSection&& section, Record* record) {
  TDUMP_ASSIGN_OR_RETURN(const OperatorInfo* op, names.Operator(section.op_id));
  TDUMP_ASSIGN_OR_RETURN(const std::string* arg, names.Name(section.arg_name, "arg_name"));
  TDUMP_ASSIGN_OR_RETURN(const std::string* dtype, names.Name(section.dtype_name, "dtype_name"));
  TDUMP_ASSIGN_OR_RETURN(const std::string* device, names.Name(section.device_name, "device_name"));
  if (dtype->size() >= sizeof(DType::name)) {
    return Corrupt(fmt::format("dtype_name: {} bytes long, at most {} expected", dtype->size(),
                               sizeof(DType::name) - 1));
  }
  record->id = section.record;
  record->key = KeyOf(section, *op, *arg);
  record->kind = op->kind;
  record->cls = op->cls;
  record->aliases = op->aliases;
  record->leaf = op->leaf;
  record->call_begin = section.call_begin;
  record->seen = section.seen;
  record->dtype = MakeDType(*dtype, section.bits_per_element, section.elements_per_unit);
  record->device = *device;
  record->compiled = (section.flags & 2) != 0;
  record->late = (section.flags & 4) != 0;
  record->parts_asked = section.parts_asked;
  record->parts_kept = section.parts_kept;
  record->filter_sets = section.filter_sets;
  record->reason = static_cast<SkipReason>(section.reason);
  record->reason_detail = std::move(section.reason_detail);
  FillTensor(std::move(section), record);
  return CheckShape(*record);
}

Status AddShard(ShardSection&& section, Record* record) {
  TDUMP_RETURN_IF_ERROR(CheckSizes(section.global_shape));
  record->dims = std::move(section.dims);
  record->placements = std::move(section.placements);
  record->mesh = std::move(section.mesh);
  record->global_shape = std::move(section.global_shape);
  record->dim_names = std::move(section.dim_names);
  record->subclass = std::move(section.subclass);
  return Status::Ok();
}

Status AddEarlier(const EarlierPayloadSection& section, Record* record) {
  if (!record->payload) return Corrupt("payload of an earlier pass: no payload section before it");
  if (section.offset == 0) return Corrupt("payload of an earlier pass: offset 0");
  record->payload->earlier = section.offset;
  return Status::Ok();
}

Status AddCompanion(const SectionCursor& cursor, Record* record) {
  switch (cursor.id()) {
    case StatisticsSection::kId:
    case SampleSection::kId:
    case SliceSection::kId:
      return AddPart(cursor, record);
    case EarlierPayloadSection::kId: {
      TDUMP_ASSIGN_OR_RETURN(const auto section, cursor.Decode<EarlierPayloadSection>());
      return AddEarlier(section, record);
    }
    case PayloadSection::kId: {
      TDUMP_ASSIGN_OR_RETURN(const auto section, cursor.Decode<PayloadSection>());
      record->payload = PayloadRef{.offset = section.offset,
                                   .stored_bytes = section.stored_bytes,
                                   .logical_bytes = section.logical_bytes,
                                   .codec = section.codec,
                                   .same_as = section.same_as};
      break;
    }
    case HashSection::kId: {
      TDUMP_ASSIGN_OR_RETURN(const auto section, cursor.Decode<HashSection>());
      record->hash = section.hash;
      break;
    }
    case TilesSection::kId: {
      TDUMP_ASSIGN_OR_RETURN(auto section, cursor.Decode<TilesSection>());
      record->tile_digests = std::move(section.digests);
      break;
    }
    case ShardSection::kId: {
      TDUMP_ASSIGN_OR_RETURN(auto section, cursor.Decode<ShardSection>());
      return AddShard(std::move(section), record);
    }
    default:
      break;  // of a later version: skipped
  }
  return Status::Ok();
}

Call CallOf(const CallSection& section, uint64_t pass) {
  Call call;
  call.op = section.op_id;
  call.pass = pass;
  call.begin = section.begin;
  call.end = section.end;
  call.parent = section.parent;
  call.index = section.index;
  call.micro = section.micro;
  call.chunk = section.chunk;
  call.lane = section.lane;
  call.thread = section.thread;
  call.stream = section.stream;
  call.phase = static_cast<Phase>(section.phase);
  call.recompute = (section.flags & 1) != 0;
  call.compiled = (section.flags & 2) != 0;
  call.threw = (section.flags & 4) != 0;
  return call;
}

Result<ArgumentMeta> ArgumentOf(const NameTable& names, ArgumentEntry&& entry) {
  TDUMP_ASSIGN_OR_RETURN(const std::string* arg, names.Name(entry.arg_name, "arg_name"));
  TDUMP_ASSIGN_OR_RETURN(const std::string* dtype, names.Name(entry.dtype_name, "dtype_name"));
  TDUMP_RETURN_IF_ERROR(CheckSizes(entry.sizes));
  return ArgumentMeta{static_cast<Role>(entry.role), *arg, *dtype, std::move(entry.sizes)};
}

Result<CallRecord> FillCall(const DecodeContext& context, CallSection&& section) {
  TDUMP_ASSIGN_OR_RETURN(const OperatorInfo* op, context.names.Operator(section.op_id));
  CallRecord record;
  record.root = op->root;
  record.path = op->path;
  record.op = op->op;
  record.kind = op->kind;
  record.call = CallOf(section, context.pass);
  record.text = std::move(section.text);
  for (ArgumentEntry& entry : section.arguments) {
    TDUMP_ASSIGN_OR_RETURN(ArgumentMeta argument, ArgumentOf(context.names, std::move(entry)));
    record.arguments.push_back(std::move(argument));
  }
  return record;
}

Result<Record> Decode(const DecodeContext& context, std::span<const std::byte> body,
                      bool with_digests) {
  Record record;
  bool found = false;
  SectionCursor cursor(body, context.swapped);
  while (cursor.Next()) {
    if (cursor.id() == RecordSection::kId) {
      TDUMP_ASSIGN_OR_RETURN(auto section, cursor.Decode<RecordSection>());
      TDUMP_RETURN_IF_ERROR(FillRecord(context.names, std::move(section), &record));
      found = true;
    } else if (cursor.id() != TilesSection::kId || with_digests) {
      TDUMP_RETURN_IF_ERROR(AddCompanion(cursor, &record));
    }
  }
  TDUMP_RETURN_IF_ERROR(cursor.status());
  if (!found) return Corrupt("the frame of a record has no record section");
  TDUMP_RETURN_IF_ERROR(CheckPayload(record, context));
  if (record.payload && with_digests) TDUMP_RETURN_IF_ERROR(CheckDigests(record));
  TDUMP_RETURN_IF_ERROR(CheckParts(context.file_bytes, context.swapped, &record));
  return record;
}

}  // namespace

Result<Record> DecodeRecord(const DecodeContext& context, std::span<const std::byte> body) {
  return Decode(context, body, true);
}

Result<Record> DecodeRecordMeta(const DecodeContext& context, std::span<const std::byte> body) {
  return Decode(context, body, false);
}

Result<CallRecord> DecodeCall(const DecodeContext& context, std::span<const std::byte> body) {
  SectionCursor cursor(body, context.swapped);
  while (cursor.Next()) {
    if (cursor.id() != CallSection::kId) continue;
    TDUMP_ASSIGN_OR_RETURN(auto section, cursor.Decode<CallSection>());
    return FillCall(context, std::move(section));
  }
  TDUMP_RETURN_IF_ERROR(cursor.status());
  return Corrupt("the frame of a call has no call section");
}

}  // namespace tdump::io
