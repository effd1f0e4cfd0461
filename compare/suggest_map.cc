#include "compare/suggest_map.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "compare/name_templates.h"
#include "compare/names.h"
#include "compare/product.h"
#include "core/text.h"
#include "settings/yaml_tree.h"

namespace tdump::compare {
namespace {

constexpr size_t kMostTemplates = 1000;  // of a side; more are no names of layers
constexpr size_t kNone = ~size_t{0};

const Shape* WeightOf(const ModuleTemplate& module) {
  const auto found = module.params.find("weight");
  return found == module.params.end() || found->second.size() != 2 ? nullptr : &found->second;
}

// Length of what the module puts out: rows of its weight, else of its output.
uint64_t WidthOf(const ModuleTemplate& module) {
  if (const Shape* weight = WeightOf(module)) return (*weight)[0];
  return module.output.empty() ? 0 : module.output.back();
}

bool IsTransposed(const ModuleTemplate& a, const ModuleTemplate& b) {
  const Shape *x = WeightOf(a), *y = WeightOf(b);
  if (x == nullptr || y == nullptr) return false;
  const bool conv_a = LastComponent(a.cls) == "Conv1D", conv_b = LastComponent(b.cls) == "Conv1D";
  if (!AreShares({(*y)[1], (*y)[0]}, *x)) return false;
  return conv_a != conv_b || !AreShares(*y, *x);
}

// Rows more on one side, a little only, of a table of tokens.
bool IsPadded(const ModuleTemplate& a, const ModuleTemplate& b) {
  const Shape *x = WeightOf(a), *y = WeightOf(b);
  if (x == nullptr || y == nullptr || a.holes() != 0 || (*x)[1] != (*y)[1]) return false;
  const uint64_t least = std::min((*x)[0], (*y)[0]), most = std::max((*x)[0], (*y)[0]);
  return least != most && most - least <= std::max<uint64_t>(4096, least / 8);
}

double TextLikeness(std::string_view x, std::string_view y) {
  x = x.substr(0, 64);
  y = y.substr(0, 64);
  const auto longest = static_cast<double>(std::max<size_t>(1, std::max(x.size(), y.size())));
  return 1 - static_cast<double>(EditDistance(x, y)) / longest;
}

bool SameOutputs(const ModuleTemplate& a, const ModuleTemplate& b) {
  if (a.output.empty() || b.output.empty()) return false;
  return IsShare(ProductOf(b.output), ProductOf(a.output)) &&
         IsShare(b.output.back(), a.output.back());
}

// How much two templates may be one thing; 0: they are not.
double Likeness(const ModuleTemplate& a, const ModuleTemplate& b) {
  if (a.holes() > b.holes() || (a.holes() == 0) != (b.holes() == 0)) return 0;
  double likeness = 0;
  const Shape *x = WeightOf(a), *y = WeightOf(b);
  if ((x == nullptr) != (y == nullptr)) return 0;
  if (x != nullptr) {
    if (!AreShares(*y, *x) && !IsPadded(a, b) && !IsTransposed(a, b)) return 0;
    likeness += *x == *y ? 3 : 2;
  } else {
    const bool params = !a.params.empty() && !b.params.empty() &&
                        AreShares(b.params.begin()->second, a.params.begin()->second);
    if (a.params.empty() != b.params.empty() || (!params && !SameOutputs(a, b))) return 0;
    likeness += 2;
  }
  if (SameOutputs(a, b)) likeness += 1;
  if (KindOfClass(a.cls) == KindOfClass(b.cls))
    likeness += 2;
  else if (x == nullptr)
    return 0;
  return likeness + 2 * TextLikeness(LastComponent(a.text), LastComponent(b.text)) +
         TextLikeness(a.text, b.text);
}

struct Fused {
  size_t whole = kNone;        // template of one side
  std::vector<size_t> pieces;  // of the other
};

// Whether names say that these are the projections of one thing, in this order.
bool AreProjections(std::span<const ModuleTemplate* const> pieces) {
  const auto letter = [&](size_t i) { return LastComponent(pieces[i]->text); };
  if (pieces.size() == 3) {
    return letter(0).starts_with('q') && letter(1).starts_with('k') && letter(2).starts_with('v');
  }
  return ContainsAny(letter(0), {"gate", "w1", "wi_0"}) &&
         ContainsAny(letter(1), {"up", "w3", "wi_1"});
}

class Draft {
 public:
  Draft(std::span<const NamedTensor> a, std::span<const NamedTensor> b)
      : a_(TemplatesOf(a)), b_(TemplatesOf(b)) {
    a_.resize(std::min(a_.size(), kMostTemplates));
    b_.resize(std::min(b_.size(), kMostTemplates));
    done_a_.assign(a_.size(), false);
    done_b_.assign(b_.size(), false);
  }

  std::string Text(std::span<const NameMap> maps, std::span<const NamedTensor> a,
                   std::span<const NamedTensor> b) {
    TakeEqual();
    for (const size_t count : {3, 2}) {
      TakeFused(a_, b_, count, /*whole_is_b=*/true);
      TakeFused(b_, a_, count, /*whole_is_b=*/false);
    }
    TakeAligned();
    std::string text =
        "# A draft of a map from the names, classes and shapes of two runs. Lines marked "
        "'guessed' are to be read.\n";
    const MapAdvice advice = AdviseMap(maps, a, b);
    if (!advice.map.empty()) text += "# " + AdviceText(advice) + "\n";
    text += "version: 1\nabout: names of B onto those of A\n" + SidesText() + LayersText();
    if (rules_.find("split: qkv_groups\n") != std::string::npos) {
      text +=
          "heads:\n  # guessed: the last dimension of the first that was captured is a head's\n"
          "  head_dim_from: ['\\b[qk]_?(norm|layernorm)\\.weight@param$', "
          "'core_attention@input#0$',\n"
          "                  'rotary\\w*@output(#0)?$']\n";
    }
    const std::string alone = AloneText(a_, done_a_, "A") + AloneText(b_, done_b_, "B");
    text += rules_.empty() ? "rules: []  # no rule was found, or the names are equal\n"
                           : "rules:\n" + rules_;
    if (rules_.empty() && !alone.empty())
      text += "  # To use a line of these, write 'rules:' without [].\n";
    return text + alone;
  }

 private:
  void TakeEqual() {
    for (size_t i = 0; i < a_.size(); ++i) {
      for (size_t k = 0; k < b_.size(); ++k) {
        if (done_b_[k] || a_[i].text != b_[k].text) continue;
        done_a_[i] = done_b_[k] = true;
        NoteOrder(a_[i], b_[k]);
        break;
      }
    }
  }

  void TakeFused(const std::vector<ModuleTemplate>& split, const std::vector<ModuleTemplate>& fused,
                 size_t count, bool whole_is_b) {
    std::vector<bool>& done_split = whole_is_b ? done_a_ : done_b_;
    std::vector<bool>& done_fused = whole_is_b ? done_b_ : done_a_;
    for (size_t i = 0; i + count <= split.size(); ++i) {
      std::vector<const ModuleTemplate*> pieces;
      uint64_t width = 0;
      for (size_t k = i; k < i + count && !done_split[k]; ++k) {
        pieces.push_back(&split[k]);
        width += WidthOf(split[k]);
      }
      if (pieces.size() != count || !AreProjections(pieces)) continue;
      const size_t whole = FindWhole(fused, done_fused, *pieces[0], width);
      if (whole == kNone) continue;
      for (size_t k = i; k < i + count; ++k) done_split[k] = true;
      done_fused[whole] = true;
      AddFusedRule(pieces, fused[whole], whole_is_b);
    }
  }

  static size_t FindWhole(const std::vector<ModuleTemplate>& fused, const std::vector<bool>& done,
                          const ModuleTemplate& piece, uint64_t width) {
    size_t best = kNone;
    double most = 0;
    for (size_t k = 0; k < fused.size(); ++k) {
      const uint64_t whole = WidthOf(fused[k]);
      const bool fits = IsShare(whole, width) || IsShare(width, whole);
      if (done[k] || !fits || fused[k].holes() < piece.holes()) continue;
      const Shape *x = WeightOf(piece), *y = WeightOf(fused[k]);
      if (x != nullptr && y != nullptr && (*x)[1] != (*y)[1]) continue;
      const bool named = ContainsAny(
          LastComponent(fused[k].text),
          {"qkv", "query_key_value", "gate_up", "fc1", "c_attn", "w13", "in_proj", "W_pack"});
      const double likeness = (named ? 2 : 0) + TextLikeness(piece.text, fused[k].text);
      if (likeness > most) {
        most = likeness;
        best = k;
      }
    }
    return most >= 2 ? best : kNone;
  }

  void AddFusedRule(const std::vector<const ModuleTemplate*>& pieces, const ModuleTemplate& whole,
                    bool whole_is_b) {
    const bool qkv = pieces.size() == 3;
    const bool groups = qkv && ContainsAny(LastComponent(whole.text),
                                           {"linear_qkv", "query_key_value", "layernorm_qkv"});
    if (qkv) {
      rules_ += fmt::format(
          "  # guessed: the order inside {}, which shapes do not tell; the other is {}\n",
          LastComponent(whole.text), groups ? "qkv" : "qkv_groups");
    }
    rules_ += "  - name: " + settings::YamlScalar(PatternOf(whole.text)) + "\n";
    if (!whole_is_b) rules_ += "    of: first\n";
    rules_ +=
        fmt::format("    split: {}\n    to:\n", qkv ? (groups ? "qkv_groups" : "qkv") : "equal");
    static constexpr const char* kLabels[2][3] = {{"gate", "up", ""}, {"q", "k", "v"}};
    for (size_t i = 0; i < pieces.size(); ++i) {
      rules_ += fmt::format("      {}: {}\n", kLabels[qkv ? 1 : 0][i],
                            settings::YamlScalar(ReplacementOf(pieces[i]->text)));
    }
  }

  // The best pairs first: likeness, less a little for each place out of order.
  void TakeAligned() {
    struct Candidate {
      double likeness;
      size_t a, b;
    };
    std::vector<Candidate> candidates;
    for (size_t i = 0; i < a_.size(); ++i) {
      for (size_t k = 0; k < b_.size(); ++k) {
        if (done_a_[i] || done_b_[k]) continue;
        const double likeness = Likeness(a_[i], b_[k]);
        if (likeness == 0) continue;
        const double apart = static_cast<double>(i) / static_cast<double>(a_.size()) -
                             static_cast<double>(k) / static_cast<double>(b_.size());
        candidates.push_back({likeness - 3 * (apart < 0 ? -apart : apart), i, k});
      }
    }
    std::stable_sort(candidates.begin(), candidates.end(),
                     [](const auto& x, const auto& y) { return x.likeness > y.likeness; });
    std::vector<std::pair<size_t, size_t>> pairs;
    for (const Candidate& candidate : candidates) {
      if (done_a_[candidate.a] || done_b_[candidate.b]) continue;
      done_a_[candidate.a] = done_b_[candidate.b] = true;
      pairs.emplace_back(candidate.a, candidate.b);
    }
    std::sort(pairs.begin(), pairs.end());
    // Longer names first: "layers.0.mlp" must not decide for "layers.0.mlp.act".
    std::stable_sort(pairs.begin(), pairs.end(), [&](const auto& x, const auto& y) {
      return std::count(b_[x.second].text.begin(), b_[x.second].text.end(), '.') >
             std::count(b_[y.second].text.begin(), b_[y.second].text.end(), '.');
    });
    for (const auto& [i, k] : pairs) AddRule(a_[i], b_[k]);
  }

  void AddRule(const ModuleTemplate& a, const ModuleTemplate& b) {
    NoteOrder(a, b);
    const double alike = TextLikeness(LastComponent(a.text), LastComponent(b.text));
    if (alike < 0.5) rules_ += "  # guessed: by class, shape and order\n";
    rules_ += "  - name: " + settings::YamlScalar(PatternOf(b.text)) +
              "\n    to: " + settings::YamlScalar(ReplacementOf(a.text)) + "\n";
    if (IsPadded(a, b)) rules_ += "    padded: true\n";
    if (!IsTransposed(a, b)) return;
    rules_ += "    dims: {param: ['i o', 'o']}  # transposed\n";
    rules_ += "  - name: " + settings::YamlScalar(PatternOf(a.text)) +
              "\n    of: first\n    dims: {param: ['o i', 'o']}\n";
  }

  // What the outputs of a pair say of the order of dimensions.
  void NoteOrder(const ModuleTemplate& a, const ModuleTemplate& b) {
    const Shape &x = a.output, &y = b.output;
    if (x.empty() || y.empty()) return;
    if (x.size() == 3 && y.size() == 3 && x[0] != x[1] && x[0] == y[1] && x[1] == y[0]) ++swapped_;
    if (x.size() == 3 && y.size() == 2 && y[0] == x[0] * x[1]) ++flat_b_;
    if (x.size() == 2 && y.size() == 3 && x[0] == y[0] * y[1]) ++flat_a_;
  }

  std::string SidesText() const {
    const char *first = nullptr, *second = nullptr;
    if (swapped_ > 0 && swapped_ >= flat_a_ + flat_b_) {
      first = "b s h";
      second = "s b h";
    } else if (flat_b_ + flat_a_ > 0) {
      first = flat_b_ >= flat_a_ ? "b s h" : "t h";
      second = flat_b_ >= flat_a_ ? "t h" : "b s h";
    }
    if (first == nullptr) return "";
    return fmt::format(
        "# guessed from the shapes of outputs\nsides:\n  first: {{activations: {}}}\n"
        "  second: {{activations: {}}}\n",
        settings::YamlScalar(first), settings::YamlScalar(second));
  }

  // Layers that are counted from another number on.
  std::string LayersText() const {
    for (size_t k = 0; k < b_.size(); ++k) {
      for (size_t i = 0; i < a_.size(); ++i) {
        const ModuleTemplate &a = a_[i], &b = b_[k];
        if (a.numbers.size() < 2 || a.numbers.size() != b.numbers.size() || Likeness(a, b) == 0)
          continue;
        const auto offset =
            static_cast<int64_t>(*a.numbers.begin()) - static_cast<int64_t>(*b.numbers.begin());
        if (offset == 0) return "";
        const std::string before = b.text.substr(0, b.text.find(".#") + 2);
        if (before.size() < 2 || b.text.starts_with("#")) return "";
        return fmt::format("layers:\n  - {{name: {}, offset: {}}}\n",
                           settings::YamlScalar(PatternOf(before)), offset);
      }
    }
    return "";
  }

  // Rules that take out of the comparison what has no partner, for the reader to decide.
  static std::string AloneText(const std::vector<ModuleTemplate>& templates,
                               const std::vector<bool>& done, std::string_view side) {
    std::string text;
    for (size_t i = 0; i < templates.size(); ++i) {
      if (done[i]) continue;
      const std::string cls = settings::Printable(LastComponent(templates[i].cls), 80);
      text += fmt::format("  # - {{name: {}, {}skip: true}}{}{}\n",
                          settings::YamlScalar("^" + PatternOf(templates[i].text) + "$"),
                          side == "A" ? "of: first, " : "", cls.empty() ? "" : "  # ", cls);
    }
    if (!text.empty()) text.insert(0, fmt::format("  # Only {} has these:\n", side));
    return text;
  }

  std::vector<ModuleTemplate> a_, b_;
  std::vector<bool> done_a_, done_b_;
  std::string rules_;
  size_t swapped_ = 0, flat_a_ = 0, flat_b_ = 0;
};

}  // namespace

std::string SuggestMap(std::span<const NamedTensor> a, std::span<const NamedTensor> b,
                       std::span<const NameMap> maps) {
  return Draft(a, b).Text(maps, a, b);
}

}  // namespace tdump::compare
