// A sink over some Env, and the run read back through PassReader and the manifest reader.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/env.h"
#include "core/operator_table.h"
#include "io/capture_sink.h"
#include "io/manifest_reader.h"
#include "io/manifest_writer.h"
#include "io/pass_reader.h"

namespace tdump::io {

inline std::vector<std::byte> Bytes(size_t count, uint8_t first, uint8_t step = 1) {
  std::vector<std::byte> bytes(count);
  for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(first + step * i);
  return bytes;
}

// A payload in memory, a piece at a time.
class MemoryPieces final : public PieceSource {
 public:
  explicit MemoryPieces(std::span<const std::byte> bytes) : bytes_(bytes) {}
  bool CopyTo(uint64_t offset, std::span<std::byte> out) noexcept override {
    std::memcpy(out.data(), bytes_.data() + offset, out.size());
    return true;
  }

 private:
  std::span<const std::byte> bytes_;
};

struct SinkRig {
  explicit SinkRig(CaptureSinkOptions sink_options = {}, Env* use_env = nullptr,
                   std::string where = "run/rank0")
      : memory(NewMemoryEnv()),
        env(use_env != nullptr ? use_env : memory.get()),
        directory(std::move(where)) {
    EXPECT_TRUE(env->MakeDirs(directory, 0700).ok());
    FileHeader header;
    header.job_hash = 77;
    auto created = ManifestWriter::Create(env, JoinPath(directory, "manifest.tdm"), header);
    EXPECT_TRUE(created.ok()) << created.status().message();
    manifest = std::move(*created);
    if (!sink_options.report)
      sink_options.report = [this](const std::string& line) { told.push_back(line); };
    sink = CaptureSink::Create(env, &operators, manifest.get(), directory, std::move(sink_options));
  }

  OperatorId Op(const std::string& path, const std::string& op = "") {
    OperatorInfo info;
    info.path = path;
    info.op = op;
    info.kind = op.empty() ? OperatorKind::kModule : OperatorKind::kAten;
    info.cls = "torch.nn.modules.linear.Linear";
    info.leaf = true;
    return operators.Intern(info);
  }

  void Open(uint64_t ordinal) {
    PassInfo info;
    info.ordinal = info.local_step = info.mode_step = pass = ordinal;
    info.rank = 0;
    info.pid = 1;
    info.host = "node";
    sink->open_pass(info);
  }

  Call NewCall(OperatorId op) {
    Call call;
    call.op = op;
    call.pass = pass;
    call.begin = ++sequence;
    return call;
  }

  // A uint8 tensor of one dimension, in pieces where the sink wants that; commits unless told not
  // to.
  Slot Keep(const Call& call, std::string_view arg, const std::vector<std::byte>& bytes,
            Parts parts = kLevelFull, bool commit = true, std::string_view dtype = "uint8") {
    const int64_t sizes[] = {static_cast<int64_t>(bytes.size())}, strides[] = {1};
    Slot slot = sink->reserve(call, Seen(arg, dtype, sizes, strides), parts, bytes.size());
    if (slot.in_pieces && commit) {
      MemoryPieces pieces(bytes);
      sink->stream(call, Seen(arg, dtype, sizes, strides), parts, bytes.size(), &pieces);
    }
    if (slot.data != nullptr) {
      if (!bytes.empty()) std::memcpy(slot.data, bytes.data(), bytes.size());
      if (commit) sink->commit(slot);
    }
    return slot;
  }

  static Observation Seen(std::string_view arg, std::string_view dtype,
                          std::span<const int64_t> sizes, std::span<const int64_t> strides) {
    Observation observation;
    observation.role = Role::kOutput;
    observation.arg = arg;
    observation.meta.dtype = MakeDType(dtype, 8);
    observation.meta.sizes = sizes;
    observation.meta.strides = strides;
    return observation;
  }

  ProcessEntry Manifest() {
    ProcessEntry process;
    ReadManifest(env, JoinPath(directory, "manifest.tdm"), &process);
    EXPECT_TRUE(process.damage.empty()) << process.damage.front().what;
    return process;
  }

  std::unique_ptr<PassReader> Read(const std::string& file) {
    auto reader = PassReader::Open(env, JoinPath(directory, file));
    EXPECT_TRUE(reader.ok()) << reader.status().message();
    return reader.ok() ? std::move(*reader) : nullptr;
  }

  std::vector<Record> Records(const std::string& file) {
    std::vector<Record> records;
    auto reader = Read(file);
    if (reader == nullptr) return records;
    EXPECT_TRUE(reader
                    ->ForEachRecord([&](const Record& record) {
                      records.push_back(record);
                      return true;
                    })
                    .ok());
    return records;
  }

  std::vector<std::byte> Payload(const PassReader& reader, const Record& record) {
    std::vector<std::byte> bytes(record.payload->logical_bytes);
    const Status status = reader.ReadPayload(record, 0, bytes);
    EXPECT_TRUE(status.ok()) << status.message();
    return bytes;
  }

  std::unique_ptr<Env> memory;
  Env* env;
  std::string directory;
  OperatorTable operators;
  std::vector<std::string> told;
  std::unique_ptr<ManifestWriter> manifest;
  std::unique_ptr<CaptureSink> sink;
  uint64_t pass = 0;
  uint64_t sequence = 0;
};

}  // namespace tdump::io
