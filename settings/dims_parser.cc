// Dims::Parse: recursive descent over the grammar of settings/dims.h.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>

#include "settings/dims.h"

namespace tdump {
namespace {

constexpr size_t kMaxText = 1 << 16;
constexpr size_t kMaxDims = 64;

bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// Without control bytes and halves of characters.
std::string Shown(std::string_view text) {
  std::string shown(text);
  std::replace_if(
      shown.begin(), shown.end(), [](char c) { return c < ' ' || c == 0x7F; }, '?');
  return shown;
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Result<Dims> Run() {
    if (text_.size() > kMaxText)
      return InvalidArgument(
          fmt::format("dims of {} characters: at most {}", text_.size(), kMaxText));
    for (SkipBlanks(); at_ < text_.size(); SkipBlanks()) TDUMP_RETURN_IF_ERROR(Item());
    return std::move(dims_);
  }

 private:
  Status Fail(size_t at, std::string_view what) const {
    return InvalidArgument(
        fmt::format("dims '{}', column {}: {}", Shown(text_.substr(0, 200)), at + 1, what));
  }
  Status Expected(std::string_view what) const {
    return Fail(at_, at_ == text_.size() ? fmt::format("it ends where {} was expected", what)
                                         : fmt::format("expected {}, found '{}'", what,
                                                       Shown(text_.substr(at_, 1))));
  }

  void SkipBlanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
  }
  bool Take(char c) {
    SkipBlanks();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  std::string_view TakeName() {
    SkipBlanks();
    const size_t begin = at_;
    if (at_ < text_.size() && IsLetter(text_[at_])) {
      while (at_ < text_.size() && (IsLetter(text_[at_]) || IsDigit(text_[at_]))) ++at_;
    }
    return text_.substr(begin, at_ - begin);
  }
  Status Number(uint64_t* number) {
    SkipBlanks();
    const char* end = text_.data() + text_.size();
    const auto [stop, error] = std::from_chars(text_.data() + at_, end, *number);
    if (error == std::errc::result_out_of_range) return Fail(at_, "the number is too large");
    if (error != std::errc()) return Expected("a number");
    at_ = static_cast<size_t>(stop - text_.data());
    return {};
  }

  Status Item() {
    const size_t begin = at_;
    if (text_.substr(at_).starts_with("...")) {
      at_ += 3;
      if (dims_.ellipsis) return Fail(begin, "'...' stands once at most");
      dims_.ellipsis = dims_.dims.size();
      return {};
    }
    if (dims_.dims.size() == kMaxDims) return Fail(at_, "more than 64 dimensions");
    if (Take('(')) return Fused(begin);
    const std::string_view name = TakeName();
    if (name.empty()) return Expected("a dimension's name, '(', '...', partial[] or replicated[]");
    if (name == "partial" || name == "replicated") return Statement(name);
    TensorDim dim;
    TDUMP_RETURN_IF_ERROR(RestOfName(begin, name, &dim.parts.emplace_back()));
    TDUMP_RETURN_IF_ERROR(Uses(&dim.parts.back().axes));
    dims_.dims.push_back(std::move(dim));
    return {};
  }

  Status Fused(size_t begin) {
    TensorDim dim;
    while (!Take(')')) {
      const size_t at = at_;
      const std::string_view name = TakeName();
      if (name.empty()) return Expected("a dimension's name or ')'");
      TDUMP_RETURN_IF_ERROR(RestOfName(at, name, &dim.parts.emplace_back()));
      TDUMP_RETURN_IF_ERROR(Uses(&dim.parts.back().axes));
      if (dim.parts.size() > kMaxDims) return Fail(at, "more than 64 dimensions");
    }
    if (dim.parts.empty()) return Fail(begin, "'()' fuses no dimension");
    const bool inside = std::any_of(dim.parts.begin(), dim.parts.end(),
                                    [](const NamedDim& part) { return !part.axes.empty(); });
    const size_t at = at_;
    TDUMP_RETURN_IF_ERROR(Uses(&dim.axes));
    if (inside && !dim.axes.empty())
      return Fail(at, "a fused dimension is split either as a whole or by its parts, not both");
    if (dim.parts.size() == 1 && !dim.axes.empty()) std::swap(dim.axes, dim.parts.front().axes);
    dims_.dims.push_back(std::move(dim));
    return {};
  }

  Status RestOfName(size_t at, std::string_view name, NamedDim* dim) {
    if (name == "partial" || name == "replicated")
      return Fail(at, fmt::format("{} names no dimension, it says what ranks hold", name));
    if (name != "_" && !names_.emplace(name).second)
      return Fail(at, fmt::format("'{0}' names a second dimension; call it {0}2 or _", name));
    dim->name = name;
    if (!Take('=')) return {};
    return Number(&dim->size.emplace());
  }

  // ["[" use { "," use } "]"]
  Status Uses(std::vector<AxisUse>* axes) {
    if (!Take('[')) return {};
    do {
      TDUMP_RETURN_IF_ERROR(Use(axes));
    } while (Take(','));
    if (!Take(']')) return Expected("',' or ']'");
    return {};
  }

  Status Axis(std::string* axis) {
    SkipBlanks();
    const size_t at = at_;
    *axis = TakeName();
    if (axis->empty()) return Expected("the name of an axis, such as tp");
    if (!axes_.insert(*axis).second)
      return Fail(at, fmt::format("axis '{}' is used a second time", *axis));
    return {};
  }

  Status Use(std::vector<AxisUse>* axes) {
    AxisUse use;
    TDUMP_RETURN_IF_ERROR(Axis(&use.axis));
    std::vector<std::string>* statement = nullptr;
    while (Take(':')) {
      SkipBlanks();
      const size_t at = at_;
      const std::string_view word = TakeName();
      if (word == "partial") {
        statement = &dims_.partial;
      } else if (word == "mean") {
        if (statement != &dims_.partial)
          return Fail(at, "mean stands behind partial: dp:partial:mean");
        dims_.mean.push_back(use.axis);
      } else if (word == "replicated") {
        statement = &dims_.replicated;
      } else {
        TDUMP_RETURN_IF_ERROR(Qualifier(at, word, &use));
      }
    }
    if (statement == nullptr) {
      axes->push_back(std::move(use));
    } else {
      statement->push_back(std::move(use.axis));
    }
    return {};
  }

  Status Qualifier(size_t at, std::string_view word, AxisUse* use) {
    if (word == "contiguous") {
      use->split = Split::kContiguous;
    } else if (word == "zigzag") {
      use->split = Split::kZigzag;
    } else if (word == "striped") {
      use->split = Split::kStriped;
      if (Take('=')) TDUMP_RETURN_IF_ERROR(Number(&use->block));
      if (use->block == 0) return Fail(at, "a block of 0");
    } else if (word == "sizes") {
      return List(&use->sizes);
    } else if (word == "packed") {
      return List(&use->packed);
    } else {
      at_ = at;
      return Expected("contiguous, zigzag, striped, partial, replicated, sizes=... or packed=...");
    }
    return {};
  }

  // Behind the "@".
  Status Record(std::string* record) {
    const bool quoted = at_ < text_.size() && text_[at_] == '"';
    const size_t begin = at_ += quoted;
    const auto ends = [&](size_t i) {
      if (quoted) return text_[i] == '"';
      const auto colon = [&](size_t k) { return k < text_.size() && text_[k] == ':'; };
      return std::string_view(" \t,]").find(text_[i]) != std::string_view::npos ||
             (colon(i) && !colon(i + 1) && !(i > begin && colon(i - 1)));
    };
    while (at_ < text_.size() && !ends(at_)) ++at_;
    *record = text_.substr(begin, at_ - begin);
    if (record->empty()) return Expected("the name of a record, as in @cu_seqlens");
    if (quoted && at_++ == text_.size()) return Fail(begin - 1, "'\"' without its end");
    return {};
  }

  // "=" ( number { "+" number } | "@" record )
  Status List(NumberList* list) {
    if (!Take('=')) return Expected("'='");
    if (Take('@')) return Record(&list->record);
    SkipBlanks();
    if (at_ < text_.size() && IsLetter(text_[at_]))
      return Expected("numbers, or @ and the name of a record");
    do {
      TDUMP_RETURN_IF_ERROR(Number(&list->numbers.emplace_back()));
    } while (Take('+'));
    return {};
  }

  Status Statement(std::string_view word) {
    const bool partial = word == "partial";
    std::vector<std::string>* axes = partial ? &dims_.partial : &dims_.replicated;
    if (!Take('[')) return Expected(fmt::format("'[' and the axes of {}", word));
    do {
      TDUMP_RETURN_IF_ERROR(Axis(&axes->emplace_back()));
      if (!partial || !Take(':')) continue;
      SkipBlanks();
      if (const size_t at = at_; TakeName() != "mean") return Fail(at, "expected mean");
      dims_.mean.push_back(axes->back());
    } while (Take(','));
    if (!Take(']')) return Expected("',' or ']'");
    return {};
  }

  std::string_view text_;
  size_t at_ = 0;
  Dims dims_;
  std::set<std::string, std::less<>> names_, axes_;
};

}  // namespace

Result<Dims> Dims::Parse(std::string_view text) { return Parser(text).Run(); }

}  // namespace tdump
