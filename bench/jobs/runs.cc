// Writes runs that no job made, for bench/compare.
//   runs values DIR MIB a|b            one rank, one step: MIB MiB of bfloat16 in tensors of 64
//   MiB; b
//                                      is a with noise of 2^-8 of its rms. Says where each tensor
//                                      lies: "FILE OFFSET BYTES"
//   runs shards DIR RANKS MIB a|b      one step: MIB MiB of bfloat16 in tensors of 16 MiB, whose
//                                      columns the ranks share; b as above
//   runs copies DIR RANKS RECORDS      one step of small tensors and their values, as of a
//                                      transformer of which no two ranks hold the same
//   runs ranks DIR RANKS STEPS RECORDS [OTHER]
//                                      shapes and hashes only, as of a sharded transformer. With
//                                      OTHER, a run made before: the same but for one rank in 64,
//                                      of which from the middle of the middle step on everything
//                                      differs; the files of the other ranks are OTHER's (hard
//                                      links)
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "core/operator_table.h"
#include "io/hash.h"
#include "io/manifest_writer.h"
#include "io/pass_writer.h"

namespace {

using namespace tdump;  // NOLINT: a program
namespace fs = std::filesystem;

constexpr uint64_t kStarted = 1'750'000'000'000'000'000;  // ns since the epoch

void Must(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "runs: %s\n", status.message().c_str());
  std::exit(1);
}
template <class T>
T Must(Result<T>&& result) {
  Must(result.status());
  return std::move(*result);
}

struct Run {
  std::string directory;
  int32_t world = 1;
  uint64_t job_hash = 0x5EED;

  std::string RankDirectory(int32_t rank) const {
    return fmt::format("{}/rank{}_pid{}", directory, rank, 1000 + rank);
  }
};

// One rank's directory and its manifest.
class RankWriter {
 public:
  RankWriter(const Run& run, int32_t rank, const std::vector<OperatorInfo>& operators)
      : run_(run), rank_(rank), directory_(run.RankDirectory(rank)) {
    Must(Env::Posix()->MakeDirs(directory_, 0700));
    io::FileHeader header;
    header.rank = rank;
    header.pid = 1000 + rank;
    header.job_hash = run.job_hash;
    manifest_ =
        Must(io::ManifestWriter::Create(Env::Posix(), directory_ + "/manifest.tdm", header));
    io::IdentitySection identity;
    identity.rank = rank;
    identity.world = run.world;
    identity.source = "process group";
    identity.host = fmt::format("node{:03}", rank / 8);
    identity.local_rank = rank % 8;
    identity.pid = 1000 + rank;
    identity.job_key = "bench:" + run.directory;
    identity.job_label = "bench";
    identity.program = "python train.py";
    identity.selected = 1;
    identity.started_ns = kStarted;
    identity.boundary = "optimizer (AdamW)";
    identity.versions = "tdump 0.1.0, torch 2.15.0";
    Must(manifest_->Append(identity));
    for (const OperatorInfo& op : operators) operators_.Intern(op);
  }

  std::unique_ptr<io::PassWriter> Begin(uint64_t step) {
    PassInfo info;
    info.ordinal = info.local_step = info.mode_step = step;
    info.mode = StepMode::kTrain;
    info.rank = rank_;
    info.world = run_.world;
    info.pid = 1000 + rank_;
    info.started_ns = kStarted + step;
    info.host = "bench";
    return Must(io::PassWriter::Create(Env::Posix(), &operators_, directory_, info, run_.job_hash));
  }

  void End(uint64_t step, io::PassWriter* pass) {
    Must(pass->Finish({}));
    Done(step, pass->file_name(), pass->bytes(), pass->records(), pass->calls(),
         pass->payload_bytes());
  }

  void Done(uint64_t step, const std::string& file, uint64_t bytes, uint64_t records,
            uint64_t calls, uint64_t payload_bytes) {
    io::PassDoneSection done;
    done.ordinal = done.local_step = done.mode_step = step;
    done.mode = static_cast<uint8_t>(StepMode::kTrain);
    done.file = file;
    done.file_bytes = bytes;
    done.records = records;
    done.calls = calls;
    done.payload_bytes = payload_bytes;
    Must(manifest_->Append(io::StepMapSection{step, step, 1 | 4, 1}));
    Must(manifest_->Append(done));
  }

  void Close(uint64_t steps) {
    for (uint32_t op = 0; op < operators_.size(); ++op) {
      const OperatorInfo& info = operators_.Get(op);
      Must(manifest_->Append(
          io::OperatorCountSection{info.root, info.path, info.op, steps, 2 * steps, 0}));
    }
    Must(manifest_->Append(io::CloseSection{kStarted + steps, steps, steps, "exit"}));
  }

 private:
  using PassInfo = io::PassInfo;
  const Run& run_;
  int32_t rank_;
  std::string directory_;
  OperatorTable operators_;
  std::unique_ptr<io::ManifestWriter> manifest_;
};

OperatorInfo Module(const std::string& path, const std::string& cls) {
  return {OperatorKind::kModule, "", path, "", cls, {}, true};
}

Call CallOf(OperatorId op, uint64_t sequence) {
  Call call;
  call.op = op;
  call.begin = 2 * sequence + 1;
  call.end = 2 * sequence + 2;
  call.thread = 1000;
  return call;
}

struct Tensor {
  Role role = Role::kOutput;
  std::string_view arg = "", dtype = "bfloat16", device = "cpu";
  int bits = 16;
  std::vector<int64_t> sizes;
};

io::RecordSection RecordOf(const Tensor& tensor, const Call& call, uint64_t id) {
  io::RecordSection record;
  record.record = id;
  record.op_id = call.op;
  record.call_begin = call.begin;
  record.call_index = call.index;
  record.role = static_cast<uint8_t>(tensor.role);
  record.bits_per_element = static_cast<uint16_t>(tensor.bits);
  record.sizes = tensor.sizes;
  record.strides.assign(tensor.sizes.size(), 1);
  for (size_t i = tensor.sizes.size(); i-- > 1;)
    record.strides[i - 1] = record.strides[i] * tensor.sizes[i];
  record.storage_id = 0x7f0000000000 + 4096 * id;
  record.storage_bytes =
      static_cast<uint64_t>(record.strides[0] * tensor.sizes[0] * tensor.bits / 8);
  record.seen = call.end;
  record.filter_sets = 1;
  return record;
}

// With its values, `bytes`. Returns where they lie.
io::PayloadSection AddFull(const Tensor& tensor, const Call& call, uint64_t id,
                           std::span<const std::byte> bytes, io::PassWriter* pass) {
  std::vector<uint8_t> digests;
  io::AppendTileDigests(bytes, &digests);
  const io::Hash128 hash = io::HashOfDigests(digests);
  const io::PayloadSection payload =
      Must(pass->AddPayload(bytes, hash, io::Codec::kNone, static_cast<uint32_t>(tensor.bits / 8)));
  io::RecordSection record = RecordOf(tensor, call, id);
  record.parts_asked = record.parts_kept = kLevelFull;
  Must(pass->AddRecord(&record, {.arg = tensor.arg,
                                 .dtype = tensor.dtype,
                                 .device = tensor.device,
                                 .payload = &payload,
                                 .hash = &hash,
                                 .tile_digests = &digests}));
  return payload;
}

// ---- values ----

class Values {
 public:
  explicit Values(bool noisy) : noisy_(noisy) {
    std::mt19937_64 random(7);
    std::normal_distribution<float> normal;
    for (float& number : normal_) number = normal(random);
  }

  void Fill(std::vector<uint16_t>* numbers) {
    for (uint16_t& number : *numbers) {
      const uint64_t random = Next();
      float value = ToFloat(ToBFloat16(normal_[random & kMask]));
      if (noisy_) value += normal_[(random >> 20) & kMask] * 0x1p-8f;
      number = ToBFloat16(value);
    }
  }

 private:
  static constexpr size_t kMask = (1 << 16) - 1;
  static float ToFloat(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }
  static uint16_t ToBFloat16(float value) {  // to nearest, ties to even
    const auto bits = std::bit_cast<uint32_t>(value);
    return static_cast<uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
  }
  uint64_t Next() {  // xorshift64* (Vigna 2016)
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    return (state_ * 0x2545F4914F6CDD1D) >> 16;
  }

  bool noisy_;
  uint64_t state_ = 88172645463325252;
  std::vector<float> normal_ = std::vector<float>(kMask + 1);
};

int WriteValues(const std::string& directory, int64_t mib, bool noisy) {
  constexpr int64_t kTensorMib = 64, kColumns = 4096;
  const Run run{directory};
  std::vector<OperatorInfo> operators;
  const int64_t tensors = (mib + kTensorMib - 1) / kTensorMib;
  for (int64_t i = 0; i < tensors; ++i)
    operators.push_back(
        Module(fmt::format("decoder.layers.{}.mlp", i), "torch.nn.modules.linear.Linear"));
  RankWriter rank(run, 0, operators);
  const auto pass = rank.Begin(0);
  Values values(noisy);
  for (int64_t i = 0; i < tensors; ++i) {
    const int64_t rows = (std::min(kTensorMib, mib - i * kTensorMib) << 20) / 2 / kColumns;
    const Tensor tensor{.sizes = {rows, kColumns}};
    std::vector<uint16_t> numbers(static_cast<size_t>(rows * kColumns));
    values.Fill(&numbers);
    const Call call = CallOf(static_cast<OperatorId>(i), static_cast<uint64_t>(i));
    const io::PayloadSection payload = AddFull(tensor, call, static_cast<uint64_t>(i) + 1,
                                               std::as_bytes(std::span(numbers)), pass.get());
    const std::vector<ArgumentMeta> arguments = {
        {tensor.role, std::string(tensor.arg), std::string(tensor.dtype), tensor.sizes}};
    Must(pass->AddCall(call, arguments, ""));
    std::printf("%s/pass00000.tdp %llu %llu\n", run.RankDirectory(0).c_str(),
                static_cast<unsigned long long>(payload.offset),
                static_cast<unsigned long long>(payload.logical_bytes));
  }
  rank.End(0, pass.get());
  rank.Close(1);
  return 0;
}

// ---- shards ----

// The columns of a rank, of a matrix of `columns`.
std::vector<uint16_t> ColumnsOf(const std::vector<uint16_t>& numbers, int64_t columns, int32_t rank,
                                int32_t world) {
  const int64_t own = columns / world;
  std::vector<uint16_t> shard;
  shard.reserve(numbers.size() / static_cast<size_t>(world));
  for (size_t row = 0; row < numbers.size(); row += static_cast<size_t>(columns)) {
    const auto first = numbers.begin() + static_cast<ptrdiff_t>(row) + rank * own;
    shard.insert(shard.end(), first, first + own);
  }
  return shard;
}

void WriteShard(const std::vector<uint16_t>& numbers, int64_t columns, OperatorId op,
                io::PassWriter* pass) {
  const Call call = CallOf(op, op);
  const Tensor tensor{.sizes = {static_cast<int64_t>(numbers.size()) / columns, columns}};
  AddFull(tensor, call, op + 1, std::as_bytes(std::span(numbers)), pass);
  const std::vector<ArgumentMeta> arguments = {
      {tensor.role, std::string(tensor.arg), std::string(tensor.dtype), tensor.sizes}};
  Must(pass->AddCall(call, arguments, ""));
}

int WriteShards(const std::string& directory, int32_t world, int64_t mib, bool noisy) {
  constexpr int64_t kTensorMib = 16, kColumns = 4096;
  const Run run{directory, world};
  std::vector<OperatorInfo> operators;
  for (int64_t i = 0; i < mib / kTensorMib; ++i)
    operators.push_back(
        Module(fmt::format("decoder.layers.{}.mlp", i), "torch.nn.modules.linear.Linear"));
  std::vector<std::unique_ptr<RankWriter>> ranks;
  std::vector<std::unique_ptr<io::PassWriter>> passes;
  for (int32_t rank = 0; rank < world; ++rank) {
    ranks.push_back(std::make_unique<RankWriter>(run, rank, operators));
    passes.push_back(ranks.back()->Begin(0));
  }
  Values values(noisy);
  std::vector<uint16_t> numbers((kTensorMib << 20) / 2);
  for (size_t op = 0; op < operators.size(); ++op) {
    values.Fill(&numbers);
    for (int32_t rank = 0; rank < world; ++rank)
      WriteShard(ColumnsOf(numbers, kColumns, rank, world), kColumns / world,
                 static_cast<OperatorId>(op), passes[static_cast<size_t>(rank)].get());
  }
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    ranks[rank]->End(0, passes[rank].get());
    ranks[rank]->Close(1);
  }
  return 0;
}

// ---- ranks ----

constexpr const char* kModules[][2] = {
    {"input_layernorm", "transformer_engine.pytorch.RMSNorm"},
    {"self_attention.linear_qkv", "megatron.core.tensor_parallel.layers.ColumnParallelLinear"},
    {"self_attention.core_attention", "megatron.core.transformer.DotProductAttention"},
    {"self_attention.linear_proj", "megatron.core.tensor_parallel.layers.RowParallelLinear"},
    {"pre_mlp_layernorm", "transformer_engine.pytorch.RMSNorm"},
    {"mlp.linear_fc1", "megatron.core.tensor_parallel.layers.ColumnParallelLinear"},
    {"mlp.activation", "torch.nn.modules.activation.SiLU"},
    {"mlp.linear_fc2", "megatron.core.tensor_parallel.layers.RowParallelLinear"},
};
constexpr uint64_t kModulesOfLayer = std::size(kModules);

// Every 64th rank's steps differ from the middle one on.
constexpr int32_t kOtherRank = 64, kFirstOther = 37;

struct RanksPlan {
  Run run;
  uint64_t steps = 1, records = 1;  // records of a step: the root's input, then two a call
  std::string other;                // the run made before; empty: this is the first
  bool values = false;              // small tensors, of which the ranks' differ

  bool Differs(int32_t rank) const { return !other.empty() && rank % kOtherRank == kFirstOther; }
  bool Differs(int32_t rank, uint64_t step, uint64_t call) const {
    if (!Differs(rank) || step < steps / 2) return false;
    return step > steps / 2 || call >= records / 4;
  }
};

io::Hash128 HashOf(int32_t rank, uint64_t step, uint64_t record, bool other) {
  const uint64_t words[] = {static_cast<uint64_t>(rank), step, record, other};
  return io::TileDigest(std::as_bytes(std::span(words)));
}

std::vector<OperatorInfo> Transformer(uint64_t calls) {
  std::vector<OperatorInfo> operators = {
      {OperatorKind::kModule, "", ".", "", "megatron.core.models.gpt.GPTModel", {}, false}};
  for (uint64_t i = 0; i < calls; ++i) {
    const auto& [path, cls] = kModules[i % kModulesOfLayer];
    operators.push_back(
        Module(fmt::format("decoder.layers.{}.{}", i / kModulesOfLayer, path), cls));
  }
  return operators;
}

void AddTensor(const RanksPlan& plan, int32_t rank, uint64_t step, const Call& call,
               const Tensor& tensor, uint64_t id, bool other, io::PassWriter* pass) {
  io::RecordSection record = RecordOf(tensor, call, id);
  record.parts_asked = record.parts_kept = kPartMeta | kPartHash;
  const io::Hash128 hash = HashOf(rank, step, id, other && plan.Differs(rank));
  Must(pass->AddRecord(
      &record, {.arg = tensor.arg, .dtype = tensor.dtype, .device = tensor.device, .hash = &hash}));
}

void WriteStep(const RanksPlan& plan, int32_t rank, uint64_t step, io::PassWriter* pass) {
  const Tensor ids{Role::kInput, "0", "int64", "cuda:0", 64, {1, 4096}};
  const Tensor input{Role::kInput, "0", "bfloat16", "cuda:0", 16, {4096, 1, 1024}};
  const Tensor output{Role::kOutput, "", "bfloat16", "cuda:0", 16, {4096, 1, 1024}};
  uint64_t id = 1;
  const Call root = CallOf(0, 0);
  AddTensor(plan, rank, step, root, ids, id++, false, pass);
  const std::vector<ArgumentMeta> arguments = {{Role::kInput, "0", "bfloat16", input.sizes},
                                               {Role::kOutput, "", "bfloat16", output.sizes}};
  for (uint64_t i = 1; id + 1 <= plan.records; ++i) {
    const Call call = CallOf(static_cast<OperatorId>(i), i);
    AddTensor(plan, rank, step, call, input, id++, plan.Differs(rank, step, i - 1), pass);
    AddTensor(plan, rank, step, call, output, id++, plan.Differs(rank, step, i), pass);
    Must(pass->AddCall(call, arguments, ""));
  }
  Must(pass->AddCall(root, std::vector<ArgumentMeta>{{Role::kInput, "0", "int64", ids.sizes}}, ""));
}

// ---- copies ----

uint64_t Random(uint64_t seed) {  // splitmix64 (Steele 2014)
  seed += 0x9E3779B97F4A7C15;
  seed = (seed ^ (seed >> 30)) * 0xBF58476D1CE4E5B9;
  seed = (seed ^ (seed >> 27)) * 0x94D049BB133111EB;
  return seed ^ (seed >> 31);
}
float Fraction(uint64_t random) { return static_cast<float>(random >> 40) * 0x1p-24f; }

// What a call returns and the next one is given: numbers between 1 and 2, with an error of up to
// 2^-17 for each rank before this one.
std::vector<float> CopyOf(int32_t rank, uint64_t call) {
  std::vector<float> numbers(8);
  for (uint64_t i = 0; i < numbers.size(); ++i) {
    const uint64_t random = Random(call * numbers.size() + i);
    const float error = Fraction(Random(random + static_cast<uint64_t>(rank))) - 0.5f;
    numbers[i] = (1 + Fraction(random)) * (1 + error * static_cast<float>(rank) * 0x1p-16f);
  }
  return numbers;
}

void WriteCopies(const RanksPlan& plan, int32_t rank, io::PassWriter* pass) {
  const Tensor ids{Role::kInput, "0", "int64", "cpu", 64, {1, 2}};
  const Tensor input{Role::kInput, "0", "float32", "cpu", 32, {4, 1, 2}};
  const Tensor output{Role::kOutput, "", "float32", "cpu", 32, {4, 1, 2}};
  const int64_t tokens[] = {1, 2};
  uint64_t id = 1;
  const Call root = CallOf(0, 0);
  AddFull(ids, root, id++, std::as_bytes(std::span(tokens)), pass);
  const std::vector<ArgumentMeta> arguments = {{Role::kInput, "0", "float32", input.sizes},
                                               {Role::kOutput, "", "float32", output.sizes}};
  for (uint64_t i = 1; id + 1 <= plan.records; ++i) {
    const Call call = CallOf(static_cast<OperatorId>(i), i);
    const std::vector<float> in = CopyOf(rank, i - 1), out = CopyOf(rank, i);
    AddFull(input, call, id++, std::as_bytes(std::span(in)), pass);
    AddFull(output, call, id++, std::as_bytes(std::span(out)), pass);
    Must(pass->AddCall(call, arguments, ""));
  }
  Must(pass->AddCall(root, std::vector<ArgumentMeta>{{Role::kInput, "0", "int64", ids.sizes}}, ""));
}

void WriteRank(const RanksPlan& plan, const std::vector<OperatorInfo>& operators, int32_t rank) {
  RankWriter writer(plan.run, rank, operators);
  const std::string directory = plan.run.RankDirectory(rank);
  for (uint64_t step = 0; step < plan.steps; ++step) {
    if (plan.other.empty() || (plan.Differs(rank) && step >= plan.steps / 2)) {
      const auto pass = writer.Begin(step);
      plan.values ? WriteCopies(plan, rank, pass.get()) : WriteStep(plan, rank, step, pass.get());
      writer.End(step, pass.get());
    } else {
      const std::string file = io::PassFileName(step);
      const fs::path from = Run{plan.other}.RankDirectory(rank) + "/" + file;
      fs::create_hard_link(from, fs::path(directory) / file);
      writer.Done(step, file, fs::file_size(from), plan.records, plan.records / 2 + 1, 0);
    }
  }
  writer.Close(plan.steps);
}

int WriteRanks(const RanksPlan& plan) {
  const std::vector<OperatorInfo> operators = Transformer(plan.records / 2);
  std::atomic<int32_t> next{0};
  const auto work = [&] {
    for (int32_t rank = next++; rank < plan.run.world; rank = next++)
      WriteRank(plan, operators, rank);
  };
  std::vector<std::thread> threads;
  for (unsigned i = 1; i < std::max(1u, std::thread::hardware_concurrency()); ++i)
    threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
  return 0;
}

int Usage() {
  std::fputs(
      "usage: runs values DIR MIB a|b\n"
      "       runs shards DIR RANKS MIB a|b\n"
      "       runs copies DIR RANKS RECORDS\n"
      "       runs ranks DIR RANKS STEPS RECORDS [OTHER]\n",
      stderr);
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view what = argc > 1 ? argv[1] : "";
  if (what == "values" && argc == 5)
    return WriteValues(argv[2], std::atoll(argv[3]), std::string_view(argv[4]) == "b");
  if (what == "shards" && argc == 6)
    return WriteShards(argv[2], std::atoi(argv[3]), std::atoll(argv[4]),
                       std::string_view(argv[5]) == "b");
  if (what == "copies" && argc == 5) {
    RanksPlan plan{.run = {argv[2], std::atoi(argv[3])}};
    plan.records = std::strtoull(argv[4], nullptr, 10);
    plan.values = true;
    return WriteRanks(plan);
  }
  if (what == "ranks" && (argc == 6 || argc == 7)) {
    RanksPlan plan{{argv[2], std::atoi(argv[3])},
                   std::strtoull(argv[4], nullptr, 10),
                   std::strtoull(argv[5], nullptr, 10),
                   argc == 7 ? argv[6] : ""};
    return WriteRanks(plan);
  }
  return Usage();
}
