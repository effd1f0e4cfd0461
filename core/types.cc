#include "core/types.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace tdump {
namespace {

constexpr std::array<std::string_view, kRoleCount> kRoles = {"input", "output",     "before",
                                                             "after", "grad_input", "grad_output",
                                                             "param", "param_grad", "state"};

}  // namespace

DType MakeDType(std::string_view name, int bits_per_element, int elements_per_unit) {
  DType dtype;
  const size_t length = std::min(name.size(), sizeof(dtype.name) - 1);
  std::memcpy(dtype.name, name.data(), length);
  dtype.bits_per_element = static_cast<uint16_t>(bits_per_element);
  dtype.elements_per_unit = static_cast<uint16_t>(elements_per_unit);
  return dtype;
}

std::string_view ToString(Role role) {
  const auto i = static_cast<size_t>(role);
  return i < kRoles.size() ? kRoles[i] : "unknown";
}

bool ParseRole(std::string_view text, Role* role) {
  for (size_t i = 0; i < kRoles.size(); ++i) {
    if (kRoles[i] == text) {
      *role = static_cast<Role>(i);
      return true;
    }
  }
  return false;
}

std::string_view ToString(Phase phase) { return phase == Phase::kForward ? "forward" : "backward"; }

bool ParsePhase(std::string_view text, Phase* phase) {
  if (text == "forward")
    *phase = Phase::kForward;
  else if (text == "backward")
    *phase = Phase::kBackward;
  else
    return false;
  return true;
}

std::string_view ToString(OperatorKind kind) {
  switch (kind) {
    case OperatorKind::kModule:
      return "module";
    case OperatorKind::kAten:
      return "aten";
    case OperatorKind::kKernel:
      return "kernel";
    case OperatorKind::kCollective:
      return "collective";
    case OperatorKind::kTap:
      return "tap";
  }
  return "unknown";
}

std::string_view ToString(Layout layout) {
  switch (layout) {
    case Layout::kStrided:
      return "strided";
    case Layout::kSparseCoo:
      return "sparse_coo";
    case Layout::kSparseCsr:
      return "sparse_csr";
    case Layout::kSparseCsc:
      return "sparse_csc";
    case Layout::kSparseBsr:
      return "sparse_bsr";
    case Layout::kSparseBsc:
      return "sparse_bsc";
    case Layout::kNested:
      return "nested";
    case Layout::kJagged:
      return "jagged";
    case Layout::kMkldnn:
      return "mkldnn";
    case Layout::kOpaque:
      return "opaque";
    case Layout::kSubclass:
      return "subclass";
  }
  return "unknown";
}

std::string_view ToString(SkipReason reason) {
  switch (reason) {
    case SkipReason::kNone:
      return "none";
    case SkipReason::kNotOnCpu:
      return "another device, meta only";
    case SkipReason::kNoData:
      return "no data (meta, fake or functional tensor, or freed storage)";
    case SkipReason::kLayout:
      return "layout, meta only";
    case SkipReason::kSubclass:
      return "wrapper subclass, meta only";
    case SkipReason::kMemoryLimit:
      return "memory limit";
    case SkipReason::kDiskLimit:
      return "disk limit";
    case SkipReason::kDiskError:
      return "disk error";
    case SkipReason::kMaxRecords:
      return "rule's max reached";
    case SkipReason::kPassEnded:
      return "pass ended before the copy was finished";
    case SkipReason::kCopyFailed:
      return "copy failed";
    case SkipReason::kCompiled:
      return "inside a compiled or traced region (not in this version)";
    case SkipReason::kStagingLimit:
      return "device staging limit";
    case SkipReason::kDeviceError:
      return "device error";
    case SkipReason::kRewritten:
      return "autograd has no gradient of a view once it was written in place";
  }
  return "unknown";
}

std::string_view ToString(StepMode mode) {
  switch (mode) {
    case StepMode::kForward:
      return "forward";
    case StepMode::kEval:
      return "eval";
    case StepMode::kTrain:
      return "train";
    case StepMode::kExplicit:
      return "explicit";
  }
  return "unknown";
}

std::string PartsToString(Parts parts) {
  static constexpr std::pair<Parts, std::string_view> kNames[] = {
      {kPartMeta, "meta"},     {kPartHash, "hash"},   {kPartStats, "stats"},
      {kPartSample, "sample"}, {kPartSlice, "slice"}, {kPartPayload, "payload"}};
  std::string text;
  for (const auto& [bit, name] : kNames) {
    if ((parts & bit) == 0) continue;
    if (!text.empty()) text += '+';
    text += name;
  }
  return text.empty() ? "off" : text;
}

bool PayloadBytes(const TensorMeta& meta, uint64_t* bytes) {
  if (std::any_of(meta.sizes.begin(), meta.sizes.end(), [](int64_t size) { return size < 0; }))
    return false;
  *bytes = 0;
  if (std::find(meta.sizes.begin(), meta.sizes.end(), 0) != meta.sizes.end()) return true;
  uint64_t total = meta.dtype.unit_bytes();
  for (size_t i = 0; i < meta.sizes.size(); ++i) {
    const bool stored_once =
        meta.layout == Layout::kStrided && i < meta.strides.size() && meta.strides[i] == 0;
    if (stored_once) continue;
    if (__builtin_mul_overflow(total, static_cast<uint64_t>(meta.sizes[i]), &total)) return false;
  }
  *bytes = total;
  return true;
}

}  // namespace tdump
