#include "launch/runtime/kernel_monitor.h"

#include <xxhash.h>

#include <algorithm>

#include <fmt/format.h>

#include "core/env.h"
#include "core/key.h"
#include "core/text.h"
#include "io/statistics.h"
#include "io/value.h"
#include "launch/runtime/terminal.h"

namespace tdump::launch {
namespace {

constexpr const char* kSharedMemory = "/dev/shm";
constexpr size_t kFirstValues = 8;

// Where the crumbs of a process lie that are not to be, or cannot be, in the run directory.
// A process that crashed leaves its own there: not in the way of another that has its number.
std::string NodeLocalPath(const std::string& directory, const std::string& link,
                          const Identity& identity) {
  return JoinPath(directory,
                  fmt::format("tdump_{:016x}_{}_{}", XXH3_64bits(link.data(), link.size()),
                              identity.start_time, link.substr(link.rfind('/') + 1)));
}

std::string SizesText(std::span<const int64_t> sizes) {
  return fmt::format("[{}]", fmt::join(sizes, ", "));
}

std::string NumbersText(const Statistics& s) {
  if (s.kind == StatisticsKind::kBits) return "";
  std::string text;
  if (s.has_range())
    text += fmt::format("  min {:.6g}  max {:.6g}  mean {:.6g}", s.min, s.max, s.mean);
  if (s.has_std()) text += fmt::format("  std {:.6g}", s.std);
  if (s.nan != 0) text += fmt::format("  {} NaN", s.nan);
  if (s.positive_inf + s.negative_inf != 0)
    text += fmt::format("  {} Inf", s.positive_inf + s.negative_inf);
  return text;
}

std::string FirstValues(const DType& dtype, std::span<const std::byte> bytes) {
  const io::ValueDecoder decoder(dtype);
  const size_t unit = decoder.unit_bytes(), each = decoder.elements_per_unit();
  const size_t elements = bytes.size() / unit * each;
  std::string text;
  for (size_t i = 0; i < std::min(elements, kFirstValues); ++i)
    text += (i == 0 ? "" : " ") +
            decoder.Text(bytes.subspan(i / each * unit, unit), static_cast<uint32_t>(i % each));
  return text + (elements > kFirstValues ? " ..." : "");
}

}  // namespace

// Tells the monitor of each step that begins.
class KernelMonitor::Steps final : public coordinator::StepAgreement {
 public:
  Steps(KernelMonitor* monitor, coordinator::StepAgreement* inner)
      : monitor_(monitor), inner_(inner) {}
  void Ended(const coordinator::EndedStep& step) noexcept override { inner_->Ended(step); }
  uint64_t NumberOf(uint64_t local) noexcept override { return inner_->NumberOf(local); }
  void Began(uint64_t number) noexcept override {
    inner_->Began(number);
    monitor_->step_.store(static_cast<int64_t>(number), std::memory_order_relaxed);
    if (io::BreadcrumbRing* ring = monitor_->ring()) ring->SetStep(number);
  }
  void Close() noexcept override { inner_->Close(); }

 private:
  KernelMonitor* const monitor_;
  coordinator::StepAgreement* const inner_;
};

KernelMonitor::KernelMonitor(const filters::Config& config, const OperatorTable* operators)
    : config_(config), operators_(operators), mode_(config.kernels) {}

KernelMonitor::~KernelMonitor() = default;

bool KernelMonitor::WantsCrumbs(const Identity& identity, bool selected) const {
  if (mode_ == KernelMode::kOff) return false;
  if (config_.crumb_ranks.is_none()) return mode_ == KernelMode::kNames && selected;
  return config_.crumb_ranks.Contains(static_cast<uint64_t>(identity.rank),
                                      static_cast<uint64_t>(identity.world));
}

Status KernelMonitor::Open(const Identity& identity, bool selected, const std::string& link) {
  rank_.store(identity.rank, std::memory_order_relaxed);
  if (!WantsCrumbs(identity, selected)) return {};
  std::string path = link;
  if (!config_.crumb_dir.empty())
    path = NodeLocalPath(config_.crumb_dir, link, identity);
  else if (!io::IsInMemory(link.substr(0, link.rfind('/'))))
    path = NodeLocalPath(kSharedMemory, link, identity);
  TDUMP_ASSIGN_OR_RETURN(auto ring, io::BreadcrumbRing::Create(path, identity));
  if (path != link) {
    if (const Status linked = Env::Posix()->Symlink(path, link); !linked.ok()) {
      (void)Env::Posix()->Remove(path);
      return linked;
    }
  }
  link_ = link;
  names_.Clear();
  ring_.store(ring.release(), std::memory_order_release);
  return {};
}

coordinator::StepAgreement* KernelMonitor::Watch(coordinator::StepAgreement* inner) {
  if (mode_ == KernelMode::kOff) return inner;
  steps_ = std::make_unique<Steps>(this, inner);
  return steps_.get();
}

void KernelMonitor::Close(bool well) noexcept {
  if (!well) return;
  const io::BreadcrumbRing* ring = ring_.exchange(nullptr);
  if (ring == nullptr) return;
  (void)Env::Posix()->Remove(link_);
  if (ring->path() != link_) (void)Env::Posix()->Remove(ring->path());
}

void KernelMonitor::Leave(OperatorId kernel, bool ended) noexcept try {
  io::BreadcrumbRing* const ring = this->ring();
  if (ring == nullptr) return;
  uint64_t name = names_.Get(kernel);
  if (name == 0) {
    const OperatorInfo& info = operators_->Get(kernel);
    name = ring->AddName(PlainName(info.root, info.path, info.op)) + 1;
    names_.Set(kernel, name);
  }
  ring->Leave(name - 1, ended);
} catch (...) {  // out of memory
}

void KernelMonitor::Print(const PrintedTensor& tensor) noexcept try {
  const TensorMeta& meta = *tensor.meta;
  const int64_t step = step_.load(std::memory_order_relaxed);
  std::string text =
      fmt::format("rank {}  step {}  {}::call{}@{}#{}  {} {} {}",
                  rank_.load(std::memory_order_relaxed), step < 0 ? "-" : fmt::format("{}", step),
                  Printable(tensor.kernel), tensor.call, ToString(tensor.role),
                  Printable(tensor.arg), SizesText(meta.sizes), meta.dtype.view(), meta.device);
  if (!tensor.why_not.empty()) {
    text += fmt::format("  (no values: {})", Printable(tensor.why_not));
  } else if (!tensor.bytes.empty()) {
    text += NumbersText(io::StatisticsOf(meta.dtype, tensor.bytes));
    text += "  | " + FirstValues(meta.dtype, tensor.bytes);
  }
  tdump::launch::Print(fmt::format("tdump: {}\n", text), LogLevel::kError);
} catch (...) {  // out of memory
}

}  // namespace tdump::launch
