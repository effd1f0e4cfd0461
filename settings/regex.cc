#include "settings/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>

#include "settings/mistakes.h"

namespace tdump::settings {
namespace {

constexpr uint32_t kMatchLimit = 100'000;  // steps of backtracking: about a millisecond
constexpr uint32_t kDepthLimit = 10'000;
constexpr uint32_t kHeapLimitKiB = 4'096;
constexpr size_t kMaxPattern = 16'384;

// What a match needs besides the pattern. One per thread: the same for every pattern.
struct Scratch {
  pcre2_match_data* data = pcre2_match_data_create(1 + Regex::kMaxGroups, nullptr);
  pcre2_match_context* context = pcre2_match_context_create(nullptr);

  Scratch() {
    if (context == nullptr) return;
    pcre2_set_match_limit(context, kMatchLimit);
    pcre2_set_depth_limit(context, kDepthLimit);
    pcre2_set_heap_limit(context, kHeapLimitKiB);
  }
  ~Scratch() {
    pcre2_match_data_free(data);
    pcre2_match_context_free(context);
  }
};

thread_local uint64_t searches = 0;

Scratch& ScratchOfThread() noexcept {
  static thread_local Scratch scratch;
  return scratch;
}

// pcre2_match's answer; the places are in the thread's scratch.
int Run(const pcre2_code* code, std::string_view subject) noexcept {
  Scratch& scratch = ScratchOfThread();
  if (scratch.data == nullptr || scratch.context == nullptr) return PCRE2_ERROR_NOMEMORY;
  const auto* bytes = reinterpret_cast<PCRE2_SPTR>(subject.empty() ? "" : subject.data());
  const int rc = pcre2_match(code, bytes, subject.size(), 0, 0, scratch.data, scratch.context);
  if (rc != PCRE2_ERROR_JIT_STACKLIMIT) return rc;
  return pcre2_match(code, bytes, subject.size(), 0, PCRE2_NO_JIT, scratch.data, scratch.context);
}

Regex::Match MatchOf(int rc) {
  if (rc >= 0) return Regex::Match::kYes;
  return rc == PCRE2_ERROR_NOMATCH ? Regex::Match::kNo : Regex::Match::kGaveUp;
}

}  // namespace

uint64_t Regex::SearchesOfThread() noexcept { return searches; }

struct Regex::Code {
  pcre2_code* code = nullptr;
  ~Code() { pcre2_code_free(code); }
};

Regex::Regex(std::string pattern, std::unique_ptr<Code> code)
    : pattern_(std::move(pattern)), code_(std::move(code)) {}
Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;
Regex::~Regex() = default;

Result<Regex> Regex::Compile(std::string_view pattern) {
  if (pattern.size() > kMaxPattern) {
    return InvalidArgument("regex of " + std::to_string(pattern.size()) + " bytes: longer than " +
                           std::to_string(kMaxPattern));
  }
  int error = 0;
  size_t offset = 0;
  auto code = std::make_unique<Code>();
  code->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                             PCRE2_UTF | PCRE2_MATCH_INVALID_UTF | PCRE2_NEVER_BACKSLASH_C, &error,
                             &offset, nullptr);
  if (code->code == nullptr) {
    char message[256] = "unknown error";
    pcre2_get_error_message(error, reinterpret_cast<PCRE2_UCHAR*>(message), sizeof message);
    return InvalidArgument("regex '" + Printable(pattern) + "': " + message + " at position " +
                           std::to_string(offset));
  }
  pcre2_jit_compile(code->code, PCRE2_JIT_COMPLETE);  // where it is refused, matching interprets
  return Regex(std::string(pattern), std::move(code));
}

Regex::Match Regex::Search(std::string_view subject) const noexcept {
  ++searches;
  return MatchOf(Run(code_->code, subject));
}

Regex::Match Regex::Find(std::string_view subject, std::vector<std::string_view>* groups) const {
  ++searches;
  const Match match = MatchOf(Run(code_->code, subject));
  if (match != Match::kYes) return match;
  const PCRE2_SIZE* places = pcre2_get_ovector_pointer(ScratchOfThread().data);
  groups->assign(1 + this->groups(), {});
  for (size_t i = 0; i < groups->size(); ++i) {
    const PCRE2_SIZE begin = places[2 * i], end = places[2 * i + 1];
    if (begin != PCRE2_UNSET && begin <= end) (*groups)[i] = subject.substr(begin, end - begin);
  }
  return match;
}

size_t Regex::groups() const {
  uint32_t count = 0;
  pcre2_pattern_info(code_->code, PCRE2_INFO_CAPTURECOUNT, &count);
  return std::min<size_t>(count, kMaxGroups);
}

size_t Regex::GroupNamed(const std::string& name) const {
  const int number =
      pcre2_substring_number_from_name(code_->code, reinterpret_cast<PCRE2_SPTR>(name.c_str()));
  return number > 0 ? static_cast<size_t>(number) : 0;
}

}  // namespace tdump::settings
