#include "tools/map_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "tests/tools/scratch.h"

namespace tdump::tools {
namespace {

using MapSource = test::ScratchTest;

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

TEST_F(MapSource, InstalledMapsAreFoundByNameBesideTheProgram) {
  std::vector<std::string> names;
  for (const compare::NameMap& map : ShippedMaps()) names.push_back(map.source());
  EXPECT_THAT(names, ElementsAre("hf-megatron", "hf-sglang", "hf-transformer_engine", "hf-vllm"));
  const auto map = LoadMap("hf-vllm");
  ASSERT_TRUE(map.ok()) << map.status().message();
  EXPECT_EQ(map->second, "hf-vllm");
  EXPECT_THAT(map->first, HasSubstr("qkv_proj"));
}

TEST_F(MapSource, AnUnknownNameIsToldWhatThereIs) {
  EXPECT_EQ(LoadMap("hf-megatrn").status().message(),
            "no map 'hf-megatrn'; a file, or one of hf-megatron, hf-sglang, hf-transformer_engine, "
            "hf-vllm; did you mean 'hf-megatron'?");
  EXPECT_THAT(LoadMap("mine.yaml").status().message(),
              StartsWith("the map: cannot open 'mine.yaml': No such file"));
  EXPECT_THAT(LoadMap("/").status().message(), StartsWith("the map: cannot open '/': "));
  // A pipe without a writer is not waited for.
  ASSERT_EQ(::mkfifo(Path("pipe").c_str(), 0600), 0);
  EXPECT_THAT(LoadMap(Path("pipe")).status().message(), StartsWith("the map: cannot open"));
}

TEST_F(MapSource, AFileIsReadUpToABound) {
  const std::string path = Path("m");
  std::ofstream(path) << "rules: []\n";
  const auto map = LoadMap(path);
  ASSERT_TRUE(map.ok()) << map.status().message();
  EXPECT_EQ(map->first, "rules: []\n");
  EXPECT_EQ(map->second, path);
  std::ofstream(path) << std::string(3 << 20, ' ');
  EXPECT_THAT(LoadMap(path).status().message(), HasSubstr("more than the 1048576 that are read"));
}

}  // namespace
}  // namespace tdump::tools
