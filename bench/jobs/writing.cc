// Writes many tensors of kLarge bytes, no two alike, as fast as it can.
//   writing MIB           each is tapped (under tdump-run); a step has kPerStep of them
//   writing MIB --small   the same, of kSmall bytes each
//   writing MIB FOLDER    each is written to a file of FOLDER; a file has kPerStep of them
// Prints when the first began, in nanoseconds of CLOCK_MONOTONIC. When all is on the disk is for
// the caller to find out.
#include <ATen/Parallel.h>
#include <fcntl.h>
#include <tdump/tdump.h>
#include <torch/torch.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "bench/jobs/turns.h"

namespace {

constexpr int64_t kLarge = 16 << 20, kSmall = 64 << 10;
constexpr int64_t kPerStep = 16;

// Makes the n-th tensor of the job: all of a page would compare equal, a word a page is enough to
// make a digest of its own.
void Stamp(at::Tensor* values, int64_t number) {
  auto* words = values->mutable_data_ptr<int64_t>();
  for (int64_t i = 0; i < values->numel(); i += 512) words[i] = number;
}

void WriteAll(int file, const char* bytes, int64_t left) {
  while (left > 0) {
    const ssize_t written = write(file, bytes, static_cast<size_t>(left));
    if (written <= 0) {
      std::perror("writing: write");
      std::exit(1);
    }
    bytes += written;
    left -= written;
  }
}

int OpenFile(const std::string& folder, int64_t number) {
  const std::string path = folder + "/" + std::to_string(number);
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (file < 0) {
    std::perror(path.c_str());
    std::exit(1);
  }
  return file;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fputs("usage: writing MIB [--small | FOLDER]\n", stderr);
    return 2;
  }
  at::set_num_threads(1);
  const std::string word = argc > 2 ? argv[2] : "";
  const bool is_small = word == "--small";
  const std::string folder = is_small ? "" : word;
  const int64_t bytes = is_small ? kSmall : kLarge;
  const int64_t count = std::atoll(argv[1]) * (1 << 20) / bytes;
  at::Tensor values = torch::randint(INT64_MAX, {bytes / 8}, at::kLong);
  int file = -1;
  std::printf("%ld\n", tdump::bench::Nanoseconds(CLOCK_MONOTONIC));
  std::fflush(stdout);
  for (int64_t i = 0; i < count; ++i) {
    Stamp(&values, i);
    if (folder.empty()) {
      if (i % kPerStep == 0) tdump::step();
      tdump::tap(values, "bench");
      continue;
    }
    if (i % kPerStep == 0) {
      if (file >= 0) close(file);
      file = OpenFile(folder, i / kPerStep);
    }
    WriteAll(file, static_cast<const char*>(values.const_data_ptr()), bytes);
  }
  if (file >= 0) close(file);
}
