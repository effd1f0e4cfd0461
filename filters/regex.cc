#include "filters/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "filters/mistakes.h"

namespace tdump::filters {
namespace {

constexpr uint32_t kMatchLimit = 100'000;  // steps of backtracking: about a millisecond
constexpr uint32_t kDepthLimit = 10'000;
constexpr uint32_t kHeapLimitKiB = 4'096;
constexpr size_t kMaxPattern = 16'384;

// What a match needs besides the pattern. One per thread: the same for every pattern.
struct Scratch {
  pcre2_match_data* data = pcre2_match_data_create(1, nullptr);
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
  static thread_local Scratch scratch;
  ++searches;
  if (scratch.data == nullptr || scratch.context == nullptr) return Match::kGaveUp;
  const auto* bytes = reinterpret_cast<PCRE2_SPTR>(subject.empty() ? "" : subject.data());
  int rc = pcre2_match(code_->code, bytes, subject.size(), 0, 0, scratch.data, scratch.context);
  if (rc == PCRE2_ERROR_JIT_STACKLIMIT) {
    rc = pcre2_match(code_->code, bytes, subject.size(), 0, PCRE2_NO_JIT, scratch.data,
                     scratch.context);
  }
  if (rc >= 0) return Match::kYes;
  return rc == PCRE2_ERROR_NOMATCH ? Match::kNo : Match::kGaveUp;
}

}  // namespace tdump::filters
