#include "tests/io/kill_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "io/pass_store.h"

namespace tdump::io::test {
namespace {

using ::testing::IsEmpty;

constexpr size_t kWeights = 5'000;
constexpr size_t kLarge = 1'300'000;

std::string PathOf(uint64_t record) { return "layer." + std::to_string(record % 7); }

// A file that was made and not begun.
bool IsUnbegun(std::string_view what) {
  return what.ends_with("its process was killed at its start, or its disk was full");
}

void AddRightRecords(const PassReader& reader, bool large, Left* left) {
  const uint64_t pass = reader.info().ordinal;
  const Status read = reader.ForEachRecord([&](const Record& record) {
    std::vector<std::byte> values(record.payload ? record.payload->logical_bytes : 0);
    const Status status = reader.ReadPayload(record, 0, values);
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_TRUE(values == KilledValues(pass, record.id, large))
        << "pass " << pass << " record " << record.id;
    EXPECT_EQ(record.key.path, PathOf(record.id));
    left->records.emplace(pass, record.id);
    return true;
  });
  EXPECT_TRUE(read.ok()) << read.message();
}

void CheckListed(const PassReader& reader, const PassEntry& pass) {
  EXPECT_FALSE(pass.part);
  EXPECT_TRUE(reader.complete());
  EXPECT_EQ(reader.record_count(), pass.records);
  std::vector<Damage> damage;
  EXPECT_TRUE(reader.Verify(&damage).ok());
  for (const Damage& item : damage)
    ADD_FAILURE() << item.file << ", byte " << item.offset << ": " << item.what;
}

}  // namespace

std::vector<std::byte> KilledValues(uint64_t pass, uint64_t record, bool large) {
  if (record == 1) return Bytes(kWeights, 5, 11);
  const auto first = static_cast<uint8_t>(31 * pass + record);
  return Bytes(large && record == 2 && pass % 8 == 3 ? kLarge : 100 + record % 50, first, 7);
}

Slot KeepKilledValues(SinkRig* rig, uint64_t record, bool large, bool commit) {
  const Call call = rig->NewCall(rig->Op(PathOf(record)));
  const Slot slot = rig->Keep(call, "", KilledValues(rig->pass, record, large), kLevelFull, commit);
  rig->sink->end_call(call, {}, {});
  return slot;
}

Left CheckWhatIsLeft(Env* env, const std::string& run, const Acknowledged& acknowledged,
                     bool large) {
  Left left;
  const auto store = PassStore::Open(env, run);
  EXPECT_TRUE(store.ok() || acknowledged.passes == 0) << store.status().message();
  if (!store.ok()) return left;  // killed before it made the directory
  for (const ProcessEntry& process : (*store)->processes()) {
    for (const Damage& item : process.damage) {
      const bool being_written =
          item.file.ends_with("manifest.tdm") && item.offset == acknowledged.manifest_bytes;
      EXPECT_TRUE(being_written || IsUnbegun(item.what))
          << item.file << ", byte " << item.offset << ": " << item.what << "; "
          << acknowledged.manifest_bytes << " bytes of the manifest were acknowledged";
    }
    for (const PassEntry& pass : process.passes) {
      EXPECT_TRUE(pass.error.empty() || (pass.part && IsUnbegun(pass.error))) << pass.error;
      const auto reader = (*store)->OpenPass(process, pass);
      EXPECT_TRUE(reader.ok() || (pass.part && !pass.listed)) << reader.status().message();
      if (!reader.ok()) continue;
      AddRightRecords(**reader, large, &left);
      if (!pass.listed) continue;
      ++left.passes;
      CheckListed(**reader, pass);
    }
    left.passes += process.overwritten.size();
  }
  EXPECT_GE(left.passes, acknowledged.passes);
  return left;
}

}  // namespace tdump::io::test
