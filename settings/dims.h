// Dims: what the dimensions of a tensor are called and how ranks share them, as users write it:
//
//   b s[cp:zigzag] h[tp]          three dimensions; s is split over the axis cp, h over tp
//   s[cp:zigzag,tp] b h           s over cp first, each part of it over tp
//   t[ep] h                       ranks hold as many tokens as their shapes say
//   t[cp:zigzag:packed=8+12+4] h  sequences of 8, 12 and 4 tokens, each split on its own
//   t[cp:packed=@cu_seqlens] h    of as many as the record of that name says, step by step
//   v=30522[tp] h                 v has 30522 rows; what the ranks hold beyond them is padding
//   (b=2 s[cp]) h                 b and s in one dimension, b being 2
//   s b h partial[tp]             every rank of tp holds a summand
//   i o partial[dp:mean]          the mean of what the ranks of dp hold
//   ... h[tp] replicated[dp]      any dimensions before h; ranks of dp hold equal copies
//
// Grammar (blanks separate, and are free elsewhere):
//
//   dims      = { dim | "..." | statement }
//   dim       = ( name [ "=" size ] | "(" name [ "=" size ] [ uses ] ... ")" ) [ uses ]
//   uses      = "[" use { "," use } "]"                     outermost split first
//   use       = axis { ":" qualifier }
//   qualifier = "contiguous" | "zigzag" | "striped" [ "=" block ] | "replicated"
//             | "partial" [ ":mean" ] | "sizes=" list | "packed=" list
//   statement = "partial" "[" axis [ ":mean" ] { "," axis [ ":mean" ] } "]"
//             | "replicated" "[" axis { "," axis } "]"
//   list      = number { "+" number } | "@" record
//   record    = name or key of a record (compare/record_numbers.h), up to a blank, ",", "]" or a
//   ":"
//             that no other follows; or anything between double quotes
//   name, axis = a letter or "_", then letters, digits, "_"; "_" alone names nothing
//
// contiguous  rank i of the axis holds the i-th piece, as long as its shape says
// zigzag      2n pieces for n ranks; rank i holds pieces i and 2n-1-i
// striped     rank i holds every n-th block (1 unit, or as given), from the i-th on
// sizes       how many units of each rank count, from its first on; the rest is padding
// packed      lengths of the sequences in the dimension, each split on its own
// A record may hold lengths as well as where they begin and the last one ends: 0, 8, 20, 24. That
// of sizes may have several numbers for each rank, in order: of its experts.
// Axes that are not named hold equal copies, but for `pp` (compare/unshard.h). A rule of the
// capture and tdump-diff both read it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/status.h"

namespace tdump {

enum class Split : uint8_t { kContiguous, kZigzag, kStriped };

// Numbers, or the name of a record that holds them.
struct NumberList {
  std::vector<uint64_t> numbers;
  std::string record;
  bool empty() const { return numbers.empty() && record.empty(); }
  bool operator==(const NumberList&) const = default;
};

// An axis that shares a dimension.
struct AxisUse {
  std::string axis;
  Split split = Split::kContiguous;
  uint64_t block = 1;  // of kStriped
  NumberList sizes, packed;
  bool operator==(const AxisUse&) const = default;
};

struct NamedDim {
  std::string name;
  std::optional<uint64_t> size;  // of the whole tensor
  std::vector<AxisUse> axes;     // outermost split first
  bool operator==(const NamedDim&) const = default;
};

// One dimension of the tensor: a name, or several fused into one, slowest first. `axes` split the
// fused whole; a single name has its own.
struct TensorDim {
  std::vector<NamedDim> parts;
  std::vector<AxisUse> axes;
  bool is_fused() const { return parts.size() > 1; }
  bool operator==(const TensorDim&) const = default;
};

struct Dims {
  std::vector<TensorDim> dims;
  std::optional<size_t> ellipsis;  // any number of unnamed dimensions stands before dims[*]
  std::vector<std::string> partial, replicated;  // axes
  std::vector<std::string> mean;  // those of `partial` of which the mean counts, not the sum

  // Error (kInvalidArgument): the text, the column, and what was expected there.
  static Result<Dims> Parse(std::string_view text);
  // Parse(ToText()) gives the same again.
  std::string ToText() const;

  // The ellipsis replaced by unnamed dimensions. Error: another number of dimensions than `rank`.
  Result<Dims> Expanded(size_t rank) const;
  // Axes that split a dimension, in order of appearance.
  std::vector<std::string> SplitAxes() const;
  bool Mentions(std::string_view axis) const;
  bool IsMean(std::string_view axis) const;
  // Names that lists give, each once.
  std::set<std::string> Records() const;

  bool operator==(const Dims&) const = default;
};

// Sizes of dimensions by name (lists of one), and what records hold by "@" and the name in dims.
using SizeTable = std::map<std::string, std::vector<uint64_t>, std::less<>>;

}  // namespace tdump
