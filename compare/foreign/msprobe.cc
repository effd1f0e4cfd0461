#include "compare/foreign/msprobe.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "compare/foreign/dtypes.h"
#include "compare/foreign/json_reader.h"
#include "compare/names.h"

namespace tdump::compare::foreign {
namespace {

constexpr size_t kMaxTensors = 4'000'000;
constexpr size_t kMaxDims = 64;
using Kind = JsonReader::Kind;

// "torch.float32"; MindSpore: "Float32".
std::optional<DType> ProbeDType(std::string_view text) {
  if (text.starts_with("torch.")) return TorchDType(text.substr(6));
  return TorchDType(LowerCase(text));
}

// "input_args" -> "input": the word that file names use.
std::string_view CategoryOf(std::string_view key) {
  if (key == "input_args") return "input";
  if (key == "input_kwargs") return "kwargs";
  return key;
}

// Sums over a tensor in float32. With `precision: low` msprobe takes them in the tensor's own dtype
// where that has 16 bits.
double PrecisionOf(const std::optional<DType>& dtype) {
  if (dtype && dtype->view() == "bfloat16") return 0x1p-7;
  if (dtype && dtype->view() == "float16") return 0x1p-10;
  return 0x1p-16;
}

// The statistics or the checksum that dump.json has of a tensor.
struct ProbeStatistics {
  std::optional<double> max, min, mean, norm;
  std::string checksum;

  std::optional<double>* Find(std::string_view key) {
    if (key == "Max") return &max;
    if (key == "Min") return &min;
    if (key == "Mean") return &mean;
    if (key == "Norm") return &norm;
    return nullptr;
  }

  // NaN anywhere makes NaN of all of them. Doubles were cast, so that large ones are infinite; a
  // sum in float16 may be where the values are not.
  std::optional<Summary> ToSummary(const std::optional<DType>& dtype,
                                   const std::vector<int64_t>& sizes) const {
    if (!max && !checksum.empty()) return Summary{.checksum = checksum, .counts = false};
    if (!max || !min) return std::nullopt;
    Summary summary{.checksum = checksum, .counts = false, .precision = PrecisionOf(dtype)};
    summary.nan = std::isnan(*max) ? 1 : 0;
    if (summary.nan == 1) return summary;
    const bool is_double = dtype && dtype->view() == "float64";
    if (is_double && (std::isinf(*max) || std::isinf(*min))) return summary;
    summary.positive_inf = *max == std::numeric_limits<double>::infinity() ? 1 : 0;
    summary.negative_inf = *min == -std::numeric_limits<double>::infinity() ? 1 : 0;
    if (std::isinf(*max) || std::isinf(*min)) return summary;
    double elements = 1;
    for (const int64_t size : sizes) elements *= static_cast<double>(size);
    summary.max = max;
    summary.min = min;
    if (mean && std::isfinite(*mean)) summary.mean = mean;
    if (norm && std::isfinite(*norm) && elements > 0)
      summary.rms = std::abs(*norm) / std::sqrt(elements);  // of a number alone: the number
    return summary;
  }
};

class IndexReader {
 public:
  explicit IndexReader(Bytes file) : json_(std::move(file)) {}

  Result<std::vector<ProbeTensor>> Read() {
    bool found = false;
    TDUMP_RETURN_IF_ERROR(json_.ReadObject([&](const std::string& key) -> Status {
      if (key != "data") return json_.Skip();
      found = true;
      return json_.ReadObject([&](const std::string& entry) { return ReadEntry(entry); });
    }));
    if (!found) return json_.Error("no 'data': is this a dump.json of msprobe?");
    return std::move(tensors_);
  }

 private:
  Status ReadEntry(const std::string& entry) {
    TDUMP_ASSIGN_OR_RETURN(const Kind kind, json_.NextKind());
    if (kind != Kind::kObject) return json_.Skip();
    entry_ = entry;
    // Of the gradients of parameters there is no category, only their names.
    if (IsProbeGradients(entry)) {
      category_ = "parameters_grad";
      return ReadValue("");
    }
    return json_.ReadObject([&](const std::string& key) -> Status {
      category_ = CategoryOf(key);
      const size_t first = tensors_.size();
      TDUMP_RETURN_IF_ERROR(ReadValue(""));
      // A single output has no number: as tdump names what a module returns.
      if (category_ == "output" && tensors_.size() == first + 1 &&
          tensors_[first].name.key.arg == "0" && tensors_[first].name.key.role == Role::kOutput)
        tensors_[first].name.key.arg.clear();
      return {};
    });
  }

  Status ReadValue(const std::string& argument) {
    TDUMP_ASSIGN_OR_RETURN(const Kind kind, json_.NextKind());
    if (kind == Kind::kArray) {
      size_t index = 0;
      return json_.ReadArray([&] { return ReadValue(Below(argument, std::to_string(index++))); });
    }
    return kind == Kind::kObject ? ReadDescription(argument) : json_.Skip();
  }

  // A tensor, or named values.
  Status ReadDescription(const std::string& argument) {
    ProbeTensor tensor;
    ProbeStatistics described;
    std::string type, dtype;
    TDUMP_RETURN_IF_ERROR(json_.ReadObject([&](const std::string& key) -> Status {
      TDUMP_ASSIGN_OR_RETURN(const Kind kind, json_.NextKind());
      std::string* text = key == "type"        ? &type
                          : key == "dtype"     ? &dtype
                          : key == "data_name" ? &tensor.data_name
                          : key == "md5"       ? &described.checksum
                                               : nullptr;
      if (text != nullptr && kind == Kind::kText) {
        TDUMP_ASSIGN_OR_RETURN(*text, json_.ReadText());
        return {};
      }
      std::optional<double>* number = type.empty() ? nullptr : described.Find(key);
      if (number != nullptr && kind == Kind::kNumber) {
        TDUMP_ASSIGN_OR_RETURN(*number, json_.ReadNumber());
        return {};
      }
      if (key == "shape" && kind == Kind::kArray && !type.empty()) return ReadShape(&tensor.sizes);
      if (key == "value" && !type.empty()) return json_.Skip();
      return kind == Kind::kObject || kind == Kind::kArray ? ReadValue(Below(argument, key))
                                                           : json_.Skip();
    }));
    if (!type.ends_with("Tensor") || dtype.empty()) return {};
    tensor.dtype = ProbeDType(dtype);
    tensor.summary = described.ToSummary(tensor.dtype, tensor.sizes);
    return Add(argument, std::move(tensor));
  }

  Status ReadShape(std::vector<int64_t>* sizes) {
    return json_.ReadArray([&]() -> Status {
      if (sizes->size() == kMaxDims) return json_.Error("more than 64 dimensions");
      TDUMP_ASSIGN_OR_RETURN(const int64_t size, json_.ReadInteger());
      if (size < 0) return json_.Error("a negative size");
      sizes->push_back(size);
      return {};
    });
  }

  Status Add(std::string argument, ProbeTensor tensor) {
    if (tensors_.size() == kMaxTensors) return json_.Error("more tensors than are read");
    if (tensor.data_name.find_first_of(std::string_view("/\0", 2)) != std::string::npos ||
        tensor.data_name == "..")
      return json_.Error(fmt::format("'{}' is no file of dump_tensor_data", tensor.data_name));
    // {"weight": [gradient]}
    if (category_ == "parameters_grad" && argument.ends_with(".0"))
      argument.resize(argument.size() - 2);
    tensor.name = KeyOfProbe(entry_, category_, argument);
    tensors_.push_back(std::move(tensor));
    return {};
  }

  static std::string Below(const std::string& argument, const std::string& key) {
    return argument.empty() ? key : argument + "." + key;
  }

  JsonReader json_;
  std::string entry_;
  std::string category_;
  std::vector<ProbeTensor> tensors_;
};

}  // namespace

Result<std::vector<ProbeTensor>> ReadProbeIndex(Bytes file) {
  return IndexReader(std::move(file)).Read();
}

}  // namespace tdump::compare::foreign
