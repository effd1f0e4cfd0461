// Name maps: how one framework's names, numbers of layers, fused projections and orders of
// dimensions become another's, so that two runs can be paired. Written in YAML (docs/compare.md,
// "Maps"); those of configs/maps are installed with tdump.
//
// A map knows two sides. The first one's names are those both sides are given: rules turn the
// second side's into them, and where the first side has variants of its own (GPT-2's names among
// Hugging Face's) rules `of:` the first side do. So fused projections are always taken apart, never
// built, and either run may be A.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "compare/tensor_part.h"
#include "core/key.h"
#include "core/status.h"
#include "core/types.h"
#include "io/records.h"

namespace tdump::compare {

// What a record is named, and where it was captured. `sizes`: as it lies on its rank.
struct NamedTensor {
  Key key;
  OperatorKind kind = OperatorKind::kModule;
  std::string cls;
  Shape sizes;
  uint32_t stage = 0;  // of the pipeline (axis pp)
};
NamedTensor NameOfRecord(const io::Record& record, uint32_t stage = 0);

// A tensor, or a part of one, under the name by which it is compared.
struct MappedPart {
  Key key;
  TensorPart part;
  // What its dimensions are called and how ranks share them (settings/dims.h), for the part as it
  // is captured: the first text that gives the other side's shape holds. Empty: the map does not
  // say.
  std::vector<std::string> dims;
  bool padded = false;  // what reaches beyond the other side's sizes is padding: dropped, and said
  bool skip = false;    // the map says that the other side has nothing like it: not paired, listed
  std::string note;     // "q of linear_qkv: 2 groups of 4 + 1 + 1 heads of 16"; "" for a mere name
};

struct MapData;   // compare/map_data.h
class MapBinder;  // compare/name_map.cc

// A map as it was read. Immutable, cheap to copy.
class NameMap {
 public:
  // On failure kInvalidArgument, one line a mistake: "FILE:LINE:COLUMN: what; expected ...; did you
  // mean 'x'?". No exception leaves; the input may be anything, at most 1 MiB.
  static Result<NameMap> Parse(std::string_view yaml, std::string_view source_name);

  const std::string& source() const;
  // Names of the sides, the one whose names are used first: {"hf", "megatron"}.
  std::vector<std::string> sides() const;
  // How many of `names` look like side `side`'s (0 or 1).
  size_t LooksLike(size_t side, std::span<const NamedTensor> names) const;
  const MapData& data() const { return *data_; }

 private:
  friend class MapBinder;
  explicit NameMap(std::shared_ptr<const MapData> data) : data_(std::move(data)) {}
  std::shared_ptr<const MapData> data_;
};

// A map applied to one of two runs. Thread-safe.
class MapSide {
 public:
  // Every part of the record, under the shared names; the record itself, unchanged, where no rule
  // is about it. Error, of this record alone: it cannot be taken apart as the map says.
  Result<std::vector<MappedPart>> Map(const NamedTensor& tensor) const;
  Result<std::vector<MappedPart>> Map(const io::Record& record, uint32_t stage = 0) const;
  // "megatron"
  const std::string& side() const;

 private:
  friend struct BoundMap;
  friend class MapBinder;
  struct State;
  std::shared_ptr<const State> state_;
};

// Which side of the map each run is, and what had to be learnt from the names and shapes of both.
struct BoundMap {
  MapSide a, b;
  // "A has hf names, B megatron names; a head is 128 long (q_layernorm)". Guesses say so.
  std::string text;
  bool guessed = false;  // the length of a head was not to be found and is assumed

  // `a` and `b`: what was captured on the ranks of one step, of a pipeline the ranks of every
  // stage. Error (kInvalidArgument): a run has none of the map's names; both have the same side's.
  static Result<BoundMap> Bind(const NameMap& map, std::span<const NamedTensor> a,
                               std::span<const NamedTensor> b);
};

// Maps that fit the names of two runs, for a comparison in which little or nothing was paired.
struct MapAdvice {
  std::string a, b;  // whose names they look like: "hf"; "" unknown
  std::string map;   // of those given, its source; "" none fits
  bool swapped = false;
};
MapAdvice AdviseMap(std::span<const NameMap> maps, std::span<const NamedTensor> a,
                    std::span<const NamedTensor> b);
// "B looks like megatron names: try --map hf-megatron"; "" when there is nothing to advise.
std::string AdviceText(const MapAdvice& advice);

}  // namespace tdump::compare
