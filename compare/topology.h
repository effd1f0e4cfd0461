// Topology: the parallel layout of a job: named axes (dp, tp, pp, cp, ep, ...) and every rank's
// place on them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/status.h"

namespace tdump::compare {

using Coordinates = std::map<std::string, uint32_t, std::less<>>;
// "dp=3 tp=1 pp=2", in any order. Error: what is wrong with it.
Result<Coordinates> ParseCoordinates(std::string_view text);
std::string ToText(const Coordinates& at);  // "dp 3, tp 1"

struct Axis {
  std::string name;
  uint32_t size = 1;
  bool operator==(const Axis&) const = default;
};

// Immutable. A rank without a place (it never started, or its manifest does not say) has none.
class Topology {
 public:
  Topology() = default;
  // `axes`: fastest first: rank = c0 + size0 * (c1 + size1 * (c2 + ...)). Error: the product of the
  // sizes is not `world`, a name appears twice.
  static Result<Topology> Regular(std::vector<Axis> axes, int32_t world);
  // "tp=4,cp=2,dp=2", fastest first; blanks do as well as commas.
  static Result<Topology> Parse(std::string_view text, int32_t world);
  // One place for each rank, as manifests say; an empty text: unknown. Error: a text that says
  // nothing, or ranks that name different axes.
  static Result<Topology> OfRanks(const std::vector<std::string>& coordinates);
  // Nothing is known but the number of ranks: one axis "rank".
  static Topology Unknown(int32_t world);

  const std::vector<Axis>& axes() const { return axes_; }
  bool is_unknown() const { return unknown_; }
  int32_t world() const { return static_cast<int32_t>(has_place_.size()); }
  // Index into axes().
  std::optional<size_t> Find(std::string_view axis) const;

  bool HasPlace(int32_t rank) const;
  // Preconditions: HasPlace(rank), an index into axes().
  uint32_t PlaceOn(size_t axis, int32_t rank) const;
  // Empty for a rank without a place.
  Coordinates Of(int32_t rank) const;
  // Ranks at these places on some axes, ascending.
  std::vector<int32_t> RanksAt(const Coordinates& some) const;

  // The places of these ranks, numbered as if there were no others. None where that leaves gaps, or
  // one has no place.
  std::optional<Topology> Among(const std::vector<int32_t>& ranks) const;
  // Of an unknown topology: its axis under this name. Others: as it is.
  Topology WithName(std::string_view axis) const;
  std::string ToText() const;  // "tp=4 dp=2"

 private:
  Status CheckSizes() const;
  void Resize(size_t world);

  std::vector<Axis> axes_;
  std::vector<uint32_t> places_;  // rank by rank, one for each axis
  std::vector<bool> has_place_;   // by rank
  bool unknown_ = false;
};

// The number of a layer in the whole model, from its number in one of the `chunks` of a stage of a
// pipeline of `stages`, each chunk holding `layers` (Narayanan et al., Efficient Large-Scale
// Language Model Training on GPU Clusters, 2.2: chunk c of stage s is the (c * stages + s)-th).
uint64_t GlobalLayer(uint64_t local, uint32_t stage, uint32_t stages, uint32_t chunk,
                     uint64_t layers);

}  // namespace tdump::compare
