#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <vector>

#include "core/operator_table.h"
#include "io/archive.h"
#include "io/earlier_payloads.h"
#include "io/frame_builder.h"
#include "io/hash.h"
#include "io/node_env.h"
#include "io/pass_files.h"
#include "io/pass_writer.h"
#include "io/value_parts.h"
#include "tests/format/fixed_env.h"
#include "tests/format/golden_writers.h"

namespace tdump::io::test {
namespace {

template <class T>
std::vector<std::byte> BytesOf(std::initializer_list<T> values) {
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.begin(), bytes.size());
  return bytes;
}

PassInfo Info() {
  PassInfo info;
  info.ordinal = 3;
  info.local_step = 41;
  info.mode_step = 12;
  info.job_step = 41'241;
  info.mode = StepMode::kTrain;
  info.generation = 1;
  info.rank = 2;
  info.world = 4;
  info.pid = 3'069'569;
  info.started_ns = kFixedNs - 1'000'000;
  info.host = "node042";
  return info;
}

// One record of the pass.
struct Tensor {
  OperatorId op = 0;
  Role role = Role::kOutput;
  std::string arg;
  DType dtype;
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
  std::vector<std::byte> payload;
  Parts parts = kLevelFull;
  std::function<void(RecordSection*)> more = nullptr;
  ShardSection shard = {};
};

class GoldenPass {
 public:
  explicit GoldenPass(Env* env) : env_(env) {
    dense_ = Operator({OperatorKind::kModule,
                       "",
                       "encoder.layer.0.dense",
                       "",
                       "torch.nn.modules.linear.Linear",
                       {"tied.dense"},
                       true});
    addmm_ = Operator({OperatorKind::kAten,
                       "",
                       "encoder.layer.0.dense",
                       "aten::addmm",
                       "torch.nn.modules.linear.Linear",
                       {},
                       false});
    critic_ = Operator({OperatorKind::kModule, "Critic#1", ".", "", "app.Critic", {}, false});
    tap_ = Operator({OperatorKind::kTap, "", "a%b/c:d@e#f", "tap \"x\"\n", "", {}, false});
    writer_ = Must(PassWriter::Create(env, &operators_, "/run/rank2_pid3069569", Info(), kJobHash));
  }

  void Write() {
    AddCalls();
    AddDTypes();
    AddLayouts();
    AddParts();
    Must(writer_->AddAlias(dense_, "found.later"));
    PassEndSection end;
    end.not_kept = 2;
    end.blocked_ns = 1234;
    Must(writer_->Finish(end));
  }

 private:
  OperatorId Operator(const OperatorInfo& info) { return operators_.Intern(info); }

  void AddCalls() {
    Call call;
    call.op = dense_;
    call.begin = 10;
    call.end = 19;
    call.thread = 3'069'570;
    Must(writer_->AddCall(call,
                          std::vector<ArgumentMeta>{{Role::kInput, "0", "float32", {2, 3}},
                                                    {Role::kOutput, "", "float32", {2, 3}}},
                          ""));
    call = {};
    call.op = addmm_;
    call.begin = 11;
    call.parent = 10;
    call.index = 1;
    call.micro = 1;
    call.chunk = 2;
    call.lane = 3;
    call.thread = 3'069'571;
    call.stream = 7;
    call.phase = Phase::kBackward;
    call.recompute = call.compiled = call.threw = true;
    Must(writer_->AddCall(call, {}, "beta=1, alpha=0.5"));
  }

  // The payloads are little-endian numbers; what they mean is in tests/format/test_format.py.
  void AddDTypes() {
    Add({.arg = "f32",
         .dtype = MakeDType("float32", 32),
         .sizes = {2, 3},
         .strides = {3, 1},
         .payload = BytesOf<float>({1, 2, 3, -4, 0.5, 6})});
    Add({.arg = "f64",
         .dtype = MakeDType("float64", 64),
         .sizes = {},
         .strides = {},
         .payload = BytesOf<double>({3.141592653589793})});
    Add({.arg = "bf16",
         .dtype = MakeDType("bfloat16", 16),
         .sizes = {2},
         .strides = {1},
         .payload = BytesOf<uint16_t>({0x3F80, 0xC040})});
    Add({.arg = "f8",
         .dtype = MakeDType("float8_e4m3fn", 8),
         .sizes = {4},
         .strides = {1},
         .payload = BytesOf<uint8_t>({0x38, 0xC0, 0x7E, 0x7F})});
    Add({.arg = "f4",
         .dtype = MakeDType("float4_e2m1fn_x2", 4, 2),
         .sizes = {2},
         .strides = {1},
         .payload = BytesOf<uint8_t>({0x72, 0x9F})});
    Add({.arg = "u64",
         .dtype = MakeDType("uint64", 64),
         .sizes = {3},
         .strides = {1},
         .payload = BytesOf<uint64_t>({0, 1ull << 63, ~0ull})});
    Add({.arg = "bool",
         .dtype = MakeDType("bool", 8),
         .sizes = {2},
         .strides = {1},
         .payload = BytesOf<uint8_t>({1, 0})});
    Add({.arg = "c64",
         .dtype = MakeDType("complex64", 64),
         .sizes = {2},
         .strides = {1},
         .payload = BytesOf<float>({1, -2, 0.25, 8}),
         .more = [](RecordSection* r) { r->flags |= 8; }});
    Add({.arg = "posit24",
         .dtype = MakeDType("posit24", 24),
         .sizes = {2},
         .strides = {1},
         .payload = BytesOf<uint8_t>({1, 2, 3, 4, 5, 6})});
  }

  void AddLayouts() {
    const DType i32 = MakeDType("int32", 32);
    Add({.arg = "channels_last",
         .dtype = i32,
         .sizes = {1, 2, 2, 2},
         .strides = {8, 1, 4, 2},
         .payload = BytesOf<int32_t>({0, 1, 2, 3, 4, 5, 6, 7})});
    // Dimension 1 has stride 0 and is stored once: 2 x 3 x 2 elements, 4 in the file.
    Add({.arg = "expanded",
         .dtype = i32,
         .sizes = {2, 3, 2},
         .strides = {2, 0, 1},
         .payload = BytesOf<int32_t>({10, 11, 12, 13}),
         .more = [](RecordSection* r) {
           r->storage_offset = 5;
           r->storage_id = 0x7f0000001000;
           r->storage_bytes = 4096;
           r->flags |= 4 | 32;
         }});
    Add({.arg = "empty", .dtype = i32, .sizes = {0, 5}, .strides = {5, 1}, .payload = {}});
    std::vector<std::byte> tiles(2 * kHashTile + 5);
    for (size_t i = 0; i < tiles.size(); ++i) tiles[i] = static_cast<std::byte>(i % 251);
    Add({.op = tap_,
         .role = Role::kInput,
         .arg = "kwargs.x",
         .dtype = MakeDType("uint8", 8),
         .sizes = {int64_t(tiles.size())},
         .strides = {1},
         .payload = tiles});
  }

  void AddParts() {
    const DType f16 = MakeDType("float16", 16);
    Tensor shared{.op = critic_,
                  .arg = "1.hidden",
                  .dtype = MakeDType("float32", 32),
                  .sizes = {6},
                  .strides = {1},
                  .payload = BytesOf<float>({1, 2, 3, -4, 0.5, 6}),
                  .more = [](RecordSection* r) {
                    r->phase = static_cast<uint8_t>(Phase::kBackward);
                    r->flags |= 1 | 2;
                    r->micro = 1;
                    r->chunk = 2;
                    r->lane = 3;
                    r->call_index = (1ull << 53) + 1;
                    r->filter_sets = 0b101;
                  }};
    Add(shared, /*same_as=*/1);
    Add({.op = addmm_,
         .role = Role::kBefore,
         .arg = "0",
         .dtype = f16,
         .sizes = {2},
         .strides = {1},
         .payload = BytesOf<uint16_t>({0x3C00, 0xBC00}),
         .parts = kPartMeta | kPartHash});
    Add({.op = critic_,
         .role = Role::kParamGrad,
         .arg = "weight",
         .dtype = f16,
         .sizes = {2, 8},
         .strides = {},
         .parts = kPartMeta,
         .more =
             [](RecordSection* r) {
               r->parts_asked = kLevelFull;
               r->layout = static_cast<uint8_t>(Layout::kSubclass);
               r->reason = static_cast<uint8_t>(SkipReason::kSubclass);
               r->reason_detail = "DTensor";
             },
         .shard = {"b h[tp]", "Shard(1)", "tp=4", {2, 32}, "batch, C", "DTensor"}});
  }

  void Add(const Tensor& tensor, uint64_t same_as = 0) {
    RecordSection record;
    record.record = ++records_;
    record.op_id = tensor.op;
    record.call_begin = tensor.op == addmm_ ? 11 : 10;
    record.role = static_cast<uint8_t>(tensor.role);
    record.bits_per_element = tensor.dtype.bits_per_element;
    record.elements_per_unit = tensor.dtype.elements_per_unit;
    record.sizes = tensor.sizes;
    record.strides = tensor.strides;
    record.seen = 100 + records_;
    record.parts_asked = record.parts_kept = tensor.parts;
    record.filter_sets = 1;
    if (tensor.more) tensor.more(&record);
    std::vector<uint8_t> digests;
    AppendTileDigests(tensor.payload, &digests);
    const Hash128 hash = HashOfDigests(digests);
    RecordParts parts;
    parts.arg = tensor.arg;
    parts.dtype = tensor.dtype.view();
    parts.device = "cpu";
    if ((tensor.parts & kPartHash) != 0) parts.hash = &hash;
    PayloadSection payload;
    if (same_as != 0) {
      payload = first_;
      payload.same_as = same_as;
    } else if ((tensor.parts & kPartPayload) != 0) {
      payload = Must(writer_->AddPayload(tensor.payload, hash, Codec::kNone));
      if (record.record == 1) first_ = payload;
      parts.tile_digests = &digests;
    }
    if ((tensor.parts & kPartPayload) != 0) parts.payload = &payload;
    if (!tensor.shard.dims.empty()) parts.shard = &tensor.shard;
    Must(writer_->AddRecord(&record, parts));
  }

  Env* env_;
  OperatorTable operators_;
  OperatorId dense_, addmm_, critic_, tap_;
  std::unique_ptr<PassWriter> writer_;
  uint64_t records_ = 0;
  PayloadSection first_;
};

// Records of one small operator, each with one argument.
class PartsPass {
 public:
  PartsPass(Env* env, const std::string& directory, uint64_t ordinal) {
    op_ = operators_.Intern({OperatorKind::kModule, "", "norm", "", "LayerNorm", {}});
    PassInfo info = Info();
    info.ordinal = ordinal;
    writer_ = Must(PassWriter::Create(env, &operators_, directory, info, kJobHash));
  }
  void Add(const DType& dtype, std::vector<int64_t> sizes, const Keep& keep,
           std::span<const std::byte> payload) {
    RecordSection record;
    record.record = ++records_;
    record.op_id = op_;
    record.role = static_cast<uint8_t>(Role::kOutput);
    record.bits_per_element = dtype.bits_per_element;
    record.sizes = sizes;
    record.strides.assign(sizes.size(), 1);
    for (size_t i = sizes.size(); i-- > 1;) record.strides[i - 1] = record.strides[i] * sizes[i];
    record.parts_asked = record.parts_kept = keep.parts;
    ValueParts values =
        PartsOf(keep, Content::kWhole, dtype, record.sizes, record.strides, payload);
    if (values.slice) AddSlice(&values);
    RecordParts parts;
    parts.dtype = dtype.view();
    parts.device = "cpu";
    parts.values = &values;
    std::vector<uint8_t> digests;
    Hash128 hash;
    PayloadSection stored;
    if ((keep.parts & kPartPayload) != 0) {
      AppendTileDigests(payload, &digests);
      hash = HashOfDigests(digests);
      const Codec codec = keep.compress == Compression::kZstd ? Codec::kBlocks : Codec::kNone;
      stored = Must(writer_->AddPayload(payload, hash, codec, dtype.unit_bytes()));
      parts.payload = &stored;
      parts.hash = &hash;
      parts.tile_digests = &digests;
    }
    Must(writer_->AddRecord(&record, parts));
  }
  void Finish() { Must(writer_->Finish({})); }

 private:
  void AddSlice(ValueParts* values) {
    SliceSection& slice = *values->slice;
    AppendTileDigests(values->slice_bytes, &slice.digests);
    slice.hash = HashOfDigests(slice.digests);
    const PayloadSection place =
        Must(writer_->AddPayload(values->slice_bytes, slice.hash, Codec::kNone));
    slice.offset = place.offset;
    slice.stored_bytes = place.stored_bytes;
    slice.logical_bytes = place.logical_bytes;
  }

  OperatorTable operators_;
  OperatorId op_ = 0;
  uint64_t records_ = 0;
  std::unique_ptr<PassWriter> writer_;
};

}  // namespace

void WritePass(Env* env) { GoldenPass(env).Write(); }

void WriteNode(Env* env, const std::string& run, const std::string& packed) {
  const auto node = NewNodeEnv(env, run, "node_a_0.tdn");
  const auto create = [&](const std::string& name) {
    return Must(node->CreateExclusive(JoinPath(run, name), 0600));
  };
  const auto long_one = create("rank2_pid7/pack00000.tdp.part");
  const auto other = create("rank3_pid8/pack00000.tdp");
  (void)create("rank3_pid8/pack00001.tdp");
  Must(other->Append(std::as_bytes(std::span(packed))));
  std::vector<std::byte> bytes(70'000);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i % 251);
  Must(long_one->Append(bytes));
  Must(node->Rename(JoinPath(run, "rank2_pid7/pack00000.tdp.part"),
                    JoinPath(run, "rank2_pid7/pack00000.tdp")));
  Must(node->Remove(JoinPath(run, "rank3_pid8/pack00001.tdp")));
}

void WritePacked(Env* env, const std::string& directory) {
  OperatorTable operators;
  const OperatorId op = operators.Intern({OperatorKind::kModule, "", "embed", "", "Embedding", {}});
  PassFiles files(env, directory, {.single_files = 0});
  for (uint64_t pass = 0; pass < 2; ++pass) {
    PassInfo info = Info();
    info.ordinal = info.local_step = pass;
    const auto writer = Must(
        PassWriter::Create(env, &operators, Must(files.Place(info, kJobHash)), info, kJobHash));
    std::vector<std::byte> weight(1500);
    for (size_t i = 0; i < weight.size(); ++i) weight[i] = static_cast<std::byte>(i % 199);
    RecordSection record;
    record.record = pass + 1;
    record.op_id = op;
    record.role = static_cast<uint8_t>(Role::kParam);
    record.bits_per_element = 8;
    record.sizes = {1500};
    record.strides = {1};
    record.parts_asked = record.parts_kept = kLevelFull;
    std::vector<uint8_t> digests;
    AppendTileDigests(weight, &digests);
    const Hash128 hash = HashOfDigests(digests);
    RecordParts parts;
    parts.arg = "weight";
    parts.dtype = "uint8";
    parts.device = "cpu";
    parts.hash = &hash;
    parts.tile_digests = &digests;
    const PayloadContent content{hash, weight.size(), MakeDType("uint8", 8)};
    PayloadSection payload;
    EarlierPayloadSection earlier;
    if (const EarlierPayload* found = writer->earlier()->Find(content, pass)) {
      payload = found->payload;
      payload.offset = 0;
      earlier = found->earlier;
      parts.earlier = &earlier;
    } else {
      payload = Must(writer->AddPayload(weight, hash, Codec::kNone));
      writer->earlier()->Add(
          content, {payload, {pass, pass + 1, writer->place().offset() + payload.offset}});
    }
    parts.payload = &payload;
    Must(writer->AddRecord(&record, parts));
    Must(writer->Finish({}));
  }
  Must(files.Close());
}

void WriteParts(Env* env, const std::string& directory) {
  PartsPass pass(env, directory, 0);
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInf = std::numeric_limits<float>::infinity();
  pass.Add(MakeDType("float32", 32), {2, 4}, kPartMeta | kPartStats,
           BytesOf<float>({1, -2, 4, 0, -0.0f, kNan, kInf, 0.5f}));
  pass.Add(MakeDType("int64", 64), {3}, kPartMeta | kPartStats,
           BytesOf<int64_t>({-5, INT64_MAX, INT64_MAX}));
  pass.Add(MakeDType("float32", 32), {0}, kPartMeta | kPartStats, {});
  std::vector<std::byte> bytes(200);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i);
  Keep sample(kPartMeta | kPartSample);
  sample.sample = 5;
  pass.Add(MakeDType("uint8", 8), {200}, sample, bytes);
  const SliceRange ranges[] = {{1, 3, 1}, {0, INT64_MAX, 2}};
  Keep slice(kPartMeta | kPartSlice);
  slice.slice = ranges;
  pass.Add(MakeDType("int16", 16), {4, 6}, slice, std::span(bytes).first(48));
  pass.Finish();
}

void WriteCompressed(Env* env, const std::string& directory) {
  PartsPass pass(env, directory, 0);
  Keep keep(kLevelFull);
  keep.compress = Compression::kZstd;
  // Squares, as floats and as integers: bytes, or bits, of like place are alike.
  std::vector<float> floats(70'000);
  for (size_t i = 0; i < floats.size(); ++i) floats[i] = static_cast<float>(i * i);
  pass.Add(MakeDType("float32", 32), {70'000}, keep, std::as_bytes(std::span(floats)));
  std::vector<int32_t> integers(1000);
  for (size_t i = 0; i < integers.size(); ++i) integers[i] = static_cast<int32_t>(i % 5);
  pass.Add(MakeDType("int32", 32), {1000}, keep, std::as_bytes(std::span(integers)));
  pass.Finish();
}

std::string LaterPass() {
  FileHeader header;
  header.magic = kPassMagic;
  header.version_minor = 1;
  header.ordinal = 1;
  std::string bytes;
  IndexSection index;
  AppendStruct(Sealed(header), &bytes);
  const auto later = [](uint32_t id) {
    std::string body = std::string(sizeof(SectionHeader), '\0') + "of a later version";
    FinishSection(id, 0, &body);
    return body;
  };
  const auto add = [&](FrameKind kind, const std::string& body) {
    const uint64_t offset = bytes.size();
    FrameBuilder frame(kind, &bytes);
    bytes += body;
    frame.Finish();
    return offset;
  };
  PassSection pass;
  pass.ordinal = 1;
  add(FrameKind::kPass, later(0x01FF) + EncodeSection(pass));
  add(static_cast<FrameKind>(20), later(0x1234));
  const char* names[] = {"float32", "cpu", "a"};
  for (uint32_t i = 0; i < 3; ++i)
    index.names.push_back(add(FrameKind::kName, EncodeSection(NameSection{i + 1, names[i]})));
  OperatorSection op;
  op.path_name = 3;
  index.operators.push_back(add(FrameKind::kOperator, EncodeSection(op) + later(0x03FF)));
  RecordSection record;
  record.record = 1;
  record.role = static_cast<uint8_t>(Role::kOutput);
  record.dtype_name = 1;
  record.device_name = 2;
  record.bits_per_element = 32;
  record.sizes = record.strides = {1};
  record.parts_asked = record.parts_kept = kPartMeta;
  index.records.push_back(
      {1, add(FrameKind::kRecord, later(0x0599) + EncodeSection(record) + later(0x059A))});
  PassEndSection end;
  end.records = 1;
  add(FrameKind::kPassEnd, EncodeSection(end));
  FileFooter footer;
  footer.index_offset = add(FrameKind::kIndex, EncodeSection(index) + later(0x08FF));
  footer.index_bytes = bytes.size() - footer.index_offset;
  footer.records = 1;
  AppendStruct(Sealed(footer), &bytes);
  return bytes;
}

}  // namespace tdump::io::test
