// Several passes in one file, the ring that removes the oldest, and when files are forced to disk.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "io/address.h"
#include "io/pack_scan.h"
#include "io/pass_store.h"
#include "tests/io/forwarding_env.h"
#include "tests/io/sink_fixture.h"

namespace tdump::io {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr size_t kWeights = 40'000;

CaptureSinkOptions Packed(uint64_t single_files = 0) {
  return {.arena_bytes = 4 << 20, .thread = false, .files = {.single_files = single_files}};
}

std::vector<std::byte> Activation(uint64_t pass) {
  return Bytes(3000, static_cast<uint8_t>(7 * pass + 1), 5);
}

// One step: weights that never change, an activation that does.
void Step(SinkRig* rig, uint64_t pass) {
  rig->Open(pass);
  rig->Keep(rig->NewCall(rig->Op("weights")), "0", Bytes(kWeights, 11, 3));
  rig->Keep(rig->NewCall(rig->Op("layer")), "1", Activation(pass));
  const Call call = rig->NewCall(rig->Op("layer"));
  rig->sink->end_call(call, {}, {});
  rig->sink->close_pass();
}

std::unique_ptr<PassStore> OpenStore(Env* env, const std::string& run = "run") {
  auto store = PassStore::Open(env, run);
  EXPECT_TRUE(store.ok()) << store.status().message();
  return store.ok() ? std::move(*store) : nullptr;
}

// The pass reads as Step() wrote it.
void CheckPass(const PassReader& reader, uint64_t pass) {
  EXPECT_TRUE(reader.complete());
  EXPECT_EQ(reader.info().ordinal, pass);
  EXPECT_THAT(reader.damage(), IsEmpty());
  size_t seen = 0;
  EXPECT_TRUE(reader
                  .ForEachRecord([&](const Record& record) {
                    std::vector<std::byte> values(record.payload->logical_bytes);
                    EXPECT_TRUE(reader.ReadPayload(record, 0, values).ok());
                    const auto right =
                        record.key.path == "weights" ? Bytes(kWeights, 11, 3) : Activation(pass);
                    EXPECT_EQ(values, right) << record.key.path;
                    const auto mapped = reader.MapPayload(record);
                    EXPECT_TRUE(mapped.ok() && std::ranges::equal(*mapped, right));
                    return ++seen, true;
                  })
                  .ok());
  EXPECT_EQ(seen, 2u);
  size_t calls = 0;
  EXPECT_TRUE(reader.ForEachCall([&](const CallRecord&) { return ++calls, true; }).ok());
  EXPECT_EQ(calls, 1u);
  std::vector<Damage> damage;
  EXPECT_TRUE(reader.Verify(&damage).ok());
  for (const Damage& item : damage) ADD_FAILURE() << item.offset << ": " << item.what;
}

void CheckAll(Env* env, std::vector<uint64_t> ordinals) {
  const auto store = OpenStore(env);
  ASSERT_NE(store, nullptr);
  ASSERT_EQ(store->processes().size(), 1u);
  const ProcessEntry& process = store->processes()[0];
  EXPECT_THAT(process.damage, IsEmpty());
  ASSERT_EQ(process.passes.size(), ordinals.size());
  for (size_t i = 0; i < ordinals.size(); ++i) {
    SCOPED_TRACE(testing::Message() << "pass " << ordinals[i]);
    EXPECT_EQ(process.passes[i].error, "");
    EXPECT_FALSE(process.passes[i].part);
    const auto reader = store->OpenPass(process, process.passes[i]);
    ASSERT_TRUE(reader.ok()) << reader.status().message();
    CheckPass(**reader, ordinals[i]);
  }
}

std::vector<std::string> PassFilesOf(SinkRig* rig) {
  std::vector<std::string> names = rig->env->List(rig->directory).value();
  std::erase(names, "manifest.tdm");
  return names;
}

TEST(Packed, PassesShareAFileAndWhatDidNotChange) {
  SinkRig rig(Packed());
  for (uint64_t pass = 0; pass < 3; ++pass) Step(&rig, pass);
  EXPECT_THAT(PassFilesOf(&rig), ElementsAre("pack00000.tdp.part"));
  CheckAll(rig.env, {0, 1, 2});  // while it is written
  ASSERT_TRUE(rig.sink->Drain(1000));
  EXPECT_THAT(PassFilesOf(&rig), ElementsAre("pack00000.tdp"));
  CheckAll(rig.env, {0, 1, 2});
  const ProcessEntry process = rig.Manifest();
  EXPECT_EQ(process.passes[0].offset, 4096u);
  EXPECT_EQ(process.passes[0].payload_bytes, kWeights + 3000);
  EXPECT_EQ(process.passes[1].payload_bytes, 3000u);  // the weights stand in pass 0
  EXPECT_EQ(process.passes[2].payload_bytes, 3000u);
}

// The writer is idle when a pass ends, and the next one's first entry is there before it wakes.
TEST(Packed, AShortPassAfterAnotherGoesToTheSameFile) {
  constexpr uint64_t kPasses = 300;
  CaptureSinkOptions options = Packed();
  options.thread = true;
  SinkRig rig(std::move(options));
  for (uint64_t pass = 0; pass < kPasses; ++pass) {
    rig.Open(pass);
    rig.Keep(rig.NewCall(rig.Op("layer")), "0", Bytes(64, static_cast<uint8_t>(pass)));
    std::this_thread::sleep_for(std::chrono::microseconds(500));
    rig.sink->close_pass();
  }
  ASSERT_TRUE(rig.sink->Drain(10'000));
  EXPECT_THAT(PassFilesOf(&rig), ElementsAre("pack00000.tdp"));
  EXPECT_EQ(rig.Manifest().passes.size(), kPasses);
}

// Equal bytes of another dtype are another tensor.
TEST(Packed, SharesOnlyWhatHasTheSameDtype) {
  SinkRig rig(Packed());
  for (uint64_t pass = 0; pass < 2; ++pass) {
    rig.Open(pass);
    rig.Keep(rig.NewCall(rig.Op("a")), "0", Bytes(5000, 1), kLevelFull, true,
             pass == 0 ? "uint8" : "int8");
  }
  ASSERT_TRUE(rig.sink->Drain(1000));
  EXPECT_EQ(rig.Manifest().passes[1].payload_bytes, 5000u);
}

TEST(Packed, PassesAreFoundWithoutTheManifest) {
  SinkRig rig(Packed());
  for (uint64_t pass = 0; pass < 3; ++pass) Step(&rig, pass);
  ASSERT_TRUE(rig.sink->Drain(1000));
  ASSERT_TRUE(rig.env->Remove(rig.directory + "/manifest.tdm").ok());
  CheckAll(rig.env, {0, 1, 2});
  const std::string file = rig.directory + "/pack00000.tdp";
  const auto opened = PassReader::Open(rig.env, file + "#1");
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  CheckPass(**opened, 1);
  const auto alone = OpenStore(rig.env, file);
  ASSERT_NE(alone, nullptr);
  EXPECT_EQ(alone->processes()[0].passes.size(), 3u);
}

TEST(Packed, OnePassIsNamedByItsOrdinal) {
  SinkRig rig(Packed());
  for (uint64_t pass = 0; pass < 3; ++pass) Step(&rig, pass);
  ASSERT_TRUE(rig.sink->Drain(1000));
  const std::string file = rig.directory + "/pack00000.tdp";
  const Status several = PassReader::Open(rig.env, file).status();
  EXPECT_EQ(several.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(
      several.message(),
      "run/rank0/pack00000.tdp: a packed file of 3 passes, number 0-2, and no number of a pass "
      "was given; name one as 'run/rank0/pack00000.tdp#0'");
  for (const Status& missing : {PassReader::Open(rig.env, file + "#3").status(),
                                PassStore::Open(rig.env, file + "#3").status()}) {
    EXPECT_EQ(missing.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(missing.message(), HasSubstr("number 0-2, and it has no pass 3; name one as"));
  }
  const auto run = ResolveRun(rig.env, file + "#1");
  ASSERT_TRUE(run.ok()) << run.status().message();
  const auto store = OpenStore(rig.env, run->path);
  ASSERT_NE(store, nullptr);
  ASSERT_EQ(store->processes()[0].passes.size(), 1u);
  EXPECT_EQ(store->processes()[0].passes[0].info.ordinal, 1u);
  const auto address = ResolveAddress(rig.env, file + "#2:2/0/a@output#0");
  ASSERT_TRUE(address.ok()) << address.status().message();
  EXPECT_EQ(address->run.path, file + "#2");
  EXPECT_EQ(address->name, "a@output#0");
}

TEST(Packed, APassThatBeginsWhileAnotherIsWrittenGoesToASecondFile) {
  SinkRig rig(Packed());
  rig.Open(0);
  rig.Keep(rig.NewCall(rig.Op("weights")), "0", Bytes(kWeights, 11, 3));
  const Call late = rig.NewCall(rig.Op("layer"));
  const Slot slot = rig.Keep(late, "1", Activation(0), kLevelFull, false);
  rig.sink->end_call(late, {}, {});
  Step(&rig, 1);
  rig.sink->commit(slot);
  Step(&rig, 2);
  ASSERT_TRUE(rig.sink->Drain(1000));
  EXPECT_THAT(PassFilesOf(&rig), ElementsAre("pack00000.tdp", "pack00001.tdp"));
  CheckAll(rig.env, {0, 1, 2});
}

TEST(Packed, TheFirstPassesGetFilesOfTheirOwnWhenThereAreFew) {
  SinkRig rig(Packed(2));
  for (uint64_t pass = 0; pass < 4; ++pass) Step(&rig, pass);
  ASSERT_TRUE(rig.sink->Drain(1000));
  EXPECT_THAT(PassFilesOf(&rig), ElementsAre("pack00000.tdp", "pass00000.tdp", "pass00001.tdp"));
  CheckAll(rig.env, {0, 1, 2, 3});
}

// Whatever is cut off: what was acknowledged before the cut reads, what comes after is an error.
TEST(Packed, ATornFileKeepsThePassesBeforeTheTear) {
  SinkRig rig(Packed());
  for (uint64_t pass = 0; pass < 3; ++pass) Step(&rig, pass);
  ASSERT_TRUE(rig.sink->Drain(1000));
  const std::string path = rig.directory + "/pack00000.tdp";
  const std::string whole = ReadFile(rig.env, path, 1 << 20).value();
  const ProcessEntry process = rig.Manifest();
  for (const bool listed : {true, false}) {
    if (!listed) ASSERT_TRUE(rig.env->Remove(rig.directory + "/manifest.tdm").ok());
    for (uint64_t length = whole.size(); length > 0; length -= std::min<uint64_t>(length, 509)) {
      SCOPED_TRACE(testing::Message() << "length " << length << " listed " << listed);
      ASSERT_TRUE(rig.env->Remove(path).ok());
      auto file = rig.env->CreateExclusive(path, 0600);
      ASSERT_TRUE(file.ok());
      ASSERT_TRUE((*file)->Append(std::as_bytes(std::span(whole.data(), length))).ok());
      ASSERT_TRUE((*file)->Close().ok());
      const auto store = OpenStore(rig.env);
      ASSERT_NE(store, nullptr);
      if (store->processes().empty()) continue;  // neither pass nor manifest
      const ProcessEntry& found = store->processes()[0];
      for (const PassEntry& entry : process.passes) {
        const bool stands = entry.offset + entry.file_bytes <= length;
        const auto same =
            std::find_if(found.passes.begin(), found.passes.end(),
                         [&](const PassEntry& e) { return e.info.ordinal == entry.info.ordinal; });
        if (!stands && same == found.passes.end()) continue;
        ASSERT_NE(same, found.passes.end()) << "pass " << entry.info.ordinal;
        const auto reader = store->OpenPass(found, *same);
        if (!stands) {
          EXPECT_TRUE(same->part || !same->error.empty());
          if (reader.ok()) EXPECT_FALSE((*reader)->complete());
          continue;
        }
        EXPECT_FALSE(same->part);
        ASSERT_TRUE(reader.ok()) << reader.status().message();
        CheckPass(**reader, entry.info.ordinal);
      }
      if (HasFailure()) return;
    }
  }
}

// After an error the file is given up, and the next pass begins another.
TEST(Packed, AnErrorEndsTheFileNotTheRun) {
  auto memory = NewMemoryEnv();
  bool fail = false;
  auto faulty =
      NewFaultyEnv(memory.get(), [&](uint64_t, std::string_view call, std::string_view path) {
        return fail && call == "write" && path.find("pack") != std::string_view::npos ? EIO : 0;
      });
  SinkRig rig(Packed(), faulty.get());
  Step(&rig, 0);
  fail = true;
  Step(&rig, 1);
  fail = false;
  Step(&rig, 2);
  ASSERT_TRUE(rig.sink->Drain(1000));
  EXPECT_THAT(PassFilesOf(&rig), ElementsAre("pack00000.tdp.part", "pack00001.tdp"));
  const auto store = OpenStore(rig.env);
  const ProcessEntry& process = store->processes()[0];
  ASSERT_EQ(process.passes.size(), 3u);
  EXPECT_THAT(process.passes[1].error, HasSubstr("EIO"));
  for (const uint64_t pass : {0, 2}) {
    const auto reader = store->OpenPass(process, process.passes[pass]);
    ASSERT_TRUE(reader.ok()) << reader.status().message();
    CheckPass(**reader, pass);
  }
  rig.sink.reset();
  rig.manifest.reset();
}

uint64_t BytesOf(SinkRig* rig) {
  uint64_t bytes = 0;
  for (const std::string& name : PassFilesOf(rig))
    bytes += rig->env->Stat(rig->directory + "/" + name).value().bytes;
  return bytes;
}

class Ring : public ::testing::TestWithParam<bool> {};

// 100 passes of about 54 KB through a limit of 2 MiB: the first one and the last ones are kept, the
// others are told as overwritten.
TEST_P(Ring, KeepsTheFirstPassAndTheLast) {
  constexpr uint64_t kLimit = 2 << 20;
  constexpr uint64_t kPasses = 100;
  SinkRig rig(
      {.arena_bytes = 4 << 20,
       .thread = false,
       .disk_limit_bytes = kLimit,
       .files = {
           .single_files = GetParam() ? 0 : ~uint64_t{0}, .ring = true, .ring_bytes = kLimit}});
  for (uint64_t pass = 0; pass < kPasses; ++pass) {
    rig.Open(pass);
    rig.Keep(rig.NewCall(rig.Op("layer")), "1", Bytes(50'000, static_cast<uint8_t>(pass), 3));
    rig.sink->close_pass();
    EXPECT_LE(BytesOf(&rig), kLimit);
  }
  ASSERT_TRUE(rig.sink->Drain(1000));
  EXPECT_FALSE(rig.sink->stopped());
  EXPECT_THAT(rig.told, IsEmpty());
  EXPECT_GT(BytesOf(&rig), kLimit / 4);
  const auto store = OpenStore(rig.env);
  const ProcessEntry& process = store->processes()[0];
  EXPECT_THAT(process.damage, IsEmpty());
  EXPECT_EQ(process.passes.size() + process.overwritten.size(), kPasses);
  EXPECT_EQ(process.passes.front().info.ordinal, 0u);
  EXPECT_EQ(process.passes.back().info.ordinal, kPasses - 1);
  EXPECT_EQ(process.overwritten.front().info.ordinal, 1u);
  for (size_t i = 1; i + 1 < process.passes.size(); ++i)  // the last ones without a gap
    EXPECT_EQ(process.passes[i].info.ordinal + 1, process.passes[i + 1].info.ordinal);
  for (const PassEntry& pass : process.passes) {
    const auto reader = store->OpenPass(process, pass);
    ASSERT_TRUE(reader.ok()) << reader.status().message();
    std::vector<Damage> damage;
    EXPECT_TRUE((*reader)->Verify(&damage).ok());
    EXPECT_THAT(damage, IsEmpty());
    EXPECT_EQ((*reader)->record_count(), 1u);
  }
}

// Of passes that are written at the same time too: an even one has a record that is committed only
// when the next pass is there. Each has one record of `even` or `odd`, and one more of `all` than
// the pass before.
TEST_P(Ring, WhatItOverwroteIsCountedPerOperator) {
  constexpr uint64_t kLimit = 1 << 20;
  constexpr uint64_t kPasses = 20;
  SinkRig rig(
      {.arena_bytes = 16 << 20,
       .thread = false,
       .disk_limit_bytes = kLimit,
       .files = {
           .single_files = GetParam() ? 0 : ~uint64_t{0}, .ring = true, .ring_bytes = kLimit}});
  const OperatorId all = rig.Op("all"), parity[] = {rig.Op("even"), rig.Op("odd")};
  uint8_t fill = 0;
  const auto keep = [&](OperatorId op, bool commit = true) {
    return rig.Keep(rig.NewCall(op), "", Bytes(9'000, ++fill, 3), kLevelFull, commit);
  };
  Slot late;
  for (uint64_t pass = 0; pass < kPasses; ++pass) {
    rig.Open(pass);
    for (uint64_t i = 0; i <= pass; ++i) keep(all);
    const Slot slot = keep(parity[pass % 2], pass % 2 == 1);
    if (pass % 2 == 0) {
      late = slot;
      continue;
    }
    EXPECT_FALSE(rig.sink->Drain(1));
    rig.sink->commit(late);
    ASSERT_TRUE(rig.sink->Drain(1000));
  }
  rig.sink->close_pass();
  ASSERT_TRUE(rig.sink->Drain(1000));
  const auto store = OpenStore(rig.env);
  const ProcessEntry& process = store->processes()[0];
  std::map<std::string, uint64_t> gone = {{"all", 0}, {"even", 0}, {"odd", 0}};
  for (const PassEntry& pass : process.overwritten) {
    gone["all"] += pass.info.ordinal + 1;
    ++gone[pass.info.ordinal % 2 == 0 ? "even" : "odd"];
  }
  EXPECT_GT(process.overwritten.size(), 4u);
  EXPECT_LT(process.overwritten.size(), kPasses - 2);
  ASSERT_EQ(process.overwritten_records.size(), process.counts.size());
  std::map<std::string, uint64_t> told;
  for (size_t i = 0; i < process.counts.size(); ++i)
    told[process.counts[i].path] = process.overwritten_records[i];
  EXPECT_EQ(told, gone);
}

INSTANTIATE_TEST_SUITE_P(Layouts, Ring, ::testing::Bool());

// A pass larger than the ring loses what does not fit; the next ones are written.
TEST(RingLimit, APassLargerThanTheRingIsCutAndTheNextIsWhole) {
  SinkRig rig({.arena_bytes = 4 << 20,
               .thread = false,
               .disk_limit_bytes = 400'000,
               .files = {.ring = true, .ring_bytes = 400'000}});
  rig.Open(0);
  for (uint8_t i = 0; i < 30; ++i) rig.Keep(rig.NewCall(rig.Op("a")), "0", Bytes(20'000, i, 3));
  rig.Open(1);
  rig.Keep(rig.NewCall(rig.Op("a")), "0", Bytes(20'000, 77, 3));
  ASSERT_TRUE(rig.sink->Drain(1000));
  ASSERT_EQ(rig.told.size(), 1u);
  EXPECT_THAT(rig.told[0],
              HasSubstr("no older pass left to remove, further tensors of pass 0 are"));
  const ProcessEntry process = rig.Manifest();
  ASSERT_EQ(process.passes.size(), 2u);
  EXPECT_THAT(process.passes[1].not_kept, IsEmpty());
  EXPECT_EQ(process.passes[1].payload_bytes, 20'000u);
}

// Counts what is forced to the disk, in order.
class SyncEnv final : public test::ForwardingEnv {
 public:
  SyncEnv() : ForwardingEnv(NewMemoryEnv()) {}
  Result<std::unique_ptr<WritableFile>> CreateExclusive(Path path, int mode) override {
    return Wrap(path, base_->CreateExclusive(path, mode));
  }
  Result<std::unique_ptr<WritableFile>> OpenAppend(Path path, int mode) override {
    return Wrap(path, base_->OpenAppend(path, mode));
  }
  Status SyncDirectory(Path path) override {
    synced.push_back(path);
    return Status();
  }
  std::vector<std::string> synced;

 private:
  class File final : public test::ForwardingFile {
   public:
    File(SyncEnv* env, std::string path, std::unique_ptr<WritableFile> base)
        : ForwardingFile(std::move(base)), env_(env), path_(std::move(path)) {}
    Status Sync() override {
      env_->synced.push_back(path_.substr(path_.rfind('/') + 1));
      return Status();
    }

   private:
    SyncEnv* const env_;
    const std::string path_;
  };
  Result<std::unique_ptr<WritableFile>> Wrap(Path path,
                                             Result<std::unique_ptr<WritableFile>> base) {
    if (!base.ok()) return base;
    return std::unique_ptr<WritableFile>(new File(this, path, std::move(*base)));
  }
};

std::vector<std::string> SyncedBy(Durability durability, uint64_t single_files) {
  SyncEnv env;
  SinkRig rig({.thread = false, .files = {.single_files = single_files, .durability = durability}},
              &env);
  Step(&rig, 0);
  Step(&rig, 1);
  EXPECT_TRUE(rig.sink->Drain(1000));
  rig.sink.reset();
  rig.manifest.reset();
  return env.synced;
}

TEST(DurabilityLevels, SyncWhatTheySayAndInThatOrder) {
  EXPECT_THAT(SyncedBy(Durability::kNone, 9), IsEmpty());
  EXPECT_THAT(SyncedBy(Durability::kStep, 9),
              ElementsAre("pass00000.tdp.part", "pass00001.tdp.part"));
  EXPECT_THAT(SyncedBy(Durability::kPass, 9),
              ElementsAre("pass00000.tdp.part", "run/rank0", "manifest.tdm", "pass00001.tdp.part",
                          "run/rank0", "manifest.tdm"));
  EXPECT_THAT(SyncedBy(Durability::kFinalize, 9),
              ElementsAre("pass00000.tdp", "pass00001.tdp", "run/rank0"));
  EXPECT_THAT(SyncedBy(Durability::kStep, 0),
              ElementsAre("pack00000.tdp.part", "pack00000.tdp.part"));
  EXPECT_THAT(SyncedBy(Durability::kPass, 0),
              ElementsAre("run/rank0", "pack00000.tdp.part", "manifest.tdm", "pack00000.tdp.part",
                          "manifest.tdm", "run/rank0"));
  EXPECT_THAT(SyncedBy(Durability::kFinalize, 0), ElementsAre("pack00000.tdp", "run/rank0"));
}

}  // namespace
}  // namespace tdump::io
