// Breadcrumbs: what is left behind is what was in progress, whatever ends the process and wherever
// the file is cut.
#include "io/breadcrumbs.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
#include <xxhash.h>

#include <cstring>
#include <filesystem>
#include <thread>

#include "core/env.h"
#include "io/breadcrumb_ring.h"

namespace tdump::io {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr size_t kFirstCrumb = kCrumbHeaderBytes;
constexpr size_t kNames = kCrumbHeaderBytes + 16 * kCrumbEntries;

class BreadcrumbsTest : public ::testing::Test {
 protected:
  BreadcrumbsTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "crumbs_XXXXXX").string();
    directory_ = ::mkdtemp(pattern.data());
  }
  ~BreadcrumbsTest() override { std::filesystem::remove_all(directory_); }

  std::string path() const { return directory_ + "/a.crumbs"; }
  std::unique_ptr<BreadcrumbRing> Make() {
    Identity identity;
    identity.rank = 3;
    identity.world = 8;
    identity.pid = 4711;
    identity.host = "node042";
    auto ring = BreadcrumbRing::Create(path(), identity);
    EXPECT_TRUE(ring.ok()) << ring.status().message();
    return std::move(*ring);
  }
  std::string Bytes() const { return *ReadFile(Env::Posix(), path(), 1 << 20); }
  static Result<Breadcrumbs> Parse(const std::string& bytes) {
    return ReadBreadcrumbs(std::as_bytes(std::span(bytes)));
  }
  Breadcrumbs Read() const { return std::move(Parse(Bytes())).value(); }

  static std::vector<std::string> Names(const std::vector<const Crumb*>& crumbs) {
    std::vector<std::string> names;
    for (const Crumb* crumb : crumbs) names.push_back(crumb->name);
    return names;
  }

  std::string directory_;
};

TEST(CrumbWord, ComesBackAsItWas) {
  const CrumbWord largest{.step = CrumbWord::kNoStep,
                          .name = (1u << CrumbWord::kNameBits) - 1,
                          .thread = 255,
                          .lap = 255,
                          .ended = true};
  EXPECT_EQ(largest.Pack(), ~uint64_t{0});
  for (const CrumbWord& word : {CrumbWord{.step = 1},
                                {.step = 0, .name = 1},
                                {.step = 0, .thread = 1},
                                {.step = 0, .lap = 1},
                                {.step = 0, .ended = true},
                                {.step = 41232, .name = 7, .thread = 3, .lap = 200},
                                largest}) {
    const auto back = CrumbWord::Unpack(word.Pack());
    ASSERT_TRUE(back);
    EXPECT_EQ(back->step, word.step);
    EXPECT_EQ(back->name, word.name);
    EXPECT_EQ(back->thread, word.thread);
    EXPECT_EQ(back->lap, word.lap);
    EXPECT_EQ(back->ended, word.ended);
  }
  EXPECT_FALSE(CrumbWord::Unpack(0));
  EXPECT_FALSE(CrumbWord::Unpack(~uint64_t{0} >> 1));
}

TEST_F(BreadcrumbsTest, WhoLeftWhatInWhichStep) {
  const auto ring = Make();
  const uint64_t mm = ring->AddName("mm"), relu = ring->AddName("blocks.0/cpp_fused_relu_0");
  ring->Leave(mm, false);
  ring->SetStep(7);
  ring->Leave(mm, true);
  ring->Leave(relu, false);
  const Breadcrumbs found = Read();
  EXPECT_EQ(found.header.rank, 3);
  EXPECT_EQ(found.header.world, 8);
  EXPECT_EQ(found.header.pid, 4711);
  EXPECT_STREQ(found.header.host, "node042");
  EXPECT_FALSE(found.cut);
  EXPECT_EQ(found.unreadable, 0u);
  ASSERT_EQ(found.crumbs.size(), 3u);
  EXPECT_EQ(found.crumbs[0].name, "mm");
  EXPECT_FALSE(found.crumbs[0].ended);
  EXPECT_FALSE(found.crumbs[0].step);
  EXPECT_EQ(found.crumbs[1].step, 7u);
  EXPECT_TRUE(found.crumbs[1].ended);
  EXPECT_EQ(found.crumbs[2].name, "blocks.0/cpp_fused_relu_0");
  EXPECT_THAT(Names(found.Open()), ElementsAre("blocks.0/cpp_fused_relu_0"));
  EXPECT_EQ(found.LastEnded()->name, "mm");
  const auto now = static_cast<uint64_t>(Env::Posix()->WallNs());
  EXPECT_LE(found.crumbs[2].time_ns, now);
  EXPECT_GT(found.crumbs[2].time_ns, now - 60'000'000'000);
}

TEST_F(BreadcrumbsTest, AnEmptyRingHasNone) {
  const auto ring = Make();
  const Breadcrumbs found = Read();
  EXPECT_TRUE(found.crumbs.empty());
  EXPECT_TRUE(found.Open().empty());
  EXPECT_EQ(found.LastBegun(), nullptr);
}

TEST_F(BreadcrumbsTest, TheInnermostThatDidNotReturnIsOpen) {
  const auto ring = Make();
  const uint64_t outer = ring->AddName("outer"), inner = ring->AddName("inner");
  ring->Leave(outer, false);
  ring->Leave(inner, false);
  EXPECT_THAT(Names(Read().Open()), ElementsAre("inner"));
  ring->Leave(inner, true);
  EXPECT_THAT(Names(Read().Open()), ElementsAre("outer"));
  std::thread([&] { ring->Leave(inner, false); }).join();
  EXPECT_THAT(Names(Read().Open()), ElementsAre("inner", "outer"));  // the later one first
  ring->Leave(outer, true);
  EXPECT_THAT(Names(Read().Open()), ElementsAre("inner"));
}

TEST_F(BreadcrumbsTest, TheRingKeepsTheNewestInOrder) {
  const auto ring = Make();
  std::vector<uint64_t> names;
  for (int i = 0; i < 7; ++i) names.push_back(ring->AddName("k" + std::to_string(i)));
  const auto expect = [&](uint64_t left) {
    const Breadcrumbs found = Read();
    const uint64_t kept = std::min<uint64_t>(left, kCrumbEntries);
    ASSERT_EQ(found.crumbs.size(), kept) << left;
    for (uint64_t i = 0; i < kept; ++i)
      ASSERT_EQ(found.crumbs[i].name, "k" + std::to_string((left - kept + i) % 7)) << left;
  };
  uint64_t left = 0;
  // Around the ends of laps, and where the lap's number itself wraps.
  for (const uint64_t until :
       {uint64_t{1}, uint64_t{kCrumbEntries} - 1, uint64_t{kCrumbEntries},
        kCrumbEntries + uint64_t{1}, 3 * uint64_t{kCrumbEntries} + 5, 256 * uint64_t{kCrumbEntries},
        256 * uint64_t{kCrumbEntries} + 3, 257 * uint64_t{kCrumbEntries} + 1}) {
    for (; left < until; ++left) ring->Leave(names[left % 7], false);
    expect(left);
  }
}

TEST_F(BreadcrumbsTest, TheEndOfWhatTheRingLostIsNoMatter) {
  const auto ring = Make();
  const uint64_t lost = ring->AddName("lost"), kept = ring->AddName("kept");
  ring->Leave(lost, false);
  for (uint32_t i = 0; i < kCrumbEntries; ++i) ring->Leave(kept, i % 2 == 1);
  ring->Leave(lost, true);
  EXPECT_TRUE(Read().Open().empty());
}

TEST_F(BreadcrumbsTest, NamesThatFindNoRoomAreSaidToBe) {
  const auto ring = Make();
  EXPECT_EQ(ring->AddName(""), 0u);
  const std::string longer(kLongestCrumbName + 10, 'x');
  uint64_t last = 0, added = 0;
  while (const uint64_t name = ring->AddName(longer)) {
    last = name;
    ++added;
  }
  // 8 bytes stand for none, each name takes two of length and is padded to eight.
  EXPECT_EQ(added, (kCrumbNameBytes - 8) / ((kLongestCrumbName + 2 + 7) / 8 * 8));
  ring->Leave(last, false);
  ring->Leave(0, false);
  const Breadcrumbs found = Read();
  EXPECT_EQ(found.crumbs[0].name, longer.substr(0, kLongestCrumbName));
  EXPECT_THAT(found.crumbs[1].name, HasSubstr("no room"));
}

TEST_F(BreadcrumbsTest, CutAnywhereItTellsWhatIsLeft) {
  {
    const auto ring = Make();
    for (const char* name : {"one", "two", "three"}) ring->Leave(ring->AddName(name), false);
  }
  const std::string bytes = Bytes();
  ASSERT_EQ(bytes.size(), kCrumbFileBytes);
  const size_t names_end = kNames + 8 + 3 * 8;
  for (size_t size = 0; size <= bytes.size(); ++size) {
    const bool dense =
        size <= kFirstCrumb + 4 * 16 || (size >= kNames - 20 && size <= names_end + 20);
    if (!dense && size % 997 != 0 && size != bytes.size()) continue;
    const auto found = Parse(bytes.substr(0, size));
    ASSERT_EQ(found.ok(), size >= kCrumbHeaderBytes) << size;
    if (!found.ok()) continue;
    ASSERT_EQ(found->cut, size < bytes.size()) << size;
    const size_t crumbs = std::min<size_t>((size - kFirstCrumb) / 16, 3);
    ASSERT_EQ(found->crumbs.size(), crumbs) << size;
    const char* const names[] = {"one", "two", "three"};
    for (size_t i = 0; i < crumbs; ++i) {
      const bool readable = size >= kNames + 8 + 8 * i + 2 + std::strlen(names[i]);
      ASSERT_EQ(found->crumbs[i].name, readable ? names[i] : "(a name that is not readable)")
          << size;
    }
  }
}

// Killed between the two words of a crumb: the older crumb of that place, with another time.
TEST_F(BreadcrumbsTest, ATornCrumbIsTheOneBeforeIt) {
  {
    const auto ring = Make();
    const uint64_t name = ring->AddName("k");
    for (uint32_t i = 0; i < kCrumbEntries; ++i) ring->Leave(name, false);
  }
  std::string bytes = Bytes();
  const uint64_t later = ~uint64_t{0};
  std::memcpy(&bytes[kFirstCrumb], &later, sizeof later);
  const auto found = Parse(bytes);
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->crumbs.size(), kCrumbEntries);
  EXPECT_EQ(found->unreadable, 0u);
}

TEST_F(BreadcrumbsTest, ALapLongGoneIsLeftOut) {
  {
    const auto ring = Make();
    const uint64_t name = ring->AddName("k");
    for (int i = 0; i < 3; ++i) ring->Leave(name, false);
  }
  std::string bytes = Bytes();
  const uint64_t word = CrumbWord{.lap = 100}.Pack();
  std::memcpy(&bytes[kFirstCrumb + 16 + 8], &word, sizeof word);
  const auto found = Parse(bytes);
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->crumbs.size(), 2u);
  EXPECT_EQ(found->unreadable, 1u);
}

TEST_F(BreadcrumbsTest, EveryBitOfTheHeaderIsChecked) {
  { const auto ring = Make(); }
  const std::string bytes = Bytes();
  for (size_t bit = 0; bit < 8 * sizeof(CrumbHeader); ++bit) {
    std::string forged = bytes;
    forged[bit / 8] = static_cast<char>(forged[bit / 8] ^ (1 << bit % 8));
    EXPECT_FALSE(Parse(forged).ok()) << bit;
  }
}

TEST_F(BreadcrumbsTest, AForgedHeaderAllocatesNoMoreThanThereIs) {
  { const auto ring = Make(); }
  std::string bytes = Bytes();
  CrumbHeader header;
  std::memcpy(&header, bytes.data(), sizeof header);
  header.entries = header.names_bytes = ~uint32_t{0};
  header.checksum = XXH3_64bits(&header, offsetof(CrumbHeader, checksum));
  std::memcpy(bytes.data(), &header, sizeof header);
  const auto found = Parse(bytes);
  ASSERT_TRUE(found.ok());
  EXPECT_TRUE(found->cut);
}

// Each crumb has its name: a small file of many crumbs must not become a large answer.
TEST_F(BreadcrumbsTest, ANameLongerThanAnyThatIsWrittenIsNotTaken) {
  {
    const auto ring = Make();
    ring->Leave(ring->AddName(std::string(kLongestCrumbName + 1, 'a')), false);
  }
  std::string bytes = Bytes();
  EXPECT_EQ(Parse(bytes)->LastBegun()->name, std::string(kLongestCrumbName, 'a'));
  const uint16_t length = kLongestCrumbName + 1;
  std::memcpy(&bytes[kNames + 8], &length, sizeof length);
  EXPECT_EQ(Parse(bytes)->LastBegun()->name, "(a name that is not readable)");
}

TEST_F(BreadcrumbsTest, WhatIsInMemory) {
  EXPECT_TRUE(IsInMemory("/dev/shm"));
  EXPECT_FALSE(IsInMemory("/proc"));
  EXPECT_FALSE(IsInMemory(path()));  // not there
}

TEST_F(BreadcrumbsTest, NothingIsOverwritten) {
  const auto ring = Make();
  const auto second = BreadcrumbRing::Create(path(), {});
  EXPECT_FALSE(second.ok());
  EXPECT_THAT(second.status().message(), HasSubstr(path()));
  EXPECT_TRUE(Parse(Bytes()).ok());
}

class WhateverEndsTheProcess : public BreadcrumbsTest, public ::testing::WithParamInterface<int> {};

TEST_P(WhateverEndsTheProcess, TheLastBegunIsLeft) {
  const pid_t child = ::fork();
  if (child == 0) {
    const auto ring = Make();
    ring->Leave(ring->AddName("went well"), false);
    ring->Leave(1, true);
    ring->Leave(ring->AddName("crashes"), false);
    ::signal(GetParam(), SIG_DFL);
    ::raise(GetParam());
    ::_exit(1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), GetParam());
  EXPECT_THAT(Names(Read().Open()), ElementsAre("crashes"));
}

INSTANTIATE_TEST_SUITE_P(Signals, WhateverEndsTheProcess, ::testing::Values(SIGSEGV, SIGKILL));

}  // namespace
}  // namespace tdump::io
