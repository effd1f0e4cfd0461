// Every axis, qualifier and their products against shards that NumPy made: layout_cases.txt, by
// make_layout_cases.py.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <numeric>
#include <sstream>

#include "compare/dtensor.h"
#include "compare/unshard.h"
#include "tests/compare/sources.h"

namespace tdump::compare {
namespace {

std::vector<std::string> Fields(const std::string& text, char separator) {
  std::vector<std::string> fields;
  std::istringstream stream(text);
  for (std::string field; std::getline(stream, field, separator);) fields.push_back(field);
  return fields;
}

Shape ShapeOf(const std::string& text) {
  Shape shape;
  std::istringstream stream(text);
  for (uint64_t size = 0; stream >> size;) shape.push_back(size);
  return shape;
}

// "4+3 9+2*5" -> 4 5 6 9 14.
std::vector<int64_t> Elements(const std::string& text) {
  std::vector<int64_t> elements;
  std::istringstream stream(text);
  for (std::string run; stream >> run;) {
    const size_t plus = run.find('+'), times = run.find('*');
    const int64_t first = std::stoll(run.substr(0, plus));
    const int64_t count = plus == std::string::npos ? 1 : std::stoll(run.substr(plus + 1));
    const int64_t step = times == std::string::npos ? 1 : std::stoll(run.substr(times + 1));
    for (int64_t i = 0; i < count; ++i) elements.push_back(first + i * step);
  }
  return elements;
}

SizeTable TablesOf(const std::string& text) {
  SizeTable tables;
  for (const std::string& item : Fields(text, ' ')) {
    const size_t equals = item.find('=');
    for (const std::string& number : Fields(item.substr(equals + 1), '+'))
      tables[item.substr(0, equals)].push_back(std::stoull(number));
  }
  return tables;
}

template <class T>
Source Typed(const std::string& dtype, const Shape& shape, const std::vector<int64_t>& elements) {
  return MakeSource<T>(dtype, shape, std::vector<T>(elements.begin(), elements.end()));
}

Source SourceOfType(const std::string& dtype, const Shape& shape,
                    const std::vector<int64_t>& elements) {
  if (dtype == "int16") return Typed<int16_t>(dtype, shape, elements);
  if (dtype == "int32") return Typed<int32_t>(dtype, shape, elements);
  if (dtype == "float32") return Typed<float>(dtype, shape, elements);
  if (dtype == "float64") return Typed<double>(dtype, shape, elements);
  return Typed<int64_t>(dtype, shape, elements);
}

struct Case {
  std::string topology, dims;
  SizeTable tables;
  Shape whole;
  size_t copies = 1;
  std::vector<Shard> shards;
  std::vector<Source> sources;
};

Case Parse(const std::string& line) {
  const std::vector<std::string> fields = Fields(line, '|');
  Case made{.topology = fields[0], .dims = fields[1], .tables = TablesOf(fields[2])};
  made.whole = ShapeOf(fields[4]);
  made.copies = std::stoull(fields[5]);
  for (size_t i = 6; i < fields.size(); ++i) {
    const std::vector<std::string> shard = Fields(fields[i] + ":", ':');
    const Source source =
        SourceOfType(fields[3], ShapeOf(shard[1]), Elements(shard.size() > 2 ? shard[2] : ""));
    made.shards.push_back({std::stoi(shard[0]), source->dtype(), source->shape()});
    made.sources.push_back(source);
  }
  return made;
}

// Reads `step` units at a time; the whole counts 0, 1, 2, ...
bool Counts(TensorSource& whole, uint64_t step) {
  std::vector<int64_t> right(whole.units());
  std::iota(right.begin(), right.end(), int64_t{0});
  const Source counting = SourceOfType(std::string(whole.dtype().view()), whole.shape(), right);
  const uint64_t unit_bytes = whole.dtype().unit_bytes();
  for (uint64_t first = 0; first < whole.units(); first += step) {
    std::vector<std::byte> bytes(std::min(step, whole.units() - first) * unit_bytes);
    std::vector<std::byte> expected(bytes.size());
    if (!whole.Read(first, bytes).ok() || !counting->Read(first, expected).ok()) return false;
    if (bytes != expected) return false;
  }
  return true;
}

// Of a line that torch wrote: its mesh and placements.
void ReadDTensor(const Case& made, Topology* topology, Dims* dims) {
  const auto mesh = ParseMesh(made.topology, static_cast<int32_t>(made.shards.size()));
  ASSERT_TRUE(mesh.ok()) << mesh.status().message();
  const auto read = DimsOfPlacements(made.dims, mesh->axes, {made.whole.begin(), made.whole.end()});
  ASSERT_TRUE(read.ok()) << read.status().message();
  *topology = mesh->topology;
  *dims = *read;
}

void ReadText(const Case& made, Topology* topology, Dims* dims) {
  const auto read = Topology::Parse(made.topology, static_cast<int32_t>(made.shards.size()));
  ASSERT_TRUE(read.ok()) << read.status().message();
  const auto text = Dims::Parse(made.dims);
  ASSERT_TRUE(text.ok()) << text.status().message();
  *topology = *read;
  *dims = *text;
}

void Check(const Case& made) {
  Topology topology;
  Dims dims;
  made.topology.starts_with("DeviceMesh") ? ReadDTensor(made, &topology, &dims)
                                          : ReadText(made, &topology, &dims);
  if (testing::Test::HasFailure()) return;
  const auto plan = PlanUnshard(made.shards, dims, topology, made.tables);
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  EXPECT_EQ(plan->shape, made.whole);
  const auto whole =
      OpenPlan(*plan, [&](size_t shard) { return Result<Source>(made.sources[shard]); });
  ASSERT_TRUE(whole.ok()) << whole.status().message();
  EXPECT_TRUE(Counts(**whole, 5));
  EXPECT_TRUE(Counts(**whole, 1 << 20));
  size_t copied = 0;
  for (const ReplicaGroup& group : plan->replicas) copied += 1 + group.others.size();
  EXPECT_EQ(copied, made.copies > 1 ? made.shards.size() : 0);
}

// Another file: LAYOUT_CASES in the environment (tests/e2e/test_dtensor_layouts.py).
TEST(LayoutCases, AllShardsComeTogetherAsTheyWere) {
  const char* other = std::getenv("LAYOUT_CASES");
  std::ifstream file(other != nullptr ? other : TDUMP_LAYOUT_CASES);
  size_t cases = 0;
  for (std::string line; std::getline(file, line);) {
    Case made = Parse(line);
    SCOPED_TRACE("line " + std::to_string(++cases) + ": " + made.topology + " | " + made.dims);
    Check(made);
    // In whatever order the ranks come.
    std::reverse(made.shards.begin(), made.shards.end());
    std::reverse(made.sources.begin(), made.sources.end());
    Check(made);
    if (testing::Test::HasFailure()) break;
  }
  EXPECT_GE(cases, other != nullptr ? 1u : 500u);
  std::cout << cases << " cases\n";
}

}  // namespace
}  // namespace tdump::compare
