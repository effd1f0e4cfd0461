// Runs on disk (in memory) as processes would have left them, told in a few words.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/env.h"
#include "io/archive.h"
#include "io/capture_sink.h"
#include "io/manifest_writer.h"
#include "io/pass_store.h"

namespace tdump::coordinator::test {

// One tensor of a pass: the output of a call of its own unless told otherwise.
struct TensorImage {
  std::string path = "a";
  std::string bytes = "\1\2\3\4";
  std::string dtype = "uint8";
  int bits = 8;
  std::vector<int64_t> sizes = {4};
  std::vector<int64_t> strides = {};  // empty: contiguous
  Role role = Role::kOutput;
  std::string arg = "";
  std::string op = "";
  bool late = false;
  Parts level = kLevelFull;
  Phase phase = Phase::kForward;
  std::string root = "";
  std::string cls = "Linear";
  bool compiled = false;  // handed over by compiled code
  bool graphed = false;   // seen while a CUDA graph was captured: no value
};

inline std::vector<TensorImage> OneOfEach(const std::vector<std::string>& paths) {
  std::vector<TensorImage> tensors;
  for (const std::string& path : paths) {
    TensorImage tensor;
    tensor.path = path;
    tensor.bytes[0] = static_cast<char>(path.size());
    tensors.push_back(tensor);
  }
  return tensors;
}

template <class T>
std::string BytesOf(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

// One process: writes its identity when made, then whatever it is
// told. Without Exit() it was killed.
class ProcessImage {
 public:
  struct Options {
    int32_t rank = 0;
    int32_t world = 1;
    uint32_t generation = 0;
    int64_t pid = 0;  // 0: 100 + rank
    std::string job_key = "job";
    std::string host = "node0";
    bool selected = true;
    uint64_t started_ns = 1;
    std::string coordinates = "";  // "dp=0 tp=1"
    int64_t first_job_step = -1;   // the job's own number of step 0; -1: it does not tell
  };

  ProcessImage(Env* env, const std::string& run, Options options)
      : env_(env), options_(std::move(options)) {
    if (options_.pid == 0) options_.pid = 100 + options_.rank;
    name_ = "rank" + std::to_string(options_.rank) + "_pid" + std::to_string(options_.pid);
    directory_ = JoinPath(run, name_);
    EXPECT_TRUE(env->MakeDirs(directory_, 0700).ok());
    io::FileHeader header;
    header.magic = io::kManifestMagic;
    header.rank = options_.rank;
    header.generation = options_.generation;
    header.pid = options_.pid;
    auto manifest = io::ManifestWriter::Create(env, JoinPath(directory_, "manifest.tdm"), header);
    EXPECT_TRUE(manifest.ok()) << manifest.status().message();
    manifest_ = std::move(*manifest);
    io::IdentitySection identity;
    identity.rank = options_.rank;
    identity.world = options_.world;
    identity.source = "PMIx";
    identity.host = options_.host;
    identity.pid = options_.pid;
    identity.start_time = 7;
    identity.job_key = options_.job_key;
    identity.generation = options_.generation;
    identity.selected = options_.selected ? 1 : 0;
    identity.started_ns = options_.started_ns;
    identity.boundary = "forward";
    identity.coordinates = options_.coordinates;
    Add(identity);
    sink_ = io::CaptureSink::Create(env, &operators_, manifest_.get(), directory_,
                                    {.arena_bytes = 64 << 20, .thread = false});
  }

  template <class Section>
  ProcessImage& Add(const Section& section) {
    EXPECT_TRUE(manifest_->Append(section).ok());
    return *this;
  }
  ProcessImage& Raw(io::FrameKind kind, const std::string& body) {
    EXPECT_TRUE(manifest_->Append(kind, body).ok());
    return *this;
  }
  ProcessImage& Expect(const std::string& path, const std::string& cls = "Linear") {
    io::ExpectSection expect;
    expect.path = path;
    expect.cls = cls;
    return Add(expect);
  }

  // A pass of `local` with one call and one record of each of `paths`, four bytes each.
  ProcessImage& Pass(uint64_t local, const std::vector<std::string>& paths = {"a"}) {
    return Tensors(local, OneOfEach(paths));
  }
  ProcessImage& Tensors(uint64_t local, const std::vector<TensorImage>& tensors) {
    WritePass(sink_.get(), local, tensors);
    return *this;
  }
  // The same, killed within it: the file ends `cut` bytes before the pass would have.
  ProcessImage& TornPass(uint64_t local, const std::vector<std::string>& paths, uint64_t cut) {
    const std::string scratch = directory_ + "_scratch";
    EXPECT_TRUE(env_->MakeDirs(scratch, 0700).ok());
    io::FileHeader header;
    header.magic = io::kManifestMagic;
    auto manifest = io::ManifestWriter::Create(env_, scratch + "/manifest.tdm", header);
    auto sink = io::CaptureSink::Create(env_, &operators_, manifest->get(), scratch,
                                        {.arena_bytes = 64 << 20, .thread = false});
    const std::string file = "pass0000" + std::to_string(passes_) + ".tdp";
    WritePass(sink.get(), local, OneOfEach(paths));
    const auto bytes = ReadFile(env_, scratch + "/" + file, 1 << 20);
    EXPECT_TRUE(bytes.ok()) << bytes.status().message();
    EXPECT_TRUE(WriteFileAtomically(env_, directory_ + "/" + file + ".part",
                                    std::string_view(*bytes).substr(0, bytes->size() - cut), 0600)
                    .ok());
    EXPECT_TRUE(env_->Remove(scratch + "/" + file).ok());
    EXPECT_TRUE(env_->Remove(scratch + "/manifest.tdm").ok());
    return *this;
  }
  ProcessImage& Map(uint64_t local, uint64_t global, uint8_t flags, uint32_t lag = 1) {
    return Add(io::StepMapSection{local, global, flags, lag});
  }
  ProcessImage& Exit(uint64_t steps_seen, const std::string& how = "exit") {
    return Add(io::CloseSection{9, steps_seen, passes_, how});
  }

  const std::string& directory() const { return directory_; }
  const std::string& name() const { return name_; }

 private:
  void WritePass(io::CaptureSink* sink, uint64_t local, const std::vector<TensorImage>& tensors) {
    io::PassInfo info;
    info.ordinal = passes_++;
    info.local_step = info.mode_step = local;
    if (options_.first_job_step >= 0)
      info.job_step = options_.first_job_step + static_cast<int64_t>(local);
    info.rank = options_.rank;
    info.world = options_.world;
    info.generation = options_.generation;
    info.pid = options_.pid;
    info.host = options_.host;
    sink->open_pass(info);
    for (const TensorImage& tensor : tensors) Record(sink, info.ordinal, tensor);
    sink->close_pass();
    EXPECT_TRUE(sink->Drain(10000));
  }

  void Record(io::CaptureSink* sink, uint64_t pass, const TensorImage& tensor) {
    OperatorInfo info;
    info.root = tensor.root;
    info.path = tensor.path;
    info.op = tensor.op;
    info.kind = tensor.op.empty() ? OperatorKind::kModule : OperatorKind::kAten;
    info.cls = tensor.cls;
    info.leaf = true;
    Call call;
    call.op = operators_.Intern(info);
    call.pass = pass;
    call.phase = tensor.phase;
    call.compiled = tensor.compiled;
    call.begin = ++sequence_;
    std::vector<int64_t> strides = tensor.strides;
    if (strides.empty()) {
      strides.assign(tensor.sizes.size(), 1);
      for (size_t dim = tensor.sizes.size(); dim-- > 1;)
        strides[dim - 1] = strides[dim] * tensor.sizes[dim];
    }
    Observation seen;
    seen.role = tensor.role;
    seen.arg = tensor.arg;
    seen.late = tensor.late;
    seen.meta.dtype = MakeDType(tensor.dtype, tensor.bits);
    seen.meta.sizes = tensor.sizes;
    seen.meta.strides = strides;
    if (tensor.graphed)
      sink->skip(call, seen, tensor.level, SkipReason::kCompiled, "CUDA graph capture");
    const Slot slot =
        tensor.graphed ? Slot{} : sink->reserve(call, seen, tensor.level, tensor.bytes.size());
    if (slot.data != nullptr) {
      std::memcpy(slot.data, tensor.bytes.data(), tensor.bytes.size());
      sink->commit(slot);
    }
    call.end = ++sequence_;
    call.was_kept = true;
    sink->end_call(call, {}, {});
  }

  Env* env_;
  Options options_;
  std::string name_, directory_;
  OperatorTable operators_;
  std::unique_ptr<io::ManifestWriter> manifest_;
  std::unique_ptr<io::CaptureSink> sink_;
  uint64_t passes_ = 0, sequence_ = 0;
};

}  // namespace tdump::coordinator::test
