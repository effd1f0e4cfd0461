#include "launch/tdump_run/estimate_rates.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <span>
#include <vector>

#include "core/env.h"
#include "core/text.h"
#include "io/hash.h"
#include "io/statistics.h"

namespace tdump::launch {
namespace {

using Seconds = std::chrono::duration<double>;

constexpr uint64_t kMostOfFile = 4096;

struct Field {
  const char* name;
  double Rates::*rate;
};
constexpr Field kFields[] = {{"copy", &Rates::copy},
                             {"hash", &Rates::hash},
                             {"statistics", &Rates::statistics},
                             {"write", &Rates::write},
                             {"disk", &Rates::disk}};

double RateOf(double least_seconds, uint64_t bytes, const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  uint64_t done = 0;
  Seconds took{};
  while (took.count() < least_seconds) {
    work();
    done += bytes;
    took = std::chrono::steady_clock::now() - begin;
  }
  return static_cast<double>(done) / took.count();
}

// A file without a name, so that nothing is left of it; -1: the file system takes none.
int NamelessFile(const std::string& folder) {
  const int fd = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd >= 0) return fd;
  std::string name = folder + "/.tdump-estimate-XXXXXX";
  const int named = ::mkstemp(name.data());
  if (named >= 0) (void)::unlink(name.c_str());
  return named;
}

void MeasureFiles(const std::string& folder, const std::vector<std::byte>& from, Rates* rates) {
  constexpr double kLongEnough = 0.5;
  constexpr uint64_t kMost = 256 << 20;
  const int fd = NamelessFile(NearestFolder(folder));
  if (fd < 0) return;
  const auto begin = std::chrono::steady_clock::now();
  uint64_t done = 0;
  Seconds written{}, synced{};
  bool ok = true;
  while (ok && synced.count() < kLongEnough && done < kMost) {
    const auto start = std::chrono::steady_clock::now();
    ok = ::write(fd, from.data(), from.size()) == static_cast<ssize_t>(from.size());
    written += std::chrono::steady_clock::now() - start;
    ok = ok && ::fdatasync(fd) == 0;
    synced = std::chrono::steady_clock::now() - begin;
    done += from.size();
  }
  ::close(fd);
  if (!ok) return;
  rates->write = static_cast<double>(done) / written.count();
  rates->disk = static_cast<double>(done) / synced.count();
}

// "NAME NUMBER"; false: it is neither a rate nor the cores.
bool TakeLine(std::string_view line, Rates* rates) {
  const size_t space = line.find(' ');
  if (space == std::string_view::npos) return false;
  double value = 0;
  const char* end = line.data() + line.size();
  const auto [stop, error] = std::from_chars(line.data() + space + 1, end, value);
  if (error != std::errc() || stop != end || !(value >= 0 && value < 1e15)) return false;
  const std::string_view name = line.substr(0, space);
  for (const Field& field : kFields) {
    if (name != field.name) continue;
    rates->*field.rate = value;
    return true;
  }
  if (name != "cores" || value >= 1e6) return false;
  rates->cores = static_cast<unsigned>(value);
  return true;
}

}  // namespace

std::string NearestFolder(const std::string& folder) {
  std::error_code error;
  std::filesystem::path path = std::filesystem::absolute(folder, error).lexically_normal();
  while (path.has_relative_path() && !std::filesystem::is_directory(path, error))
    path = path.parent_path();
  return path.string();
}

Rates MeasureRates(const std::string& folder) {
  constexpr size_t kBytes = 64 << 20, kPiece = 8 << 20;
  Rates rates;
  std::vector<std::byte> from(kBytes, std::byte{1}), to(kBytes, std::byte{2});
  size_t copies = 0;
  rates.copy = RateOf(0.5, kBytes, [&] {  // long enough for a fair share of the CPU
    std::memcpy(to.data(), from.data(), kBytes);
    from[copies++ % kBytes] = to[kBytes - 1];
  });
  const std::span<const std::byte> piece = std::span(from).first(kPiece);
  io::TileHasher hasher;
  rates.hash = RateOf(0.2, kPiece, [&] { hasher.Update(piece); });
  io::StatisticsAccumulator statistics(MakeDType("float32", 32));
  rates.statistics = RateOf(0.2, kPiece, [&] { statistics.Update(piece); });
  cpu_set_t mine;
  if (::sched_getaffinity(0, sizeof mine, &mine) == 0)
    rates.cores = static_cast<unsigned>(CPU_COUNT(&mine));
  from.resize(kPiece);
  MeasureFiles(folder, from, &rates);
  return rates;
}

std::string RatesText(const Rates& rates) {
  std::string text;
  for (const Field& field : kFields)
    text += fmt::format("{} {:.0f}\n", field.name, rates.*field.rate);
  return text + fmt::format("cores {}\n", rates.cores);
}

Result<Rates> ReadRates(const std::string& file) {
  TDUMP_ASSIGN_OR_RETURN(const std::string text, ReadFile(Env::Posix(), file, kMostOfFile));
  Rates rates;
  int number = 0;
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    ++number;
    if (line.empty() || TakeLine(line, &rates)) continue;
    return InvalidArgument(fmt::format(
        "{}:{}: {}: expected a line that --rates wrote, such as 'copy 5000000000' (bytes a second)",
        file, number, Printable(line)));
  }
  if (rates.copy <= 0)
    return InvalidArgument(
        fmt::format("{}: no line 'copy', expected a file that --rates wrote", file));
  return rates;
}

Status CheckRates(const std::string& file) {
  std::error_code error;
  if (file.empty() || !std::filesystem::exists(file, error)) return Status::Ok();
  return ReadRates(file).status();
}

Result<Rates> RatesFor(const std::string& file, const std::string& folder) {
  if (file.empty()) return MeasureRates(folder);
  std::error_code error;
  if (std::filesystem::exists(file, error)) return ReadRates(file);
  const Rates rates = MeasureRates(folder);
  TDUMP_RETURN_IF_ERROR(WriteFileAtomically(Env::Posix(), file, RatesText(rates), 0644));
  return rates;
}

}  // namespace tdump::launch
