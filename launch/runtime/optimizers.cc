#include "launch/runtime/optimizers.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

namespace tdump::launch {
namespace {

constexpr std::string_view kTable = "vtable for ";

// The object may be gone: its memory is read by the kernel, which fails where a load would fault.
const void* FirstWord(const void* object) {
  const void* word = nullptr;
  iovec to{&word, sizeof word};
  iovec from{const_cast<void*>(object), sizeof word};
  return ::process_vm_readv(::getpid(), &to, 1, &from, 1, 0) == sizeof word ? word : nullptr;
}

std::string Demangled(const char* name) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(
      abi::__cxa_demangle(name, nullptr, nullptr, &status), std::free);
  return status == 0 && text != nullptr ? text.get() : "";
}

}  // namespace

uint64_t Optimizers::Number(const void* optimizer, std::string_view cls) {
  uint64_t number = 0;
  {
    std::lock_guard lock(mutex_);
    const auto found = std::find(known_.begin(), known_.end(), optimizer);
    number = static_cast<uint64_t>(found - known_.begin());
    if (found != known_.end()) return number;
    known_.push_back(optimizer);
  }
  clock_->boundary({.kind = BoundaryKind::kOptimizerCreated, .name = cls, .instance = number});
  return number;
}

std::string Optimizers::ClassOfFirst() {
  std::lock_guard lock(mutex_);
  Dl_info found{};
  const void* table = known_.empty() ? nullptr : FirstWord(known_.front());
  if (table == nullptr || ::dladdr(table, &found) == 0 || found.dli_sname == nullptr) return "";
  const std::string name = Demangled(found.dli_sname);
  return name.starts_with(kTable) ? name.substr(kTable.size()) : "";
}

void Optimizers::Created(const void* optimizer) noexcept {
  try {
    Number(optimizer, "");
  } catch (...) {  // out of memory: the step is not seen
  }
}

void Optimizers::Stepped(const void* optimizer, std::string_view cls) noexcept {
  try {
    const uint64_t number = Number(optimizer, cls);
    clock_->boundary({.kind = BoundaryKind::kOptimizerStep, .name = cls, .instance = number});
  } catch (...) {
  }
}

}  // namespace tdump::launch
