#include "compare/signature.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "compare/dequantised.h"
#include "compare/metrics.h"
#include "compare/pass_diff.h"
#include "compare/text.h"

namespace tdump::compare {
namespace {

struct Parameter {
  std::vector<uint64_t> shape;
  std::string dtype;
};

// What the tensors of a step say of the model.
struct Model {
  std::set<std::string> classes;  // of its roots
  std::map<std::string, Parameter> parameters;
};

// What both models have under one name.
struct Shared {
  std::string name;
  Parameter a, b;
  bool may_differ = false;  // in shape: a map pairs other names
  bool other_shape = false;
  bool whole = true;  // false: the shapes are of shards that could not be put together
};

bool IsParameter(const io::Record& record) {
  return record.key.role == Role::kParam && record.key.call == 0;
}

Parameter ParameterOf(const io::Record& record) {
  return {ElementShape(record), std::string(RecordedDType(record).view())};
}

void AddTo(Model* model, const io::Record& record) {
  const Key& key = record.key;
  if (key.path == "." && key.op.empty() && !record.cls.empty()) model->classes.insert(record.cls);
  if (IsParameter(record)) model->parameters.try_emplace(NameOf(record), ParameterOf(record));
}

Model ModelOf(const StepView& view) {
  Model model;
  (void)view.ForEachTensor([&](const io::Record& record) {
    AddTo(&model, record);
    return true;
  });
  return model;
}

Model ModelOf(const RunSide& side, const PassRef& pass) {
  const auto view = side.Open(pass);
  return view.ok() ? ModelOf(**view) : Model();
}

std::vector<Shared> SharedByName(const Model& a, const Model& b) {
  std::vector<Shared> shared;
  for (const auto& [name, left] : a.parameters) {
    const auto found = b.parameters.find(name);
    if (found == b.parameters.end()) continue;
    shared.push_back({.name = name, .a = left, .b = found->second});
    shared.back().other_shape = left.shape != found->second.shape;
  }
  return shared;
}

// False of what is known not to be a parameter without reading it, and of copies, which say nothing
// that their tensor does not.
bool MayTell(const StepView& view, uint64_t id) {
  const io::Record* known = view.Known(id);
  return known == nullptr || (known->id == id && IsParameter(*known));
}

// Of tensors that are put together. One whose copies differ is in several pairs.
std::vector<Shared> SharedInPairs(const OpenedPair& opened, bool mapped) {
  std::set<std::pair<uint64_t, uint64_t>> other_sizes;
  for (const RecordIds& ids : opened.other_sizes) other_sizes.emplace(ids.a, ids.b);
  std::vector<Shared> shared;
  std::set<std::string> seen;
  for (const RecordIds& ids : opened.pairing.pairs) {
    if (!MayTell(*opened.a, ids.a) || !MayTell(*opened.b, ids.b)) continue;
    const auto a = opened.a->Get(ids.a), b = opened.b->Get(ids.b);
    if (!a.ok() || !b.ok() || !IsParameter(*a) || !IsParameter(*b)) continue;
    const std::string name = NameOf(*a);
    if (!seen.insert(name).second) continue;
    Shared both{.name = name, .a = ParameterOf(*a), .b = ParameterOf(*b)};
    both.may_differ = mapped && name != NameOf(*b);
    both.whole = opened.a->StateOf(ids.a).ok() && opened.b->StateOf(ids.b).ok();
    both.other_shape =
        both.whole ? both.a.shape != both.b.shape : other_sizes.contains({ids.a, ids.b});
    shared.push_back(std::move(both));
  }
  return shared;
}

class Signatures {
 public:
  Signatures(const RunSide& a, const RunSide& b) : a_(a.Facts()), b_(b.Facts()) {}

  SignatureCheck Check(const std::set<std::string>& classes_a,
                       const std::set<std::string>& classes_b, const std::vector<Shared>& shared) {
    Note("versions differ", a_.versions, b_.versions);
    Note("model classes differ", fmt::format("{}", fmt::join(classes_a, ", ")),
         fmt::format("{}", fmt::join(classes_b, ", ")));
    Note("steps end differently", a_.boundary, b_.boundary);
    if (HaveOtherRules(a_, b_)) check_.notes.push_back("captured with different configurations");
    CompareShapes(shared);
    CompareDTypes(shared);
    return std::move(check_);
  }

 private:
  void Note(const char* what, const std::string& a, const std::string& b) {
    if (a.empty() || b.empty() || a == b) return;
    check_.notes.push_back(fmt::format("{}: A {}, B {}", what, a, b));
  }

  void CompareShapes(const std::vector<Shared>& shared) {
    size_t shapes = 0, may_differ = 0;
    std::string example;
    for (const Shared& both : shared) {
      if (!both.other_shape) continue;
      ++shapes;
      may_differ += both.may_differ;
      if (example.empty())
        example = fmt::format("{} is {} in A and {} in B{}", both.name, ShapeText(both.a.shape),
                              ShapeText(both.b.shape), both.whole ? "" : ", as one rank holds it");
    }
    if (shapes <= shared.size() / 2) return;
    const std::string text = fmt::format("{} of {} have another shape, e.g. {}", shapes,
                                         Plural(shared.size(), "parameter"), example);
    if (shapes - may_differ > shared.size() / 2)
      check_.refusal = fmt::format(
          "the models are of different sizes: {}; compare runs of one model, or name the parts "
          "that are the same with --select",
          text);
    else
      check_.notes.push_back(text);
  }

  void CompareDTypes(const std::vector<Shared>& shared) {
    const auto differ = [](const Shared& both) { return both.a.dtype != both.b.dtype; };
    const auto first = std::find_if(shared.begin(), shared.end(), differ);
    if (first == shared.end()) return;
    check_.notes.push_back(fmt::format(
        "{} of {} of another dtype: A {}, B {}", std::count_if(first, shared.end(), differ),
        Plural(shared.size(), "parameter"), first->a.dtype, first->b.dtype));
  }

  const RunFacts a_, b_;
  SignatureCheck check_;
};

}  // namespace

bool HaveOtherRules(const RunFacts& a, const RunFacts& b) {
  return !a.config_hash.empty() && !b.config_hash.empty() && a.config_hash != b.config_hash;
}

SignatureCheck CheckSignature(const RunSide& a, const RunSide& b, const PassPair& first,
                              bool equal) {
  if (equal) return Signatures(a, b).Check({}, {}, {});
  const Model of_a = ModelOf(a, first.a), of_b = ModelOf(b, first.b);
  return Signatures(a, b).Check(of_a.classes, of_b.classes, SharedByName(of_a, of_b));
}

SignatureCheck CheckSignature(const RunSide& a, const RunSide& b, const OpenedPair& first,
                              bool mapped) {
  return Signatures(a, b).Check(ModelOf(*first.a).classes, ModelOf(*first.b).classes,
                                SharedInPairs(first, mapped));
}

}  // namespace tdump::compare
