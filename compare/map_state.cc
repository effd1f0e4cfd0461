#include "compare/map_state.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "compare/names.h"
#include "compare/roles.h"
#include "compare/topology.h"
#include "core/parse_number.h"
#include "settings/dims.h"

namespace tdump::compare {
namespace {

using settings::Regex;

constexpr size_t kMaxKnown = 200'000;  // names that are remembered

bool IsOfActivations(Role role) {
  return role == Role::kInput || role == Role::kOutput || role == Role::kGradInput ||
         role == Role::kGradOutput;
}

bool Matches(const std::optional<Regex>& regex, const std::string& text) {
  return !regex || regex->Search(text) == Regex::Match::kYes;
}

// Index of the dimension that a text of dims calls `name`; `rank` where it has none or another
// rank.
size_t DimNamed(const std::string& text, std::string_view name, size_t rank) {
  const auto dims = Dims::Parse(text);
  if (!dims.ok() || dims->ellipsis || dims->dims.size() != rank) return rank;
  for (size_t i = 0; i < rank; ++i) {
    if (dims->dims[i].parts.size() == 1 && dims->dims[i].parts[0].name == name) return i;
  }
  return rank;
}

Status GaveUp(const settings::Position& at, const std::string& source, const std::string& name) {
  return InvalidArgument(fmt::format("{}:{}:{}: the pattern takes too long on '{}'", source,
                                     at.line, at.column, settings::Printable(name)));
}

std::string NoteOf(const MapRule& rule, const std::string& label, const NamedTensor& tensor,
                   const QkvLengths& lengths) {
  if (label.empty() && rule.fusion == Fusion::kNone) return "";
  std::string path = tensor.key.path;
  std::string note = fmt::format("{} of {}", label.empty() ? "part" : label, LastComponent(path));
  if (rule.fusion != Fusion::kQkvGroups || lengths.head == 0) return note;
  const uint64_t groups = lengths.kv / lengths.head;
  return note + fmt::format(" ({} x ({} + 1 + 1) heads of {})", groups,
                            lengths.q / groups / lengths.head, lengths.head);
}

}  // namespace

uint32_t ChunkOf(const Key& key) {
  if (key.chunk != 0) return key.chunk;
  const size_t sharp = key.root.rfind('#');
  if (sharp == std::string::npos) return 0;
  return ParseNumber<uint32_t>(std::string_view(key.root).substr(sharp + 1)).value_or(0);
}

std::string RuleName(const Key& key) {
  if (!IsOfParameters(key.role)) return key.path;
  return key.path == "." || key.path.empty() ? key.arg : key.path + "." + key.arg;
}

void SetRuleName(const std::string& name, Key* key) {
  if (!IsOfParameters(key->role)) {
    key->path = name.empty() ? "." : name;
    return;
  }
  const size_t dot = name.rfind('.');
  key->path = dot == std::string::npos ? "." : name.substr(0, dot);
  key->arg = dot == std::string::npos ? name : name.substr(dot + 1);
}

std::string NameRoleArg(const std::string& name, const Key& key) {
  std::string text = name + "@" + std::string(ToString(key.role));
  if (!IsOfParameters(key.role) && !key.arg.empty()) text += "#" + key.arg;
  return text;
}

bool ShareOf(uint64_t total, uint64_t q, uint64_t kv, uint64_t head, QkvLengths* out) {
  if (q == 0 || kv == 0 || q > (uint64_t{1} << 40) || kv > (uint64_t{1} << 40)) return false;
  if (head != 0 && (q % head != 0 || kv % head != 0)) head = 0;  // of something else
  if (total != 0 && (q + 2 * kv) % total == 0) {
    const uint64_t ranks = (q + 2 * kv) / total;
    if (q % ranks == 0 && kv % ranks == 0 && (head == 0 || kv / ranks % head == 0)) {
      *out = {.q = q / ranks, .kv = kv / ranks, .head = head};
      return true;
    }
  }
  // More ranks than heads of k and v: each rank has one of them.
  if (head == 0 || total <= 2 * head || q % (total - 2 * head) != 0) return false;
  const uint64_t ranks = q / (total - 2 * head);
  if (kv % head != 0 || ranks % (kv / head) != 0) return false;
  *out = {.q = q / ranks, .kv = head, .head = head};
  return true;
}

std::string ShapeIndex::TextOf(const Key& key) {
  return fmt::format("{}\n{}\n{}", RuleName(key), static_cast<int>(key.role),
                     IsOfParameters(key.role) ? "" : key.arg);
}

const ShapeIndex::Entry* ShapeIndex::Find(const std::string& name, Role role,
                                          const std::string& arg) const {
  Key key;
  key.role = role;
  key.arg = arg;
  SetRuleName(name, &key);
  if (!IsOfParameters(role)) key.arg = arg;
  const auto found = entries_.find(TextOf(key));
  return found == entries_.end() ? nullptr : &found->second;
}

void StageLayers::See(uint32_t chunk, uint32_t stage, uint64_t layer) {
  uint64_t& count = counts[{chunk, stage}];
  count = std::max(count, layer + 1);
}

uint64_t StageLayers::OffsetOf(uint32_t chunk, uint32_t stage) const {
  if (global) return 0;
  uint64_t offset = 0;
  for (const auto& [place, count] : counts) {
    if (place >= std::pair(chunk, stage)) break;
    offset += count;
  }
  return offset;
}

bool MapSide::State::FindLayer(const LayerRule& rule, const std::string& name, size_t* begin,
                               size_t* length, uint64_t* layer) const {
  std::vector<std::string_view> groups;
  if (rule.name->Find(name, &groups) != Regex::Match::kYes || groups[1].data() == nullptr)
    return false;
  const std::string_view digits = groups[1];
  const auto number = ParseNumber<uint32_t>(digits);
  *begin = static_cast<size_t>(digits.data() - name.data());
  *length = digits.size();
  *layer = number.value_or(0);
  return number.has_value();
}

Status MapSide::State::Renumber(const NamedTensor& tensor, Turned* turned) const {
  for (size_t i = 0; i < layers.size(); ++i) {
    const LayerRule& rule = *layers[i];
    size_t begin = 0, length = 0;
    uint64_t local = 0;
    if (!FindLayer(rule, turned->old_name, &begin, &length, &local)) continue;
    auto layer = static_cast<int64_t>(local);
    for (const LayerRule::Range& range : rule.ranges) {
      if (layer < range.first || layer > range.last) continue;
      layer += range.to - range.first;
      break;
    }
    const uint32_t chunk = ChunkOf(tensor.key);
    if (rule.interleave) {
      const LayerRule::Interleave& of = *rule.interleave;
      layer = static_cast<int64_t>(GlobalLayer(static_cast<uint64_t>(layer), tensor.stage,
                                               static_cast<uint32_t>(of.stages), chunk, of.layers));
    } else if (rule.from_names) {
      layer += static_cast<int64_t>(stages[i].OffsetOf(chunk, tensor.stage));
    } else if (!rule.stages.empty()) {
      if (tensor.stage >= rule.stages.size()) {
        return InvalidArgument(
            fmt::format("{}:{}:{}: 'stages' does not say the first layer of stage {}", map->source,
                        rule.at.line, rule.at.column, tensor.stage));
      }
      layer += rule.stages[tensor.stage];
    }
    turned->drop_root = rule.interleave.has_value() || rule.from_names;
    layer += rule.offset;
    if (layer < 0) {
      return InvalidArgument(fmt::format("{}:{}:{}: layer {} becomes {}", map->source, rule.at.line,
                                         rule.at.column, local, layer));
    }
    turned->old_name.replace(begin, length, std::to_string(layer));
    return {};
  }
  return {};
}

// A run has the same few thousand names in every pass.
Result<MapSide::State::Turned> MapSide::State::Turn(const NamedTensor& tensor) const {
  const std::string text = fmt::format(
      "{}\n{}\n{}\n{}\n{} {} {} {}", tensor.key.path, tensor.key.arg, tensor.cls, tensor.key.root,
      static_cast<int>(tensor.key.role), tensor.key.op.empty(), tensor.stage, tensor.key.chunk);
  const std::lock_guard lock(known_mutex_);
  const auto found = known_.find(text);
  if (found != known_.end()) return found->second;
  Result<Turned> turned = TurnNew(tensor);
  if (known_.size() < kMaxKnown) known_.emplace(text, turned);
  return turned;
}

Result<MapSide::State::Turned> MapSide::State::TurnNew(const NamedTensor& tensor) const {
  Turned turned;
  turned.old_name = RuleName(tensor.key);
  std::vector<std::string_view> groups;
  const auto& strip = map->sides[side].strip;
  if (strip && strip->Find(turned.old_name, &groups) == Regex::Match::kYes &&
      groups[0].size() < turned.old_name.size()) {
    turned.old_name.erase(0, groups[0].size());
  }
  TDUMP_RETURN_IF_ERROR(Renumber(tensor, &turned));
  const std::string& name = turned.old_name;
  for (const MapRule* rule : rules) {
    if (!rule->IsFor(tensor.key.role) || !Matches(rule->arg, tensor.key.arg) ||
        !Matches(rule->cls, tensor.cls))
      continue;
    if (rule->fusion != Fusion::kNone && !tensor.key.op.empty()) continue;
    const Regex::Match match = rule->name->Find(name, &groups);
    if (match == Regex::Match::kGaveUp) return GaveUp(rule->at, map->source, name);
    if (match == Regex::Match::kNo || groups[0].data() == nullptr) continue;
    turned.rule = rule;
    const auto begin = static_cast<size_t>(groups[0].data() - name.data());
    const std::string before = name.substr(0, begin), after = name.substr(begin + groups[0].size());
    for (const MapPart& part : rule->to)
      turned.names.push_back(before + part.to.Expand(groups) + after);
    if (rule->q_like) turned.q_like = before + rule->q_like->Expand(groups);
    break;
  }
  if (turned.names.empty()) turned.names.push_back(name);
  for (const std::string& made : turned.names) {
    if (made.size() > kMaxNameBytes)
      return InvalidArgument(
          fmt::format("a name of {} bytes comes of '{}'", made.size(), settings::Printable(name)));
  }
  return turned;
}

Key MapSide::State::KeyFor(const NamedTensor& tensor, const Turned& turned,
                           const std::string& name) const {
  Key key = tensor.key;
  SetRuleName(name, &key);
  if (turned.drop_root) {
    key.root.clear();
    key.chunk = 0;
  }
  if (turned.rule != nullptr) {
    if (turned.rule->to_arg) key.arg = *turned.rule->to_arg;
    if (turned.rule->to_role) key.role = *turned.rule->to_role;
  }
  return key;
}

std::vector<std::string> MapSide::State::DimsFor(const MapRule* rule, Role role,
                                                 size_t rank) const {
  const std::vector<std::string>* texts = rule != nullptr ? &rule->DimsOf(role) : nullptr;
  if ((texts == nullptr || texts->empty()) && IsOfActivations(role))
    texts = &map->sides[side].activations;
  std::vector<std::string> fitting;
  if (texts == nullptr) return fitting;
  for (const std::string& text : *texts) {
    const auto dims = Dims::Parse(text);
    if (dims.ok() && (dims->ellipsis ? dims->dims.size() <= rank : dims->dims.size() == rank))
      fitting.push_back(text);
  }
  return fitting;
}

size_t MapSide::State::AxisOf(const MapRule& rule, Role role, size_t rank) const {
  if (rule.axis) {
    const int64_t axis = *rule.axis < 0 ? *rule.axis + static_cast<int64_t>(rank) : *rule.axis;
    return axis < 0 ? rank : static_cast<size_t>(axis);
  }
  for (const std::string& text : DimsFor(&rule, role, rank)) {
    const size_t named = DimNamed(text, "o", rank);
    if (named < rank) return named;
  }
  return IsOfParameters(role) || rank == 0 ? 0 : rank - 1;
}

uint64_t MapSide::State::OwnLengthOfQ(const std::string& q_like) const {
  if (q_like.empty()) return 0;
  if (const auto* weight = own.Find(q_like + ".weight", Role::kParam, "");
      weight != nullptr && weight->shape.size() == 2) {
    const size_t in = DimNamed(weight->dims, "i", 2);
    return weight->shape[in < 2 ? in : 1];
  }
  const auto* input = own.Find(q_like, Role::kInput, "0");
  return input != nullptr && !input->shape.empty() ? input->shape.back() : 0;
}

// What the other side has of q and k under names of their own.
bool MapSide::State::WholeLengths(const Turned& turned, const NamedTensor& tensor, uint64_t* q,
                                  uint64_t* kv) const {
  const HeadRule& heads = map->heads;
  if (heads.heads != 0 && heads.kv_heads != 0 && heads.head_dim != 0) {
    *q = heads.heads * heads.head_dim;
    *kv = heads.kv_heads * heads.head_dim;
    return true;
  }
  if (turned.names.size() != 3) return false;
  const auto length = [&](const std::string& name) -> uint64_t {
    Key key = tensor.key;
    SetRuleName(name, &key);
    const std::string arg = turned.rule->to_arg ? *turned.rule->to_arg : tensor.key.arg;
    const ShapeIndex::Entry* entry = other.Find(name, key.role, arg);
    if (entry == nullptr && !IsOfParameters(key.role))
      entry = other.Find(name, key.role, arg.empty() ? "0" : "");  // a tuple, or not
    if (entry == nullptr || entry->shape.empty()) return 0;
    const size_t rank = entry->shape.size();
    const size_t out = DimNamed(entry->dims, "o", rank);
    return entry->shape[out < rank ? out : IsOfParameters(key.role) ? 0 : rank - 1];
  };
  *q = length(turned.names[0]);
  *kv = length(turned.names[1]);
  return *q != 0 && *kv != 0;
}

Result<QkvLengths> MapSide::State::LengthsOf(const Turned& turned, const NamedTensor& tensor,
                                             size_t axis) const {
  const Fusion fusion = turned.rule->fusion;
  if (fusion != Fusion::kQkv && fusion != Fusion::kQkvGroups) return QkvLengths{};
  const uint64_t total = axis < tensor.sizes.size() ? tensor.sizes[axis] : 0;
  QkvLengths lengths;
  uint64_t q = 0, kv = 0;
  const bool whole = WholeLengths(turned, tensor, &q, &kv);
  if (whole && ShareOf(total, q, kv, head_dim, &lengths)) return lengths;
  if (const uint64_t own_q = OwnLengthOfQ(turned.q_like);
      own_q != 0 && own_q < total && (total - own_q) % 2 == 0) {
    return QkvLengths{.q = own_q, .kv = (total - own_q) / 2, .head = head_dim};
  }
  if (whole)
    return InvalidArgument(fmt::format(
        "{} units along dimension {} are no share of q, k, v of {}, {} and {}; say heads: "
        "{{num_heads: ..., num_kv_heads: ..., head_dim: ...}} in the map",
        total, axis, q, kv, kv));
  return InvalidArgument(
      "the lengths of q, k and v are not to be found; say heads: {num_heads: ..., num_kv_heads: "
      "..., head_dim: ...} in the map");
}

Result<std::vector<MappedPart>> MapSide::State::Map(const NamedTensor& tensor) const {
  TDUMP_ASSIGN_OR_RETURN(const Turned turned, Turn(tensor));
  const MapRule* rule = turned.rule;
  const Role role = tensor.key.role;
  const size_t rank = tensor.sizes.size();
  Fusion fusion = rule != nullptr ? rule->fusion : Fusion::kNone;
  if (fusion != Fusion::kNone && role == Role::kInput) fusion = Fusion::kCopy;
  const bool one = std::all_of(tensor.sizes.begin(), tensor.sizes.end(),
                               [](uint64_t size) { return size == 1; });
  if (fusion != Fusion::kNone && one) fusion = Fusion::kCopy;  // a scale of them all

  std::vector<MappedPart> mapped(turned.names.size());
  QkvLengths lengths;
  std::vector<TensorPart> parts;
  // The gradient of a fused projection's input is the sum of theirs.
  const bool skip = rule != nullptr &&
                    (rule->skip || (rule->fusion != Fusion::kNone && role == Role::kGradInput));
  if (skip) {
    mapped.resize(1);
    mapped[0].key = KeyFor(tensor, turned, turned.old_name);
    mapped[0].part.shape = tensor.sizes;
    mapped[0].skip = true;
    return mapped;
  }
  if (fusion != Fusion::kNone && fusion != Fusion::kCopy) {
    const size_t axis = AxisOf(*rule, role, rank);
    TDUMP_ASSIGN_OR_RETURN(lengths, LengthsOf(turned, tensor, axis));
    TDUMP_ASSIGN_OR_RETURN(parts, PartsOf(tensor.sizes, axis, fusion, mapped.size(), lengths));
  }
  for (size_t i = 0; i < mapped.size(); ++i) {
    MappedPart& part = mapped[i];
    part.key = KeyFor(tensor, turned, turned.names[i]);
    part.part.shape = tensor.sizes;
    if (!parts.empty()) part.part = std::move(parts[i]);
    part.dims = DimsFor(rule, role, rank);
    if (rule == nullptr) continue;
    part.padded = rule->padded;
    if (fusion != Fusion::kNone && fusion != Fusion::kCopy)
      part.note = NoteOf(*rule, rule->to[i].label, tensor, lengths);
  }
  return mapped;
}

}  // namespace tdump::compare
