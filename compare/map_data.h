// What a name map says, as read from YAML. Shared by its reader and by what applies it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compare/tensor_part.h"
#include "core/status.h"
#include "core/types.h"
#include "settings/mistakes.h"
#include "settings/regex.h"

namespace tdump::compare {

inline constexpr size_t kMaxNameBytes = 4096;  // of a name that a rule makes

// "model.layers.$1.mlp": text with groups of a match: $1, ${1}, ${name}; $$ is a dollar sign.
class Replacement {
 public:
  // Error: a group that the pattern does not have; what is wrong with the text.
  static Result<Replacement> Parse(std::string_view text, const settings::Regex& pattern);
  std::string Expand(const std::vector<std::string_view>& groups) const;
  const std::string& text() const { return text_; }

 private:
  struct Piece {
    std::string text;
    size_t group = 0;  // 0: the text
  };
  std::string text_;
  std::vector<Piece> pieces_;
};

struct MapPart {
  std::string label;  // "q", "gate"; "" where only one name is given
  Replacement to;
};

struct MapRule {
  settings::Position at;
  size_t side = 1;
  std::optional<settings::Regex> name;  // whole components
  std::vector<MapPart> to;              // none: skip
  Fusion fusion = Fusion::kNone;
  std::optional<int64_t> axis;        // of the fusion; negative: from the last on
  std::optional<Replacement> q_like;  // whose inputs are as long as q
  std::vector<Role> roles;            // none: all
  std::optional<settings::Regex> arg, cls, when;
  std::optional<std::string> to_arg;
  std::optional<Role> to_role;
  std::map<Role, std::vector<std::string>> dims;
  bool padded = false;
  bool skip = false;

  bool IsFor(Role role) const;
  // Of the role itself, or of the values it is the gradient of.
  const std::vector<std::string>& DimsOf(Role role) const;
};

// How numbers of layers become those of the whole model.
struct LayerRule {
  settings::Position at;
  size_t side = 1;
  std::optional<settings::Regex> name;  // its first group is the number
  int64_t offset = 0;
  std::vector<int64_t> stages;  // offset by stage of the pipeline
  bool from_names = false;      // stages: auto: by what every stage was seen to have
  struct Interleave {
    uint64_t layers = 0, chunks = 0, stages = 0;
  };
  std::optional<Interleave> interleave;
  struct Range {
    int64_t first, last, to;
  };
  std::vector<Range> ranges;
};

struct SideRule {
  std::string name;
  std::vector<settings::Regex> looks_like;
  std::optional<settings::Regex> strip;  // of the beginning of a name
  std::vector<std::string> activations;  // dims of what has no other
};

struct HeadRule {
  uint64_t heads = 0, kv_heads = 0, head_dim = 0;  // 0: from shapes
  std::vector<settings::Regex> head_dim_from;      // names whose last dimension is a head's
};

struct MapData {
  std::string source, about;
  std::vector<SideRule> sides;  // two
  HeadRule heads;
  std::vector<LayerRule> layers;
  std::vector<MapRule> rules;
};

// A pattern that is found at whole components of a dotted name only. Error: of the pattern as
// written.
Result<settings::Regex> CompileComponents(std::string_view pattern);

// The role whose layout a gradient shares: kParamGrad -> kParam, kGradInput -> kInput.
Role ValueRole(Role role);

}  // namespace tdump::compare
