#include "compare/signature.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <set>
#include <utility>

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

Model ModelOf(const RunSide& side, const PassRef& pass) {
  Model model;
  const auto view = side.Open(pass);
  if (!view.ok()) return model;
  (void)(*view)->ForEachTensor([&](const io::Record& record) {
    const Key& key = record.key;
    if (key.path == "." && key.op.empty() && !record.cls.empty()) model.classes.insert(record.cls);
    if (key.role == Role::kParam && key.call == 0)
      model.parameters.try_emplace(
          NameOf(record), Parameter{ElementShape(record), std::string(record.dtype.view())});
    return true;
  });
  return model;
}

class Signatures {
 public:
  Signatures(const RunSide& a, const RunSide& b, Model model_a, Model model_b)
      : a_(a), b_(b), model_a_(std::move(model_a)), model_b_(std::move(model_b)) {}

  SignatureCheck Check() {
    const RunFacts a = a_.Facts(), b = b_.Facts();
    Note("versions differ", a.versions, b.versions);
    Note("model classes differ", fmt::format("{}", fmt::join(model_a_.classes, ", ")),
         fmt::format("{}", fmt::join(model_b_.classes, ", ")));
    Note("steps end differently", a.boundary, b.boundary);
    if (!a.config_hash.empty() && !b.config_hash.empty() && a.config_hash != b.config_hash)
      check_.notes.push_back("captured with different configurations");
    CompareParameters();
    return std::move(check_);
  }

 private:
  void Note(const char* what, const std::string& a, const std::string& b) {
    if (a.empty() || b.empty() || a == b) return;
    check_.notes.push_back(fmt::format("{}: A {}, B {}", what, a, b));
  }

  void CompareParameters() {
    size_t both = 0, shapes = 0, dtypes = 0;
    std::string example;
    std::pair<std::string, std::string> of_dtypes;
    for (const auto& [name, left] : model_a_.parameters) {
      const auto found = model_b_.parameters.find(name);
      if (found == model_b_.parameters.end()) continue;
      const Parameter& right = found->second;
      ++both;
      if (left.shape != right.shape && ++shapes == 1)
        example = fmt::format("{} is {} in A and {} in B", name, ShapeText(left.shape),
                              ShapeText(right.shape));
      if (left.dtype != right.dtype && ++dtypes == 1) of_dtypes = {left.dtype, right.dtype};
    }
    if (shapes > both / 2)
      check_.refusal = fmt::format(
          "the models are of different sizes: {} of {} have another shape, e.g. {}; compare runs "
          "of one model, or name the parts that are the same with --select",
          shapes, Plural(both, "parameter"), example);
    if (dtypes > 0)
      check_.notes.push_back(fmt::format("{} of {} of another dtype: A {}, B {}", dtypes,
                                         Plural(both, "parameter"), of_dtypes.first,
                                         of_dtypes.second));
  }

  const RunSide& a_;
  const RunSide& b_;
  Model model_a_, model_b_;
  SignatureCheck check_;
};

}  // namespace

SignatureCheck CheckSignature(const RunSide& a, const RunSide& b, const PassPair& first,
                              bool equal) {
  if (equal) return Signatures(a, b, {}, {}).Check();
  return Signatures(a, b, ModelOf(a, first.a), ModelOf(b, first.b)).Check();
}

}  // namespace tdump::compare
