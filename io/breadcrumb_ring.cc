#include "io/breadcrumb_ring.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace tdump::io {
namespace {

std::atomic<uint32_t> next_thread{0};

uint8_t ThreadNumber() noexcept {
  static thread_local const auto mine =
      static_cast<uint8_t>(next_thread.fetch_add(1, std::memory_order_relaxed));
  return mine;
}

uint64_t NowNs() noexcept {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

void Store(std::byte* at, uint64_t word, std::memory_order order) noexcept {
  std::atomic_ref<uint64_t>(*reinterpret_cast<uint64_t*>(at)).store(word, order);
}

CrumbHeader HeaderOf(const Identity& identity) {
  CrumbHeader header;
  header.rank = identity.rank;
  header.world = identity.world;
  header.pid = identity.pid;
  header.start_time = identity.start_time;
  header.created_ns = NowNs();
  identity.host.copy(header.host, sizeof header.host - 1);
  header.checksum = XXH3_64bits(&header, offsetof(CrumbHeader, checksum));
  return header;
}

// The mapping, or null with errno set. The file system has given every page of it.
void* MapNew(int fd) {
  if (const int error = ::posix_fallocate(fd, 0, kCrumbFileBytes); error != 0) {
    errno = error;
    return nullptr;
  }
  void* map = ::mmap(nullptr, kCrumbFileBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  return map == MAP_FAILED ? nullptr : map;
}

}  // namespace

Result<std::unique_ptr<BreadcrumbRing>> BreadcrumbRing::Create(const std::string& path,
                                                               const Identity& identity) {
  const int fd =
      ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, S_IRUSR | S_IWUSR);
  if (fd < 0) return ErrnoStatus(errno, "cannot make breadcrumbs", path);
  void* const map = MapNew(fd);
  const int error = errno;
  ::close(fd);
  if (map == nullptr) {
    ::unlink(path.c_str());
    return ErrnoStatus(error, "cannot make breadcrumbs", path);
  }
  const CrumbHeader header = HeaderOf(identity);
  std::memcpy(map, &header, sizeof header);
  return std::unique_ptr<BreadcrumbRing>(new BreadcrumbRing(path, static_cast<std::byte*>(map)));
}

BreadcrumbRing::BreadcrumbRing(std::string path, std::byte* map)
    : path_(std::move(path)), map_(map) {}

BreadcrumbRing::~BreadcrumbRing() { ::munmap(map_, kCrumbFileBytes); }

uint64_t BreadcrumbRing::AddName(std::string_view name) noexcept {
  const auto length = static_cast<uint16_t>(std::min(name.size(), kLongestCrumbName));
  if (length == 0) return 0;
  std::lock_guard lock(names_mutex_);
  const uint64_t at = names_end_, end = at + sizeof length + length;
  if (end > kCrumbNameBytes || at / 8 >= uint64_t{1} << CrumbWord::kNameBits) return 0;
  std::byte* const to = map_ + kCrumbHeaderBytes + 16 * kCrumbEntries + at;
  std::memcpy(to + sizeof length, name.data(), length);
  std::memcpy(to, &length, sizeof length);
  names_end_ = (end + 7) / 8 * 8;
  return at / 8;
}

void BreadcrumbRing::SetStep(uint64_t step) noexcept {
  step_.store(std::min(step, CrumbWord::kNoStep), std::memory_order_relaxed);
}

void BreadcrumbRing::Leave(uint64_t name, bool ended) noexcept {
  const uint64_t number = next_.fetch_add(1, std::memory_order_relaxed);
  const CrumbWord word{.step = step_.load(std::memory_order_relaxed),
                       .name = name,
                       .thread = ThreadNumber(),
                       .lap = static_cast<uint8_t>(number / kCrumbEntries),
                       .ended = ended};
  std::byte* const at = map_ + kCrumbHeaderBytes + 16 * (number % kCrumbEntries);
  Store(at, NowNs(), std::memory_order_relaxed);
  Store(at + 8, word.Pack(), std::memory_order_release);
}

bool IsInMemory(const std::string& path) {
  struct statfs found {};
  if (::statfs(path.c_str(), &found) != 0) return false;
  const uint64_t type = static_cast<uint64_t>(found.f_type) & 0xffffffff;
  return type == TMPFS_MAGIC || type == RAMFS_MAGIC;
}

}  // namespace tdump::io
