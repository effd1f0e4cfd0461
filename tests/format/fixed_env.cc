#include "tests/format/fixed_env.h"

#include "tests/io/forwarding_env.h"

namespace tdump::io::test {
namespace {

class FixedEnv final : public ForwardingEnv {
 public:
  FixedEnv() : ForwardingEnv(NewMemoryEnv()) {}
  Result<FileInfo> Stat(Path path) override {
    Result<FileInfo> info = base_->Stat(path);
    if (info.ok()) info->mtime_ns = kFixedNs;
    return info;
  }
  int64_t MonotonicNs() override { return kFixedNs; }
  int64_t WallNs() override { return kFixedNs; }
};

}  // namespace

std::unique_ptr<Env> NewFixedEnv() { return std::make_unique<FixedEnv>(); }

}  // namespace tdump::io::test
