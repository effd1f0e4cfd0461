#include "tests/io/pass_image.h"

#include <gtest/gtest.h>

#include <cstring>

#include "io/frame_builder.h"
#include "io/hash.h"

namespace tdump::io::test {

std::string RawSection(uint32_t id, std::string_view archive) {
  std::string body(sizeof(SectionHeader), '\0');
  body += archive;
  FinishSection(id, 0, &body);
  return body;
}

std::string RawFrame(FrameKind kind, std::string_view body) {
  std::string out;
  FrameBuilder frame(kind, &out);
  out += body;
  frame.Finish();
  return out;
}

Image::Image(uint64_t magic, FileHeader header) {
  header.magic = magic;
  AppendStruct(Sealed(header), &bytes_);
}

uint64_t Image::Frame(FrameKind kind, std::string_view body) {
  const uint64_t offset = bytes_.size();
  bytes_ += RawFrame(kind, body);
  return offset;
}

uint64_t Image::Name(uint32_t id, std::string_view text) {
  index_.names.push_back(bytes_.size());
  NameSection name;
  name.name = id;
  name.text = text;
  return Frame(FrameKind::kName, EncodeSection(name));
}

uint64_t Image::Operator(uint32_t op, uint32_t path_name, uint32_t class_name) {
  index_.operators.push_back(bytes_.size());
  OperatorSection section;
  section.op_id = op;
  section.leaf = 1;
  section.path_name = path_name;
  section.class_name = class_name;
  return Frame(FrameKind::kOperator, EncodeSection(section));
}

uint64_t Image::Call(const CallSection& call) {
  index_.calls.push_back(bytes_.size());
  return Frame(FrameKind::kCall, EncodeSection(call));
}

uint64_t Image::Record(uint64_t record, std::string_view body) {
  index_.records.push_back({record, bytes_.size()});
  return Frame(FrameKind::kRecord, body);
}

std::string Image::Payload(std::span<const std::byte> bytes) {
  const uint64_t align = bytes.size() > kLargePayload ? kLargePayloadAlign : kPayloadAlign;
  const uint64_t begin = PadTo(bytes_.size() + 2 * sizeof(FrameHeader), align);
  Frame(FrameKind::kPad, std::string(begin - bytes_.size() - 2 * sizeof(FrameHeader), '\0'));
  AppendStruct(MakeFrameHeader(FrameKind::kPayload, bytes.size(), LowWord(HashPayload(bytes))),
               &bytes_);
  PayloadSection payload;
  payload.offset = bytes_.size();
  payload.stored_bytes = payload.logical_bytes = bytes.size();
  bytes_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  bytes_.append(PadTo(bytes.size(), 8) - bytes.size(), '\0');
  payload_bytes_ += bytes.size();
  TilesSection tiles;
  AppendTileDigests(bytes, &tiles.digests);
  return EncodeSection(payload) + EncodeSection(HashSection{HashPayload(bytes)}) +
         EncodeSection(tiles);
}

void Image::Finish() {
  PassEndSection end;
  end.records = index_.records.size();
  end.calls = index_.calls.size();
  end.payload_bytes = payload_bytes_;
  Frame(FrameKind::kPassEnd, EncodeSection(end));
  FileFooter footer;
  footer.index_offset = Frame(FrameKind::kIndex, EncodeSection(index_));
  footer.index_bytes = bytes_.size() - footer.index_offset;
  footer.records = end.records;
  footer.calls = end.calls;
  footer.payload_bytes = payload_bytes_;
  AppendStruct(Sealed(footer), &bytes_);
}

RecordSection FloatRecord(uint64_t id, std::vector<int64_t> sizes) {
  RecordSection record;
  record.record = id;
  record.role = static_cast<uint8_t>(Role::kOutput);
  record.dtype_name = 1;
  record.bits_per_element = 32;
  record.device_name = 2;
  record.sizes = std::move(sizes);
  int64_t stride = 1;
  record.strides.resize(record.sizes.size());
  for (size_t dim = record.sizes.size(); dim-- > 0; stride *= record.sizes[dim])
    record.strides[dim] = stride;
  record.call_begin = 1;
  record.parts_asked = record.parts_kept = kLevelFull;
  return record;
}

std::vector<std::byte> FloatBytes(const std::vector<float>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(float));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

Image SmallPass(uint64_t ordinal) {
  FileHeader header;
  header.ordinal = ordinal;
  header.rank = 3;
  header.pid = 4242;
  Image image(kPassMagic, header);
  PassSection pass;
  pass.ordinal = ordinal;
  pass.local_step = 5;
  pass.rank = 3;
  pass.world = 4;
  pass.pid = 4242;
  pass.host = "node1";
  image.Frame(FrameKind::kPass, EncodeSection(pass));
  image.Name(1, "float32");
  image.Name(2, "cpu");
  image.Name(3, "encoder.layer.0");
  image.Name(4, "Linear");
  image.Operator(0, 3, 4);
  const std::string parts = image.Payload(FloatBytes({1, 2, 3, 4, 5, 6}));
  image.Record(1, EncodeSection(FloatRecord(1, {2, 3})) + parts);
  RecordSection input = FloatRecord(2, {6});
  input.role = static_cast<uint8_t>(Role::kInput);
  PayloadSection shared;
  shared.logical_bytes = 24;
  shared.same_as = 1;
  image.Record(2, EncodeSection(input) + EncodeSection(shared) +
                      EncodeSection(HashSection{HashPayload(FloatBytes({1, 2, 3, 4, 5, 6}))}));
  CallSection call;
  call.begin = 1;
  call.end = 2;
  call.text = "alpha=1";
  call.arguments.push_back({static_cast<uint8_t>(Role::kOutput), 0, 1, {2, 3}});
  image.Call(call);
  return image;
}

void Store(Env* env, const std::string& path, std::string_view bytes) {
  ASSERT_TRUE(WriteFileAtomically(env, path, bytes, 0600).ok()) << path;
}

}  // namespace tdump::io::test
