// A map applied to one side of a comparison: how its names are turned, and what of the names and
// shapes of both runs that takes. Private to compare's maps.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "compare/map_data.h"
#include "compare/name_map.h"

namespace tdump::compare {

// Shapes by shared name, role and argument; of several ranks the first one's.
class ShapeIndex {
 public:
  struct Entry {
    Shape shape;
    std::string dims;  // that the map gives it; "" none
  };
  void Add(const Key& key, Entry entry) { entries_.try_emplace(TextOf(key), std::move(entry)); }
  const Entry* Find(const std::string& name, Role role, const std::string& arg) const;

 private:
  static std::string TextOf(const Key& key);
  std::unordered_map<std::string, Entry> entries_;
};

// Offset of the layers of a chunk on a stage: learnt from the numbers that every stage has.
struct StageLayers {
  // (chunk, stage) -> number of layers; in the order in which a pipeline runs them.
  std::map<std::pair<uint32_t, uint32_t>, uint64_t> counts;
  bool global = false;  // the numbers are those of the whole model already
  void See(uint32_t chunk, uint32_t stage, uint64_t layer);
  uint64_t OffsetOf(uint32_t chunk, uint32_t stage) const;
};

struct MapSide::State {
  std::shared_ptr<const MapData> map;
  size_t side = 0;
  std::vector<const MapRule*> rules;
  std::vector<const LayerRule*> layers;
  LayerRule stages_only;            // of a pipeline, where the map has no rule for layers
  std::vector<StageLayers> stages;  // of `layers`
  ShapeIndex own, other;
  uint64_t head_dim = 0;

  // What a rule makes of a name.
  struct Turned {
    const MapRule* rule = nullptr;   // none is about it
    std::vector<std::string> names;  // of the rule's `to`, or the one name as it stays
    std::string q_like;              // name whose inputs are as long as q
    std::string old_name;            // without what is stripped, layers renumbered
    uint32_t chunk = 0;
    bool drop_root = false;  // the root only told the chunk
  };
  Result<Turned> Turn(const NamedTensor& tensor) const;
  // Number and place of the layer that `rule` finds in a name; false: none.
  bool FindLayer(const LayerRule& rule, const std::string& name, size_t* begin, size_t* length,
                 uint64_t* layer) const;

  Result<std::vector<MappedPart>> Map(const NamedTensor& tensor) const;
  Key KeyFor(const NamedTensor& tensor, const Turned& turned, const std::string& name) const;
  std::vector<std::string> DimsFor(const MapRule* rule, Role role, size_t rank) const;
  size_t AxisOf(const MapRule& rule, Role role, size_t rank) const;
  // Of one rank's share. Error: they cannot be known.
  Result<QkvLengths> LengthsOf(const Turned& turned, const NamedTensor& tensor, size_t axis) const;

 private:
  Result<Turned> TurnNew(const NamedTensor& tensor) const;
  Status Renumber(const NamedTensor& tensor, Turned* turned) const;
  uint64_t OwnLengthOfQ(const std::string& q_like) const;
  bool WholeLengths(const Turned& turned, const NamedTensor& tensor, uint64_t* q,
                    uint64_t* kv) const;

  mutable std::mutex known_mutex_;
  mutable std::unordered_map<std::string, Result<Turned>> known_;  // what names were turned into
};

// Roots of model chunks are numbered in order of construction: "GPTModel#1" is chunk 1.
uint32_t ChunkOf(const Key& key);
// "path", or "path.arg" of parameters: what rules look at.
std::string RuleName(const Key& key);
// The other way: into path and argument of `key`.
void SetRuleName(const std::string& name, Key* key);
// "decoder.layers.0.core_attention@input#0", without calls and the like.
std::string NameRoleArg(const std::string& name, const Key& key);

// The shares of one of t ranks of q and kv units in all; kv heads may be kept by several ranks.
// False: no number of ranks gives shares of `total`.
bool ShareOf(uint64_t total, uint64_t q, uint64_t kv, uint64_t head, QkvLengths* out);

}  // namespace tdump::compare
