#include "core/operator_table.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <new>
#include <thread>

namespace {
thread_local size_t allocations = 0;
}  // namespace

[[gnu::noinline]] void* operator new(size_t bytes) {
  ++allocations;
  if (void* block = std::malloc(bytes)) return block;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* block) noexcept { std::free(block); }
[[gnu::noinline]] void operator delete(void* block, size_t) noexcept { std::free(block); }

namespace tdump {
namespace {

OperatorInfo Module(std::string path) {
  return {.path = std::move(path), .cls = "Linear", .leaf = true};
}

TEST(OperatorTableTest, SameKeySameId) {
  OperatorTable table;
  EXPECT_EQ(table.Intern(Module("a")), 0u);
  EXPECT_EQ(table.Intern(Module("b")), 1u);
  OperatorInfo again = Module("a");
  again.cls = "Other";  // not part of the key: the first registration stays
  EXPECT_EQ(table.Intern(again), 0u);
  EXPECT_EQ(table.Get(0).cls, "Linear");
  EXPECT_EQ(table.size(), 2u);
}

TEST(OperatorTableTest, KindRootPathAndOpTellApart) {
  OperatorTable table;
  OperatorInfo info = Module("a");
  table.Intern(info);
  info.kind = OperatorKind::kTap;
  table.Intern(info);
  info.root = "Critic#1";
  table.Intern(info);
  info.op = "tap";
  table.Intern(info);
  info.path = "b";
  table.Intern(info);
  EXPECT_EQ(table.size(), 5u);
}

TEST(OperatorTableTest, ReferencesOutliveGrowth) {
  OperatorTable table;
  table.Intern(Module("first"));
  const OperatorInfo& first = table.Get(0);
  for (int i = 0; i < 5000; ++i) table.Intern(Module("m" + std::to_string(i)));
  EXPECT_EQ(first.path, "first");
  EXPECT_EQ(table.Get(5000).path, "m4999");
}

// What is kept of an operator that is met amid the job's tensors would leave holes in the heap.
TEST(OperatorTableTest, FirstOfManyTakesTheRoomOfAll) {
  std::vector<OperatorInfo> infos;
  for (int i = 0; i < 1000; ++i) {
    infos.push_back({.kind = OperatorKind::kAten,
                     .path = "encoder.layer." + std::to_string(i) + ".attention.self.query",
                     .op = "aten::_scaled_dot_product_fused_attention_overrideable_backward",
                     .cls = "transformers.models.bert.modeling_bert.BertSdpaSelfAttention"});
  }
  OperatorTable table;
  size_t before = allocations;
  table.Intern(infos[0]);
  EXPECT_GT(allocations, before);
  before = allocations;
  for (const OperatorInfo& info : infos) table.Intern(info);
  EXPECT_EQ(allocations, before);
  EXPECT_EQ(table.size(), 1000u);
  EXPECT_EQ(table.Get(999), infos[999]);
}

TEST(OperatorTableTest, Aliases) {
  OperatorTable table;
  const OperatorId id = table.Intern(Module("a"));
  EXPECT_TRUE(table.AliasesOf(id).empty());
  table.AddAlias(id, "b");
  table.AddAlias(id, "c");
  EXPECT_EQ(table.AliasesOf(id), (std::vector<std::string>{"b", "c"}));
}

TEST(OperatorTableTest, ThreadsAgree) {
  OperatorTable table;
  std::vector<std::vector<OperatorId>> ids(4, std::vector<OperatorId>(2000));
  std::vector<std::thread> threads;
  for (auto& mine : ids) {
    threads.emplace_back([&table, &mine] {
      for (int i = 0; i < 2000; ++i) {
        mine[i] = table.Intern(Module("m" + std::to_string(i)));
        EXPECT_EQ(table.Get(mine[i]).path, "m" + std::to_string(i));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(table.size(), 2000u);
  for (const auto& mine : ids) EXPECT_EQ(mine, ids[0]);
}

}  // namespace
}  // namespace tdump
