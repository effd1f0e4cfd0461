// The words of tdump as types (docs/design.md, "Words"). Everything here is plain
// data: no behaviour, no ownership of tensors. Views (string_view, span) live only
// as long as the call that passes them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tdump {

enum class OperatorKind : uint8_t {
  kModule = 0,
  kAten = 1,
  kKernel = 2,
  kCollective = 3,
  kTap = 4
};

// kInput, kOutput: values passed and returned. kBefore, kAfter: the two
// states of an argument that is written.
enum class Role : uint8_t {
  kInput = 0,
  kOutput = 1,
  kBefore = 2,
  kAfter = 3,
  kGradInput = 4,
  kGradOutput = 5,
  kParam = 6,
  kParamGrad = 7,
  kState = 8,
};
inline constexpr int kRoleCount = 9;

enum class Phase : uint8_t { kForward = 0, kBackward = 1 };

// What is kept of an observation. A level of the configuration is shorthand for a set of parts.
using Parts = uint32_t;
inline constexpr Parts kPartNone = 0;
inline constexpr Parts kPartMeta = 1;
inline constexpr Parts kPartHash = 2;
inline constexpr Parts kPartStats = 4;
inline constexpr Parts kPartSample = 8;
inline constexpr Parts kPartPayload = 16;
inline constexpr Parts kPartSlice = 32;  // the payload of a slice only
inline constexpr Parts kLevelFull = kPartMeta | kPartHash | kPartPayload;

// A numeric type known by name and width only, so that a dtype nobody has heard of still
// round-trips. One unit is what the framework counts as one element (torch's float4_e2m1fn_x2 packs
// two 4-bit elements in a unit).
struct DType {
  // torch's name without "torch.": "float32", "float8_e4m3fn", "int4"; NUL-terminated.
  char name[24] = {};
  uint16_t bits_per_element = 0;
  uint16_t elements_per_unit = 1;

  uint32_t unit_bytes() const { return (uint32_t{bits_per_element} * elements_per_unit + 7) / 8; }
  std::string_view view() const { return name; }
  bool operator==(const DType&) const = default;
};
DType MakeDType(std::string_view name, int bits_per_element, int elements_per_unit = 1);

enum class Layout : uint8_t {
  kStrided = 0,
  kSparseCoo,
  kSparseCsr,
  kSparseCsc,
  kSparseBsr,
  kSparseBsc,
  kNested,
  kJagged,
  kMkldnn,
  kOpaque,
  kSubclass,
};

// Shape, strides and identity of one tensor at the moment it was seen. Sizes and strides are in
// units of the dtype.
struct TensorMeta {
  DType dtype;
  Layout layout = Layout::kStrided;
  std::string_view device = "cpu";  // torch's text form: "cpu", "cuda:1", "meta"
  std::span<const int64_t> sizes;
  std::span<const int64_t> strides;  // empty unless layout is kStrided
  int64_t storage_offset = 0;        // units
  // Address of the storage's data while seen; 0 for an empty storage (never compared).
  uint64_t storage_id = 0;
  uint64_t storage_bytes = 0;
  bool conj = false;  // the payload has conj and neg resolved; the flags say what the view was
  bool neg = false;
  bool requires_grad = false;
  std::string_view dim_names;  // named tensors, comma separated; else empty
  std::string_view subclass;   // class name of a wrapper subclass, quantiser, ...; else empty
};

// Facts about an operator that never change. Registered once per process (core/operator_table.h).
struct OperatorInfo {
  OperatorKind kind = OperatorKind::kModule;
  std::string root;  // "" for the only root, else "Critic#1"
  std::string path;  // dotted module path as named_modules() gives it; "." for the root itself
  std::string op;    // "aten::addmm", "allreduce", a tap's name; "" for the module itself
  // Class of the module ("torch.nn.modules.linear.Linear"); of the owner for an ATen op.
  std::string cls;
  std::vector<std::string> aliases;  // further paths of a shared module
  bool leaf = false;                 // a module without child modules
  bool operator==(const OperatorInfo&) const = default;
};
using OperatorId = uint32_t;
inline constexpr OperatorId kNoOperator = ~OperatorId{0};

// One execution of an operator. `begin` and `end` are taken from one 64-bit sequence per process,
// so a call encloses another exactly when its interval does. A record names its call by `begin`.
struct Call {
  OperatorId op = kNoOperator;
  uint64_t pass = 0;    // ordinal of the pass the call began in
  uint64_t begin = 0;   // sequence number; 0 = not open
  uint64_t end = 0;     // 0 until it ended; stays 0 when the operator threw
  uint64_t parent = 0;  // begin of the enclosing call on the same lane, 0 for none
  // n-th call of (path, op) within (micro, phase, lane), recomputed forwards excluded.
  uint64_t index = 0;
  uint32_t micro = 0;
  uint32_t chunk = 0;
  uint32_t lane = 0;
  uint64_t thread = 0;  // operating-system thread id
  int32_t stream = -1;  // ordinal of the device stream, -1 on the CPU
  Phase phase = Phase::kForward;
  bool recompute = false;
  bool compiled = false;
  bool threw = false;
  bool was_kept = false;  // some observation of the call had parts asked for
};

// Shape of one argument of a call, for the call record (every argument,
// whatever is kept of its tensor).
struct ArgumentMeta {
  Role role = Role::kInput;
  std::string arg;
  std::string dtype;
  std::vector<int64_t> sizes;
};

// What the bytes handed to the sink are: the canonical payload, or already only what the rule keeps
// of it (a slice, a sample), where nothing else was asked for.
enum class Content : uint8_t { kWhole = 0, kSlice, kSample };

// One tensor seen at one point of a call.
struct Observation {
  Role role = Role::kOutput;
  std::string_view arg;  // path within the arguments: "0", "1.hidden_states", "kwargs.mask"
  TensorMeta meta;
  bool late = false;                      // an input that could only be read after the call
  std::string_view dims;                  // annotation of the matching rule, e.g. "b s h[tp]"
  std::string_view placements;            // DTensor and the like; reserved
  std::string_view mesh;                  // reserved
  std::span<const int64_t> global_shape;  // reserved
  uint64_t filter_sets = 0;               // bit i: filter set i asked for the record
  Content content = Content::kWhole;
};

// Why an observation kept less than was asked for. Written with the
// record and counted in the coverage.
enum class SkipReason : uint8_t {
  kNone = 0,
  kNotOnCpu,  // on a device whose values no collector takes: "xpu", "cuda:0" where CUDA is missing
  kNoData,    // meta, fake, functional, batched: a shape without data
  kLayout,    // mkldnn, opaque, quantised with several values a byte: only their meta is known
  kSubclass,  // DTensor and other wrapper subclasses
  kMemoryLimit,
  kDiskLimit,
  kDiskError,
  kMaxRecords,    // the rule's `max`
  kPassEnded,     // committed after its pass had to be closed
  kCopyFailed,    // the copy threw
  kCompiled,      // inside a compiled or traced region
  kStagingLimit,  // no room in the device's staging
  kDeviceError,   // the device refused the copy
  kRewritten,     // a gradient of a view that was written in place: autograd has none
};
std::string_view ToString(SkipReason reason);
std::string_view ToString(Role role);
std::string_view ToString(Phase phase);
std::string_view ToString(OperatorKind kind);
std::string_view ToString(Layout layout);
std::string PartsToString(Parts parts);  // "meta+hash+payload"
bool ParseRole(std::string_view text, Role* role);
bool ParsePhase(std::string_view text, Phase* phase);

enum class StepMode : uint8_t { kForward = 0, kEval = 1, kTrain = 2, kExplicit = 3 };
std::string_view ToString(StepMode mode);

// Number of bytes the canonical payload takes: logical elements in row-major order, stride-0
// dimensions stored once. Returns false when the product overflows.
bool PayloadBytes(const TensorMeta& meta, uint64_t* bytes);

}  // namespace tdump
