#include "compare/reduction.h"

#include <algorithm>
#include <iterator>

#include "compare/names.h"

namespace tdump::compare {
namespace {

using Sizes = std::vector<int64_t>;

// "torch.nn.modules.linear.Linear", "torch::nn::LinearImpl" -> "linear".
std::string ShortClass(std::string_view cls) {
  const size_t at = cls.find_last_of(".:");
  std::string name = LowerCase(at == std::string_view::npos ? cls : cls.substr(at + 1));
  if (name.size() > 4 && name.ends_with("impl")) name.resize(name.size() - 4);
  return name;
}

// "aten::_addmm_.out" -> "addmm".
std::string ShortOp(std::string_view op) {
  if (const size_t at = op.rfind("::"); at != std::string_view::npos) op.remove_prefix(at + 2);
  op = op.substr(0, op.find('.'));
  while (op.starts_with('_')) op.remove_prefix(1);
  while (op.ends_with('_')) op.remove_suffix(1);
  return LowerCase(op);
}

bool IsAny(std::string_view name, std::span<const char* const> words) {
  return std::any_of(words.begin(), words.end(), [&](const char* word) { return name == word; });
}

constexpr const char* kProductOps[] = {
    "mm",  "addmm", "bmm",    "baddbmm", "addbmm", "matmul",    "linear",    "mv",   "addmv",
    "dot", "vdot",  "einsum", "int_mm",  "inner",  "tensordot", "scaled_mm", "addr", "bilinear"};
constexpr const char* kProductParts[] = {"conv",      "attention",  "linear_backward",
                                         "scaled_mm", "grouped_mm", "gemm"};
constexpr const char* kReductionOps[] = {
    "sum",       "mean",         "var",           "std",         "norm",      "var_mean",
    "std_mean",  "nansum",       "nanmean",       "prod",        "cumsum",    "cumprod",
    "logsumexp", "logcumsumexp", "index_add",     "scatter_add", "index_put", "sum_to_size",
    "trace",     "cdist",        "scatter_reduce"};
constexpr const char* kReductionParts[] = {
    "_norm", "loss", "pool", "embedding_dense_backward", "embedding_backward", "embedding_bag"};
constexpr const char* kNormParts[] = {"layer_norm", "rms_norm",      "group_norm",
                                      "batch_norm", "instance_norm", "local_response_norm"};
constexpr const char* kLookupOps[] = {"embedding", "index_select", "gather", "index", "take"};

OperatorClass ClassOfOp(std::string_view op) {
  const std::string name = ShortOp(op);
  if (IsAny(name, kProductOps) || ContainsAny(name, kProductParts)) return OperatorClass::kProduct;
  if (ContainsAny(name, kNormParts)) return OperatorClass::kNormalisation;
  if (name.find("softmax") != std::string::npos) return OperatorClass::kSoftmax;
  if (IsAny(name, kReductionOps) || ContainsAny(name, kReductionParts))
    return OperatorClass::kReduction;
  if (IsAny(name, kLookupOps)) return OperatorClass::kLookup;
  // The others of torch's own are elementwise or only move numbers.
  return op.starts_with("aten::") ? OperatorClass::kElementwise : OperatorClass::kUnknown;
}

constexpr const char* kProductClasses[] = {
    "linear", "conv1", "conv2", "conv3", "convtranspose", "multiheadattention", "qkv", "gemm"};
constexpr const char* kElementwiseClasses[] = {
    "gelu",     "relu",    "silu",     "sigmoid",  "tanh",  "dropout", "identity", "activation",
    "swish",    "swiglu",  "softplus", "softsign", "elu",   "mish",    "hardtanh", "rotary",
    "upsample", "flatten", "padding",  "pad1d",    "pad2d", "pad3d",   "unfold",   "siluandmul"};
constexpr const char* kPoolClasses[] = {"avgpool", "maxpool", "lppool", "loss"};

OperatorClass ClassOfModule(std::string_view cls) {
  const std::string name = ShortClass(cls);
  if (name.find("softmax") != std::string::npos) return OperatorClass::kSoftmax;
  if (name.find("rotary") != std::string::npos) return OperatorClass::kElementwise;
  if (name.ends_with("embedding")) return OperatorClass::kLookup;
  if (name.find("norm") != std::string::npos && name.find("layernormlinear") == std::string::npos &&
      name.find("mlp") == std::string::npos)
    return OperatorClass::kNormalisation;
  if (ContainsAny(name, kProductClasses)) return OperatorClass::kProduct;
  if (ContainsAny(name, kPoolClasses)) return OperatorClass::kReduction;
  if (ContainsAny(name, kElementwiseClasses)) return OperatorClass::kElementwise;
  return OperatorClass::kUnknown;
}

bool IsGoingIn(Role role) {
  return role == Role::kInput || role == Role::kBefore || role == Role::kGradOutput;
}

const Sizes* Find(std::span<const ArgumentMeta> arguments, std::string_view arg) {
  for (const ArgumentMeta& argument : arguments) {
    if (IsGoingIn(argument.role) && argument.arg == arg) return &argument.sizes;
  }
  return nullptr;
}
// The first argument that has dimensions.
const Sizes* First(std::span<const ArgumentMeta> arguments, Role role) {
  for (const ArgumentMeta& argument : arguments) {
    if (argument.role == role && !argument.sizes.empty()) return &argument.sizes;
  }
  return nullptr;
}

uint64_t Product(std::span<const int64_t> sizes) {
  uint64_t product = 1;
  for (const int64_t size : sizes) {
    if (__builtin_mul_overflow(product, static_cast<uint64_t>(std::max<int64_t>(0, size)),
                               &product))
      return ~uint64_t{0};
  }
  return product;
}
uint64_t Last(const Sizes* sizes) {
  return sizes == nullptr || sizes->empty()
             ? 0
             : static_cast<uint64_t>(std::max<int64_t>(0, sizes->back()));
}
uint64_t Rows(const Sizes* sizes) {
  const uint64_t last = Last(sizes);
  return last == 0 ? 0 : Product(*sizes) / last;
}
uint64_t Back(const Sizes* sizes, size_t from_end) {
  if (sizes == nullptr || sizes->size() < from_end) return 0;
  return static_cast<uint64_t>(std::max<int64_t>(0, (*sizes)[sizes->size() - from_end]));
}

// Of a weight [out, in / groups, kernel...]: terms of one output.
uint64_t KernelTerms(std::span<const int64_t> weight) {
  return weight.size() < 3 ? 0 : Product(weight.subspan(1));
}

uint64_t ProductOp(const std::string& name, std::span<const ArgumentMeta> arguments, Role role) {
  const Sizes* first = Find(arguments, "0");
  const Sizes* second = Find(arguments, "1");
  if (name.find("attention") != std::string::npos)
    return std::max(Last(first), Back(second, 2));  // over the head's width, then over the keys
  if (name.find("conv") != std::string::npos) {
    const bool backward = name.find("backward") != std::string::npos;
    const Sizes* weight = Find(arguments, backward ? "2" : "1");
    const uint64_t terms = weight == nullptr ? 0 : KernelTerms(*weight);
    if (!backward) return terms;
    const uint64_t rows =
        first == nullptr ? 0
                         : Product(*first) / std::max<uint64_t>(1, Back(first, first->size() - 1));
    return std::max(terms, role == Role::kOutput ? rows : 0);
  }
  if (name == "einsum" || name == "tensordot") return 0;
  const bool adds = name == "addmm" || name == "baddbmm" || name == "addbmm" || name == "addmv";
  const Sizes* left = adds ? second : first;
  const uint64_t batch = name == "addbmm" ? Back(left, 3) : 1;
  return Last(left) * std::max<uint64_t>(1, batch);
}

// Elements in for each one out.
uint64_t Ratio(const Sizes* in, std::span<const ArgumentMeta> arguments) {
  if (in == nullptr) return 0;
  uint64_t out = 0;
  for (const ArgumentMeta& argument : arguments) {
    if (!IsGoingIn(argument.role)) out = std::max(out, Product(argument.sizes));
  }
  return out == 0 ? 0 : Product(*in) / out;
}

uint64_t NormalisedOp(const std::string& name, std::span<const ArgumentMeta> arguments) {
  const Sizes* in = Find(arguments, name.find("backward") != std::string::npos ? "1" : "0");
  if (in == nullptr) in = Find(arguments, "0");
  if (in == nullptr || in->empty()) return 0;
  const bool over_rows =
      name.find("batch_norm") != std::string::npos || name.find("backward") != std::string::npos;
  if (over_rows) {
    const uint64_t channels = in->size() < 2 ? 1 : std::max<uint64_t>(1, Back(in, in->size() - 1));
    return std::max(Last(in), Product(*in) / channels);
  }
  if (name.find("layer_norm") == std::string::npos && name.find("rms_norm") == std::string::npos)
    return Product(std::span(*in).subspan(std::min<size_t>(1, in->size())));
  // aten::layer_norm(input, normalized_shape, weight, bias): the shape is its weight's.
  for (const char* arg : {"2", "1"}) {
    if (const Sizes* weight = Find(arguments, arg); weight != nullptr && !weight->empty())
      return Product(*weight);
  }
  return Last(in);
}

uint64_t LengthOfOp(OperatorClass kind, std::string_view op,
                    std::span<const ArgumentMeta> arguments, Role role) {
  const std::string name = ShortOp(op);
  const Sizes* in = Find(arguments, "0");
  switch (kind) {
    case OperatorClass::kProduct:
      return ProductOp(name, arguments, role);
    case OperatorClass::kNormalisation:
      return NormalisedOp(name, arguments);
    case OperatorClass::kSoftmax:
      return Last(in);
    case OperatorClass::kReduction:
      if (name.starts_with("cum") || name == "logcumsumexp") return Last(in);
      if (name.find("embedding") != std::string::npos)
        return std::max<uint64_t>(1, Find(arguments, "1") ? Product(*Find(arguments, "1")) : 0);
      return std::max<uint64_t>(1, Ratio(in, arguments));
    case OperatorClass::kElementwise:
    case OperatorClass::kLookup:
      return 1;
    case OperatorClass::kUnknown:
      break;
  }
  return 0;
}

uint64_t ProductModule(const OperatorFacts& facts, const std::string& name) {
  const Sizes* in = First(facts.arguments, Role::kInput);
  const bool is_matrix = facts.weight.size() == 2;  // a "Conv1D" that is a linear layer
  if (name.find("conv") == std::string::npos || is_matrix) return Last(in);
  const uint64_t terms = KernelTerms(facts.weight);
  if (terms == 0 || name.find("transpose") == std::string::npos) return terms;
  // [in, out / groups, kernel...]: every input channel of a group meets the kernel.
  const auto weight = facts.weight;
  return Product(weight) / std::max<uint64_t>(1, static_cast<uint64_t>(weight[1]));
}

// That a call adds up in one element of the gradient of a parameter.
uint64_t RowsOfGradient(const OperatorFacts& facts, const std::string& name) {
  const Sizes* in = First(facts.arguments, Role::kInput);
  const Sizes* out = First(facts.arguments, Role::kGradOutput);
  if (out == nullptr) out = First(facts.arguments, Role::kOutput);
  const std::span<const int64_t> parameter = facts.parameter;
  if (parameter.empty()) return Rows(out);
  const auto features = static_cast<uint64_t>(std::max<int64_t>(1, parameter.front()));
  if (name.find("embedding") != std::string::npos && in != nullptr) return Product(*in);
  if (parameter.size() > 2 && name.find("conv") != std::string::npos) {
    // [in, out / groups, kernel...]: every place that goes in meets the kernel.
    const Sizes* places = name.find("transpose") != std::string::npos ? in : out;
    return places == nullptr ? 0 : Product(*places) / features;
  }
  if (parameter.size() > 1 && name.find("norm") != std::string::npos && out != nullptr)
    return Product(*out) / std::max<uint64_t>(1, Product(parameter));
  // A bias has features of the output, last or, of a convolution, before the places.
  if (out != nullptr && std::find(out->begin(), out->end(), parameter.front()) != out->end())
    return Product(*out) / features;
  return std::max(Rows(in), in == nullptr ? Rows(out) : 0);
}

uint64_t LengthOfModule(OperatorClass kind, const OperatorFacts& facts, Role role) {
  const Sizes* out_gradient = First(facts.arguments, Role::kGradOutput);
  const std::string name = ShortClass(facts.cls);
  if (role == Role::kParamGrad) {
    const uint64_t rows = RowsOfGradient(facts, name), calls = std::max<uint64_t>(1, facts.calls);
    return rows > ~uint64_t{0} / calls ? ~uint64_t{0} : rows * calls;
  }
  const Sizes* in = First(facts.arguments, Role::kInput);
  switch (kind) {
    case OperatorClass::kProduct:
      return role == Role::kGradInput ? Last(out_gradient) : ProductModule(facts, name);
    case OperatorClass::kNormalisation:
      if (in == nullptr) in = out_gradient;
      if (!facts.weight.empty() &&
          (name.find("layer") != std::string::npos || name.find("rms") != std::string::npos))
        return Product(facts.weight);
      if (name.find("batchnorm") != std::string::npos && in != nullptr && in->size() > 1)
        return Product(*in) / std::max<uint64_t>(1, Back(in, in->size() - 1));
      if (name.find("groupnorm") != std::string::npos ||
          name.find("instancenorm") != std::string::npos)
        return in == nullptr ? 0 : Product(std::span(*in).subspan(std::min<size_t>(1, in->size())));
      return Last(in);
    case OperatorClass::kSoftmax:
      return Last(in != nullptr ? in : out_gradient);
    case OperatorClass::kReduction:
      return std::max<uint64_t>(1, Ratio(in, facts.arguments));
    case OperatorClass::kElementwise:
    case OperatorClass::kLookup:
      return 1;
    case OperatorClass::kUnknown:
      break;
  }
  return 0;
}

uint64_t LongestLast(std::span<const ArgumentMeta> arguments) {
  uint64_t longest = 1;
  for (const ArgumentMeta& argument : arguments) longest = std::max(longest, Last(&argument.sizes));
  return longest;
}

}  // namespace

std::string_view ToString(OperatorClass kind) {
  switch (kind) {
    case OperatorClass::kUnknown:
      return "unknown";
    case OperatorClass::kProduct:
      return "product";
    case OperatorClass::kNormalisation:
      return "normalisation";
    case OperatorClass::kSoftmax:
      return "softmax";
    case OperatorClass::kReduction:
      return "reduction";
    case OperatorClass::kElementwise:
      return "elementwise";
    case OperatorClass::kLookup:
      return "lookup";
  }
  return "unknown";
}

OperatorClass ClassOf(std::string_view op, std::string_view cls) {
  return op.find("::") != std::string_view::npos ? ClassOfOp(op) : ClassOfModule(cls);
}

Reduction ReductionOf(const OperatorFacts& facts, Role role) {
  Reduction reduction;
  reduction.kind = ClassOf(facts.op, facts.cls);
  const bool is_op = facts.op.find("::") != std::string_view::npos;
  const uint64_t length = is_op ? LengthOfOp(reduction.kind, facts.op, facts.arguments, role)
                                : LengthOfModule(reduction.kind, facts, role);
  reduction.exact = length > 0;
  reduction.length = length > 0 ? length : LongestLast(facts.arguments);
  return reduction;
}

}  // namespace tdump::compare
