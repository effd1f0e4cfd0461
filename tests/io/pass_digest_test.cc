#include "io/pass_digest.h"

#include <gtest/gtest.h>

#include <functional>

#include "io/hash.h"
#include "tests/io/pass_image.h"

namespace tdump::io::test {
namespace {

// What a pass of two records is made of.
struct Recipe {
  std::string path = "layer.0";
  std::string arg = "x";
  std::function<void(RecordSection*)> change = [](RecordSection*) {};  // of the second record
  uint8_t hash = 7;                                                    // of the second record
  bool hashed = true, finished = true;
};

std::string HashedRecord(uint64_t id, const std::function<void(RecordSection*)>& change,
                         uint8_t hash, bool hashed) {
  RecordSection record = FloatRecord(id, {2, 3});
  record.parts_kept = record.parts_asked = kPartMeta | kPartHash;
  change(&record);
  std::string body = EncodeSection(record);
  HashSection section;
  section.hash.fill(hash);
  if (hashed) body += EncodeSection(section);
  return body;
}

class PassDigestTest : public ::testing::Test {
 protected:
  Result<PassDigest> DigestOf(const Recipe& recipe) {
    Image image(kPassMagic);
    image.Name(0, recipe.arg);
    image.Name(1, "float32");
    image.Name(2, recipe.path);
    image.Operator(0, 2);
    image.Record(1, HashedRecord(
                        1, [](RecordSection*) {}, 1, true));
    image.Record(2, HashedRecord(2, recipe.change, recipe.hash, recipe.hashed));
    if (recipe.finished) image.Finish();
    Store(env_.get(), "/pass", image.bytes());
    return DigestPass(env_.get(), "/pass");
  }
  Result<PassDigest> Changed(std::function<void(RecordSection*)> change) {
    Recipe recipe;
    recipe.change = std::move(change);
    return DigestOf(recipe);
  }

  std::unique_ptr<Env> env_ = NewMemoryEnv();
};

TEST_F(PassDigestTest, WhatDiffersFromRunToRunWithoutAMeaningIsLeftOut) {
  const auto plain = DigestOf({});
  ASSERT_TRUE(plain.ok()) << plain.status().message();
  EXPECT_EQ(plain->records, 2u);
  const auto other = Changed([](RecordSection* r) {
    r->storage_id = 0x1000;
    r->storage_offset = 3;
    r->storage_bytes = 4096;
    r->seen = 99;
    r->call_begin = 98;
    r->filter_sets = 3;
    r->flags = 2 | 4 | 32;  // compiled, late, requires_grad
  });
  ASSERT_TRUE(other.ok());
  EXPECT_EQ(other->keys, plain->keys);
  EXPECT_EQ(other->values, plain->values);
}

TEST_F(PassDigestTest, EveryPartOfAKeyCounts) {
  const auto plain = DigestOf({});
  for (const auto& change : std::vector<std::function<void(RecordSection*)>>{
           [](RecordSection* r) { r->call_index = 1; }, [](RecordSection* r) { r->micro = 1; },
           [](RecordSection* r) { r->chunk = 1; }, [](RecordSection* r) { r->lane = 1; },
           [](RecordSection* r) { r->phase = 1; }, [](RecordSection* r) { r->role = 3; },
           [](RecordSection* r) { r->flags = 1; }, [](RecordSection* r) { r->arg_name = 2; },
           [](RecordSection* r) { r->op_id = 1; }}) {
    const auto other = Changed(change);
    ASSERT_TRUE(other.ok());
    EXPECT_NE(other->keys, plain->keys);
    EXPECT_EQ(other->values, plain->values);
  }
  EXPECT_NE(DigestOf({.path = "layer.1"})->keys, plain->keys);
  EXPECT_NE(DigestOf({.arg = "y"})->keys, plain->keys);
}

TEST_F(PassDigestTest, EveryPartOfAValueCounts) {
  const auto plain = DigestOf({});
  for (const auto& change : std::vector<std::function<void(RecordSection*)>>{
           [](RecordSection* r) {
             r->sizes = {3, 2};
           },
           [](RecordSection* r) { r->sizes = {6}; },
           [](RecordSection* r) {
             r->strides = {1, 2};
           },
           [](RecordSection* r) { r->layout = 1; }, [](RecordSection* r) { r->flags = 8; },
           [](RecordSection* r) { r->flags = 16; }, [](RecordSection* r) { r->dtype_name = 0; },
           [](RecordSection* r) { r->bits_per_element = 16; },
           [](RecordSection* r) { r->elements_per_unit = 2; },
           [](RecordSection* r) { r->parts_kept |= kPartStats; }}) {
    const auto other = Changed(change);
    ASSERT_TRUE(other.ok());
    EXPECT_EQ(other->keys, plain->keys);
    EXPECT_NE(other->values, plain->values);
  }
  EXPECT_NE(DigestOf({.hash = 8})->values, plain->values);
}

TEST_F(PassDigestTest, NothingIsSaidOfWhatIsNotHashedOrNotFinished) {
  EXPECT_EQ(DigestOf({.hashed = false}).status().code(), StatusCode::kUnsupported);
  EXPECT_EQ(DigestOf({.finished = false}).status().code(), StatusCode::kUnsupported);
}

TEST_F(PassDigestTest, ADamagedFrameIsAnError) {
  ASSERT_TRUE(DigestOf({}).ok());
  std::string bytes = *ReadFile(env_.get(), "/pass", 1 << 20);
  size_t errors = 0, changed = 0;
  const auto plain = DigestPass(env_.get(), "/pass");
  // Whatever byte is flipped up to the index: an error, or what was not looked at.
  for (size_t at = 64; at + 200 < bytes.size(); at += 3) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    Store(env_.get(), "/damaged", damaged);
    const auto digest = DigestPass(env_.get(), "/damaged");
    errors += !digest.ok();
    changed += digest.ok() && (digest->keys != plain->keys || digest->values != plain->values);
  }
  EXPECT_EQ(changed, 0u);
  EXPECT_GT(errors, 100u);
}

}  // namespace
}  // namespace tdump::io::test
