// Runs on disk (in memory) as processes would have left them, told in a few words.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/env.h"
#include "io/capture_sink.h"
#include "io/manifest_writer.h"
#include "io/pass_store.h"

namespace tdump::coordinator::test {

// One process: writes its identity when made, then whatever it is told. Without Exit() it was
// killed.
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
    Add(identity);
    sink_ = io::CaptureSink::Create(env, &operators_, manifest_.get(), directory_,
                                    {.arena_bytes = 1 << 20, .thread = false});
  }

  template <class Section>
  ProcessImage& Add(const Section& section) {
    EXPECT_TRUE(manifest_->Append(section).ok());
    return *this;
  }
  ProcessImage& Expect(const std::string& path) {
    io::ExpectSection expect;
    expect.path = path;
    expect.cls = "Linear";
    return Add(expect);
  }

  // A pass of `local` with one call and one record of each of `paths`, four bytes each.
  ProcessImage& Pass(uint64_t local, const std::vector<std::string>& paths = {"a"}) {
    WritePass(sink_.get(), local, paths);
    return *this;
  }
  // The same, killed within it: the file ends `cut` bytes before the pass would have.
  ProcessImage& TornPass(uint64_t local, const std::vector<std::string>& paths, uint64_t cut) {
    const std::string scratch = "scratch_" + name_;
    EXPECT_TRUE(env_->MakeDirs(scratch, 0700).ok());
    io::FileHeader header;
    header.magic = io::kManifestMagic;
    auto manifest = io::ManifestWriter::Create(env_, scratch + "/manifest.tdm", header);
    auto sink = io::CaptureSink::Create(env_, &operators_, manifest->get(), scratch,
                                        {.arena_bytes = 1 << 20, .thread = false});
    const std::string file = "pass0000" + std::to_string(passes_) + ".tdp";
    WritePass(sink.get(), local, paths);
    const auto bytes = ReadFile(env_, scratch + "/" + file, 1 << 20);
    EXPECT_TRUE(bytes.ok()) << bytes.status().message();
    EXPECT_TRUE(WriteFileAtomically(env_, directory_ + "/" + file + ".part",
                                    std::string_view(*bytes).substr(0, bytes->size() - cut), 0600)
                    .ok());
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
  void WritePass(io::CaptureSink* sink, uint64_t local, const std::vector<std::string>& paths) {
    io::PassInfo info;
    info.ordinal = passes_++;
    info.local_step = info.mode_step = local;
    info.rank = options_.rank;
    info.world = options_.world;
    info.generation = options_.generation;
    info.pid = options_.pid;
    info.host = options_.host;
    sink->open_pass(info);
    for (const std::string& path : paths) Record(sink, info.ordinal, path);
    sink->close_pass();
    EXPECT_TRUE(sink->Drain(10000));
  }

  void Record(io::CaptureSink* sink, uint64_t pass, const std::string& path) {
    OperatorInfo info;
    info.path = path;
    info.cls = "Linear";
    info.leaf = true;
    Call call;
    call.op = operators_.Intern(info);
    call.pass = pass;
    call.begin = ++sequence_;
    const int64_t sizes[] = {4}, strides[] = {1};
    Observation seen;
    seen.arg = "";
    seen.meta.dtype = MakeDType("uint8", 8);
    seen.meta.sizes = sizes;
    seen.meta.strides = strides;
    const Slot slot = sink->reserve(call, seen, kLevelFull, 4);
    ASSERT_NE(slot.data, nullptr);
    for (int i = 0; i < 4; ++i)
      static_cast<std::byte*>(slot.data)[i] = static_cast<std::byte>(sequence_ + i);
    sink->commit(slot);
    call.end = ++sequence_;
    call.was_kept = true;
    sink->end_call(call, {});
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
