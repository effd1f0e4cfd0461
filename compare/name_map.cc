#include "compare/name_map.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <set>

#include "compare/map_reader.h"
#include "compare/map_state.h"

namespace tdump::compare {
namespace {

using settings::Regex;

constexpr const char* kRunNames[] = {"A", "B"};

// Lengths of heads by how common they are.
constexpr uint64_t kUsualHeads[] = {128, 64, 256, 96, 80, 192, 112, 160, 32, 16, 8, 4, 2, 1};

bool AnyMatches(const std::vector<Regex>& patterns, const std::string& name) {
  return std::any_of(patterns.begin(), patterns.end(), [&](const Regex& pattern) {
    return pattern.Search(name) == Regex::Match::kYes;
  });
}

// Names without calls and the like, and classes, each once: a run repeats them thousands of times.
struct Seen {
  std::set<std::string> names, classes;
  explicit Seen(std::span<const NamedTensor> tensors) {
    for (const NamedTensor& tensor : tensors) {
      names.insert(RuleName(tensor.key));
      if (!tensor.cls.empty()) classes.insert(tensor.cls);
    }
  }
};

// Whether rules of the side are about the name.
bool HasRuleFor(const MapData& map, size_t side, const std::string& name) {
  const auto is_about = [&](const auto& rule) {
    return rule.side == side && rule.name->Search(name) == Regex::Match::kYes;
  };
  return std::any_of(map.rules.begin(), map.rules.end(), is_about) ||
         std::any_of(map.layers.begin(), map.layers.end(), is_about);
}

size_t CountLike(const MapData& map, size_t side, const Seen& seen) {
  const std::vector<Regex>& like = map.sides[side].looks_like;
  if (like.empty()) {
    return static_cast<size_t>(
        std::count_if(seen.names.begin(), seen.names.end(),
                      [&](const std::string& name) { return HasRuleFor(map, side, name); }));
  }
  size_t count = 0;
  for (const auto* texts : {&seen.names, &seen.classes}) {
    for (const std::string& text : *texts) count += AnyMatches(like, text) ? 1 : 0;
  }
  return count;
}

std::string SomeNames(const std::set<std::string>& names) {
  std::vector<std::string> some;
  for (const std::string& name : names) {
    if (some.size() == 3) break;
    some.push_back(settings::Printable(name));
  }
  return fmt::format("{}{}", fmt::join(some, ", "), names.size() > some.size() ? ", ..." : "");
}

}  // namespace

NamedTensor NameOfRecord(const io::Record& record, uint32_t stage) {
  NamedTensor tensor{record.key, record.kind, record.cls, {}, stage};
  for (const int64_t size : record.sizes) tensor.sizes.push_back(static_cast<uint64_t>(size));
  return tensor;
}

Result<NameMap> NameMap::Parse(std::string_view yaml, std::string_view source_name) {
  TDUMP_ASSIGN_OR_RETURN(MapData data, ReadMapData(yaml, source_name));
  return NameMap(std::make_shared<const MapData>(std::move(data)));
}

const std::string& NameMap::source() const { return data_->source; }

std::vector<std::string> NameMap::sides() const {
  return {data_->sides[0].name, data_->sides[1].name};
}

size_t NameMap::LooksLike(size_t side, std::span<const NamedTensor> names) const {
  return CountLike(*data_, side, Seen(names));
}

Result<std::vector<MappedPart>> MapSide::Map(const NamedTensor& tensor) const {
  return state_->Map(tensor);
}

Result<std::vector<MappedPart>> MapSide::Map(const io::Record& record, uint32_t stage) const {
  return state_->Map(NameOfRecord(record, stage));
}

const std::string& MapSide::side() const { return state_->map->sides[state_->side].name; }

// Learns from the names and shapes of both runs what the map leaves open.
class MapBinder {
 public:
  MapBinder(const NameMap& map, std::span<const NamedTensor> a, std::span<const NamedTensor> b)
      : map_(map.data_), tensors_{a, b}, seen_{Seen(a), Seen(b)} {}

  Result<BoundMap> Bind() {
    TDUMP_RETURN_IF_ERROR(FindDirection());
    for (size_t run = 0; run < 2; ++run) Prepare(run);
    for (size_t run = 0; run < 2; ++run) IndexShapes(run);
    states_[0]->other = states_[1]->own;
    states_[1]->other = states_[0]->own;
    FindHeadDim();
    BoundMap bound;
    bound.a.state_ = states_[0];
    bound.b.state_ = states_[1];
    bound.text = fmt::format("A has {} names, B {} names{}", bound.a.side(), bound.b.side(), how_);
    bound.guessed = guessed_;
    return bound;
  }

 private:
  Status FindDirection() {
    size_t like[2][2];  // run, side
    for (size_t run = 0; run < 2; ++run) {
      for (size_t side = 0; side < 2; ++side) like[run][side] = CountLike(*map_, side, seen_[run]);
    }
    const bool swapped = like[0][1] + like[1][0] > like[0][0] + like[1][1];
    side_[0] = swapped ? 1 : 0;
    side_[1] = swapped ? 0 : 1;
    for (size_t run = 0; run < 2; ++run) {
      const size_t side = side_[run], opposite = 1 - side;
      const std::string& wanted = map_->sides[side].name;
      const bool named = !map_->sides[opposite].looks_like.empty();
      if (named && like[run][opposite] > like[run][side] && like[1 - run][opposite] > 0) {
        return InvalidArgument(
            fmt::format("{}: A and B both have {} names: they pair without a map", map_->source,
                        map_->sides[opposite].name));
      }
      const bool can_tell = !map_->sides[side].looks_like.empty() || (side == 1 && HasRules(1));
      if (like[run][side] == 0 && can_tell && !seen_[run].names.empty()) {
        return InvalidArgument(fmt::format("{}: {} has no {} names; it has {}", map_->source,
                                           kRunNames[run], wanted, SomeNames(seen_[run].names)));
      }
    }
    return {};
  }

  bool HasRules(size_t side) const {
    const auto is_of = [&](const auto& rule) { return rule.side == side; };
    return std::any_of(map_->rules.begin(), map_->rules.end(), is_of) ||
           std::any_of(map_->layers.begin(), map_->layers.end(), is_of);
  }

  void Prepare(size_t run) {
    auto state = std::make_shared<MapSide::State>();
    state->map = map_;
    state->side = side_[run];
    for (const MapRule& rule : map_->rules) {
      if (rule.side != side_[run] || !HasSuch(rule)) continue;
      state->rules.push_back(&rule);
    }
    for (const LayerRule& rule : map_->layers) {
      if (rule.side == side_[run]) state->layers.push_back(&rule);
    }
    if (state->layers.empty() && HasStages(run)) {
      state->stages_only.name = std::move(*CompileComponents("(\\d+)"));
      state->stages_only.from_names = true;
      state->layers.push_back(&state->stages_only);
    }
    state->stages.resize(state->layers.size());
    for (size_t i = 0; i < state->layers.size(); ++i) {
      if (state->layers[i]->from_names) CountLayers(run, i, state.get());
    }
    states_[run] = std::move(state);
  }

  bool HasStages(size_t run) const {
    return std::any_of(tensors_[run].begin(), tensors_[run].end(),
                       [](const NamedTensor& tensor) { return tensor.stage > 0; });
  }

  // Whether the rule's `when` holds: some name or class of either run is like it.
  bool HasSuch(const MapRule& rule) const {
    if (!rule.when) return true;
    return std::any_of(seen_.begin(), seen_.end(), [&](const Seen& seen) {
      const auto is_such = [&](const std::string& text) {
        return rule.when->Search(text) == Regex::Match::kYes;
      };
      return std::any_of(seen.names.begin(), seen.names.end(), is_such) ||
             std::any_of(seen.classes.begin(), seen.classes.end(), is_such);
    });
  }

  void CountLayers(size_t run, size_t index, MapSide::State* state) {
    StageLayers& stages = state->stages[index];
    std::map<uint32_t, uint64_t> least;  // of each stage
    for (const NamedTensor& tensor : tensors_[run]) {
      size_t begin = 0, length = 0;
      uint64_t layer = 0;
      if (!state->FindLayer(*state->layers[index], RuleName(tensor.key), &begin, &length, &layer))
        continue;
      stages.See(ChunkOf(tensor.key), tensor.stage, layer);
      const auto [first, added] = least.try_emplace(tensor.stage, layer);
      if (!added) first->second = std::min(first->second, layer);
    }
    stages.global = std::any_of(least.begin(), least.end(), [](const auto& stage) {
      return stage.first > 0 && stage.second > 0;
    });
  }

  void IndexShapes(size_t run) {
    MapSide::State& state = *states_[run];
    for (const NamedTensor& tensor : tensors_[run]) {
      const auto turned = state.Turn(tensor);
      if (!turned.ok()) continue;  // told where the record is mapped
      if (turned->rule != nullptr && (turned->rule->skip || turned->names.size() > 1)) continue;
      const auto dims = state.DimsFor(turned->rule, tensor.key.role, tensor.sizes.size());
      Key key = state.KeyFor(tensor, *turned, turned->names[0]);
      state.own.Add(key, {tensor.sizes, dims.empty() ? "" : dims[0]});
    }
  }

  void FindHeadDim() {
    const HeadRule& heads = map_->heads;
    uint64_t head_dim = heads.head_dim;
    if (head_dim == 0 && !FindNamedHeadDim(&head_dim) && NeedsHeadDim()) GuessHeadDim(&head_dim);
    for (auto& state : states_) state->head_dim = head_dim;
  }

  bool FindNamedHeadDim(uint64_t* head_dim) {
    for (const Regex& pattern : map_->heads.head_dim_from) {
      for (size_t run = 0; run < 2; ++run) {
        for (const NamedTensor& tensor : tensors_[run]) {
          if (tensor.sizes.empty()) continue;
          const std::string name = NameRoleArg(RuleName(tensor.key), tensor.key);
          if (pattern.Search(name) != Regex::Match::kYes) continue;
          *head_dim = tensor.sizes.back();
          how_ = fmt::format("; a head is {} long, as {} of {}", *head_dim, name, kRunNames[run]);
          return *head_dim != 0;
        }
      }
    }
    return false;
  }

  bool NeedsHeadDim() const {
    return std::any_of(map_->rules.begin(), map_->rules.end(),
                       [](const MapRule& rule) { return rule.fusion == Fusion::kQkvGroups; });
  }

  // The most usual length that divides what there is.
  void GuessHeadDim(uint64_t* head_dim) {
    for (size_t run = 0; run < 2; ++run) {
      const MapSide::State& state = *states_[run];
      for (const NamedTensor& tensor : tensors_[run]) {
        const auto turned = state.Turn(tensor);
        if (!turned.ok() || turned->rule == nullptr || turned->rule->fusion != Fusion::kQkvGroups ||
            tensor.key.role == Role::kInput)
          continue;
        const size_t axis = state.AxisOf(*turned->rule, tensor.key.role, tensor.sizes.size());
        const auto lengths = state.LengthsOf(*turned, tensor, axis);
        if (!lengths.ok()) continue;
        const auto usual = std::find_if(
            std::begin(kUsualHeads), std::end(kUsualHeads),
            [&](uint64_t head) { return lengths->kv % head == 0 && lengths->q % head == 0; });
        *head_dim = *usual;
        guessed_ = true;
        how_ = fmt::format(
            "; a head is taken to be {} long: say heads: {{head_dim: ...}} in the map", *head_dim);
        return;
      }
    }
  }

  std::shared_ptr<const MapData> map_;
  std::span<const NamedTensor> tensors_[2];
  std::array<Seen, 2> seen_;
  size_t side_[2] = {0, 1};
  std::shared_ptr<MapSide::State> states_[2];
  std::string how_;
  bool guessed_ = false;
};

Result<BoundMap> BoundMap::Bind(const NameMap& map, std::span<const NamedTensor> a,
                                std::span<const NamedTensor> b) {
  return MapBinder(map, a, b).Bind();
}

MapAdvice AdviseMap(std::span<const NameMap> maps, std::span<const NamedTensor> a,
                    std::span<const NamedTensor> b) {
  const Seen seen[2] = {Seen(a), Seen(b)};
  MapAdvice advice;
  size_t best[2] = {0, 0}, best_both = 0;
  std::string* whose[2] = {&advice.a, &advice.b};
  for (const NameMap& map : maps) {
    size_t like[2][2];
    for (size_t run = 0; run < 2; ++run) {
      for (size_t side = 0; side < 2; ++side) {
        like[run][side] = CountLike(map.data(), side, seen[run]);
        if (like[run][side] <= best[run]) continue;
        best[run] = like[run][side];
        *whose[run] = map.sides()[side];
      }
    }
    for (const bool swapped : {false, true}) {
      const size_t first = like[0][swapped ? 1 : 0], second = like[1][swapped ? 0 : 1];
      if (first == 0 || second == 0 || first + second <= best_both) continue;
      best_both = first + second;
      advice.map = map.source();
      advice.swapped = swapped;
    }
  }
  if (advice.a == advice.b) advice.map.clear();
  return advice;
}

std::string AdviceText(const MapAdvice& advice) {
  if (advice.a.empty() && advice.b.empty()) return "";
  if (advice.map.empty()) {
    if (advice.a == advice.b) return "";
    const std::string known = advice.b.empty() ? "A looks like " + advice.a + " names"
                                               : "B looks like " + advice.b + " names";
    return known + ": --suggest-map drafts a map for them";
  }
  const bool tell_a = advice.swapped;  // the side whose names are not the shared ones
  return fmt::format("{} looks like {} names: try --map {}", tell_a ? "A" : "B",
                     tell_a ? advice.a : advice.b, advice.map);
}

}  // namespace tdump::compare
