#include "coordinator/transport_file.h"

#include <utility>
#include <vector>

#include "coordinator/pace.h"

namespace tdump::coordinator {
namespace {

constexpr std::string_view kSuffix = ".slot";
constexpr int64_t kRest = 200;
constexpr int64_t kListingNs = 200'000'000;  // between two looks for new files

class FileTransport final : public AgreementTransport {
 public:
  FileTransport(Env* env, const std::string& clock_directory, FileTransportOptions options)
      : options_(std::move(options)),
        files_(env, clock_directory, options_.generation),
        pace_(options_.pace_ns, kRest),
        listing_(std::min(kListingNs, 40 * options_.pace_ns), kRest) {}

  std::string_view name() const noexcept override { return "file"; }
  void Send(const AgreementMessage&) noexcept override {}
  void Close() noexcept override {}

  void Poll(int32_t decider, bool eager, const Take& take) noexcept override {
    try {
      const int64_t began = options_.now_ns();
      if (!eager && !pace_.Due(began)) return;
      LookForFiles(began, eager);
      for (auto& [rank, reader] : files_.ranks()) {
        const bool wanted = decider == options_.rank || rank == decider;
        if (wanted && rank != options_.rank) ReadOne(rank, &reader, take);
      }
      pace_.Took(began, options_.now_ns());
    } catch (...) {  // out of memory: another time
    }
  }

  bool Silent(int32_t rank, int64_t limit_ns) const noexcept override {
    const auto found = heard_.find(rank);
    const int64_t since = found == heard_.end() ? first_poll_ns_ : found->second.at_ns;
    return since != 0 && options_.now_ns() - since > limit_ns;
  }

 private:
  struct Heard {
    int64_t pulse_ns = 0;
    int64_t at_ns = 0;
  };

  void LookForFiles(int64_t now_ns, bool eager) {
    if (first_poll_ns_ == 0) first_poll_ns_ = now_ns;
    if (files_.ranks().size() >= static_cast<size_t>(options_.world)) return;
    if (!eager && !listing_.Due(now_ns)) return;
    files_.Refresh();
    listing_.Took(now_ns, options_.now_ns());
  }

  void ReadOne(int32_t rank, SlotReader* reader, const Take& take) {
    messages_.clear();
    if (!reader->Read(&messages_).ok()) return;
    reader->Rest();
    Heard& heard = heard_[rank];
    if (heard.pulse_ns != reader->pulse().time_ns) {
      heard = {reader->pulse().time_ns, options_.now_ns()};
    }
    for (const AgreementMessage& message : messages_) take(message);
  }

  const FileTransportOptions options_;
  SlotDirectory files_;
  Pace pace_;
  Pace listing_;
  int64_t first_poll_ns_ = 0;
  std::map<int32_t, Heard> heard_;
  std::vector<AgreementMessage> messages_;  // of ReadOne, its memory kept
};

}  // namespace

SlotDirectory::SlotDirectory(Env* env, std::string directory, uint32_t generation)
    : env_(env), directory_(std::move(directory)), generation_(generation) {}

void SlotDirectory::Refresh() {
  const auto names = env_->List(directory_);
  if (!names.ok()) return;
  for (const std::string& name : *names) {
    if (!name.ends_with(kSuffix) || seen_.contains(name)) continue;
    auto reader = SlotReader::Open(env_, JoinPath(directory_, name));
    if (!reader.ok()) continue;  // just being made, or damaged: another time
    reader->Rest();
    seen_.insert(name);
    const SlotHeader header = reader->header();
    if (header.generation != generation_) continue;
    const auto found = ranks_.find(header.rank);
    if (found == ranks_.end()) {
      ranks_.emplace(header.rank, std::move(reader).value());
    } else if (header.started_ns < found->second.header().started_ns) {
      found->second = std::move(reader).value();
    }
  }
}

std::unique_ptr<AgreementTransport> NewFileTransport(Env* env, const std::string& clock_directory,
                                                     FileTransportOptions options) {
  return std::make_unique<FileTransport>(env, clock_directory, std::move(options));
}

}  // namespace tdump::coordinator
