// What passes between the collector of compiled kernels (libtdump_torch.so) and libtdump.so beside
// core/runtime.h: how the launches are reported, and the reports that need no tensor. Asked for by
// name: tdump_runtime_kernels() in launch/runtime/exports.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "core/types.h"

namespace tdump {

// collect.kernels. kNames: only the breadcrumb of each launch.
enum class KernelMode : uint8_t { kOff = 0, kSave = 1, kPrint = 2, kNames = 3 };

// A tensor as `print` shows it. `bytes`: its canonical payload; empty where it has none or it
// cannot be read, `why_not` then says so.
struct PrintedTensor {
  std::string_view kernel;
  uint64_t call = 0;
  Role role = Role::kBefore;
  std::string_view arg;
  const TensorMeta* meta = nullptr;
  std::span<const std::byte> bytes;
  std::string_view why_not;
};

// Thread-safe, noexcept; lives as long as the process.
class KernelReports {
 public:
  virtual ~KernelReports() = default;
  virtual KernelMode mode() const noexcept = 0;
  // Whether this process leaves breadcrumbs. False before it is a rank.
  virtual bool leaves_crumbs() const noexcept = 0;
  // A launch begins, or it returned to the host. Costs two stores and a number.
  virtual void Began(OperatorId kernel) noexcept = 0;
  virtual void Ended(OperatorId kernel) noexcept = 0;
  // One line on standard error.
  virtual void Print(const PrintedTensor& tensor) noexcept = 0;
};

}  // namespace tdump
