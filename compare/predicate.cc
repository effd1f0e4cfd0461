#include "compare/predicate.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <limits>
#include <set>

#include "compare/text.h"

namespace tdump::compare {
namespace {

constexpr double kUndefined = std::numeric_limits<double>::quiet_NaN();
constexpr int kDeepest = 64;
constexpr size_t kLongest = 4096;

double Count(uint64_t count) { return static_cast<double>(count); }

struct Named {
  const char* name;
  double (*value)(const Metrics&);
  bool of_one_side;  // equal bits say nothing of it
};
constexpr Named kMetrics[] = {
    {"sqnr_db", [](const Metrics& m) { return m.sqnr_db.value_or(kUndefined); }, false},
    {"cosine", [](const Metrics& m) { return m.cosine.value_or(kUndefined); }, false},
    {"max_abs", [](const Metrics& m) { return m.max_abs; }, false},
    {"max_rel", [](const Metrics& m) { return m.max_rel; }, false},
    {"mean_abs", [](const Metrics& m) { return m.mean_abs; }, false},
    {"mean_rel", [](const Metrics& m) { return m.mean_rel; }, false},
    {"mean_error", [](const Metrics& m) { return m.mean_error; }, false},
    {"rmse", [](const Metrics& m) { return m.rmse; }, false},
    {"max_ulp", [](const Metrics& m) { return m.max_ulp; }, false},
    {"p50", [](const Metrics& m) { return m.p50; }, false},
    {"p90", [](const Metrics& m) { return m.p90; }, false},
    {"p99", [](const Metrics& m) { return m.p99; }, false},
    {"p999", [](const Metrics& m) { return m.p999; }, false},
    {"outside", [](const Metrics& m) { return Count(m.outside()); }, false},
    {"outside_share",
     [](const Metrics& m) {
       return m.elements == 0 ? 0.0 : Count(m.outside()) / Count(m.elements);
     },
     false},
    {"bits_equal", [](const Metrics& m) { return Count(m.bits_equal); }, true},
    {"elements", [](const Metrics& m) { return Count(m.elements); }, true},
    {"rms_a", [](const Metrics& m) { return m.rms_a; }, true},
    {"rms_b", [](const Metrics& m) { return m.rms_b; }, true},
    {"nan_a", [](const Metrics& m) { return Count(m.nan_a); }, true},
    {"nan_b", [](const Metrics& m) { return Count(m.nan_b); }, true},
    {"inf_a", [](const Metrics& m) { return Count(m.inf_a); }, true},
    {"inf_b", [](const Metrics& m) { return Count(m.inf_b); }, true},
    {"nan_mismatch", [](const Metrics& m) { return Count(m.nan_mismatch); }, false},
    {"inf_mismatch", [](const Metrics& m) { return Count(m.inf_mismatch); }, false},
    {"sign_mismatch", [](const Metrics& m) { return Count(m.sign_mismatch); }, false},
    {"zero_sign_mismatch", [](const Metrics& m) { return Count(m.zero_sign_mismatch); }, false},
};

bool IsWordByte(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

}  // namespace

// Recursive descent; every function either adds its steps, or notes the mistake and says false.
class Predicate::Parser {
 public:
  Parser(std::string_view text, Predicate* out, PredicateMistake* mistake)
      : text_(text), out_(out), mistake_(mistake) {}

  bool All() {
    if (text_.size() > kLongest) return Bad(0, "the condition is too long", "at most 4096 bytes");
    if (!Expression(0)) return false;
    SkipSpace();
    return at_ == text_.size() || Bad(at_, Found(), "'and', 'or' or the end");
  }

 private:
  bool Expression(int depth) { return Chain("or", Op::kOr, depth, &Parser::Term); }
  bool Term(int depth) { return Chain("and", Op::kAnd, depth, &Parser::Factor); }

  bool Chain(std::string_view word, Op op, int depth, bool (Parser::*part)(int)) {
    if (!(this->*part)(depth)) return false;
    while (TakeWord(word)) {
      if (!(this->*part)(depth)) return false;
      out_->steps_.push_back({.op = op});
    }
    return true;
  }

  bool Factor(int depth) {
    if (depth > kDeepest) return Bad(at_, "the condition is nested too deeply", "");
    if (TakeWord("not")) {
      if (!Factor(depth + 1)) return false;
      out_->steps_.push_back({.op = Op::kNot});
      return true;
    }
    SkipSpace();
    if (at_ < text_.size() && text_[at_] == '(') {
      ++at_;
      if (!Expression(depth + 1)) return false;
      SkipSpace();
      if (at_ >= text_.size() || text_[at_] != ')') return Bad(at_, Found(), "')'");
      ++at_;
      return true;
    }
    return Comparison();
  }

  bool Comparison() {
    Step step{.op = Op::kCompare};
    if (!Metric(&step.metric) || !RelationSign(&step.relation) || !Number(&step.number))
      return false;
    out_->steps_.push_back(step);
    return true;
  }

  bool Metric(size_t* metric) {
    SkipSpace();
    const size_t start = at_;
    const std::string word = Word();
    if (word.empty()) return Bad(start, Found(), "a metric, such as sqnr_db");
    for (size_t i = 0; i < std::size(kMetrics); ++i) {
      if (word == kMetrics[i].name) return *metric = i, true;
    }
    mistake_->unknown_metric = word;
    return Bad(start, fmt::format("'{}' is no metric", Printable(word)), "");
  }

  bool RelationSign(Relation* relation) {
    static constexpr std::pair<std::string_view, Relation> kSigns[] = {
        {"<=", Relation::kAtMost},  {">=", Relation::kAtLeast}, {"==", Relation::kEqual},
        {"!=", Relation::kUnequal}, {"<", Relation::kLess},     {">", Relation::kMore}};
    SkipSpace();
    for (const auto& [sign, value] : kSigns) {
      if (!text_.substr(at_).starts_with(sign)) continue;
      at_ += sign.size();
      *relation = value;
      return true;
    }
    return Bad(at_, Found(), "one of <, <=, ==, !=, >=, >");
  }

  bool Number(double* number) {
    SkipSpace();
    const size_t start = at_;
    while (at_ < text_.size() && (IsWordByte(text_[at_]) || text_[at_] == '.' || IsSign())) ++at_;
    const std::string word(text_.substr(start, at_ - start));
    char* end = nullptr;
    *number = std::strtod(word.c_str(), &end);
    if (word.empty() || *end != '\0' || std::isnan(*number)) {
      at_ = start;
      return Bad(start, Found(), "a number");
    }
    SkipSpace();
    if (at_ < text_.size() && text_[at_] == '%') {
      ++at_;
      *number /= 100;
    }
    return true;
  }
  // A sign belongs to the number at its start, or after the e of an exponent.
  bool IsSign() const {
    return (text_[at_] == '-' || text_[at_] == '+') &&
           (at_ == 0 || !IsWordByte(text_[at_ - 1]) || text_[at_ - 1] == 'e' ||
            text_[at_ - 1] == 'E');
  }

  bool TakeWord(std::string_view word) {
    SkipSpace();
    const size_t start = at_;
    if (Word() == word) return true;
    at_ = start;
    return false;
  }
  std::string Word() {
    const size_t start = at_;
    while (at_ < text_.size() && IsWordByte(text_[at_])) ++at_;
    return std::string(text_.substr(start, at_ - start));
  }
  void SkipSpace() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
  }
  std::string Found() const {
    if (at_ >= text_.size()) return "the condition ends here";
    size_t end = at_;
    while (end < text_.size() && IsWordByte(text_[end])) ++end;
    return fmt::format("unexpected '{}'",
                       Printable(text_.substr(at_, std::max<size_t>(1, end - at_))));
  }
  bool Bad(size_t at, std::string what, std::string expected) {
    mistake_->offset = at;
    mistake_->what = std::move(what);
    mistake_->expected = std::move(expected);
    return false;
  }

  std::string_view text_;
  Predicate* out_;
  PredicateMistake* mistake_;
  size_t at_ = 0;
};

std::optional<Predicate> Predicate::Parse(std::string_view text, PredicateMistake* mistake) {
  Predicate predicate;
  predicate.text_ = text;
  if (!Parser(text, &predicate, mistake).All()) return std::nullopt;
  return predicate;
}

const std::vector<std::string>& Predicate::MetricNames() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> list;
    for (const Named& metric : kMetrics) list.emplace_back(metric.name);
    return list;
  }();
  return names;
}

bool Predicate::Compare(double value, Relation relation, double number) {
  switch (relation) {
    case Relation::kLess:
      return value < number;
    case Relation::kAtMost:
      return value <= number;
    case Relation::kEqual:
      return value == number;
    case Relation::kUnequal:
      return value != number;
    case Relation::kAtLeast:
      return value >= number;
    case Relation::kMore:
      return value > number;
  }
  return false;
}

// Three-valued: what is undefined stays so under `not`; `and`, `or` as Kleene has them.
bool Predicate::Holds(const Metrics& metrics) const {
  enum Truth : int8_t { kFalse = 0, kUnknown = 1, kTrue = 2 };
  std::vector<Truth> stack;
  for (const Step& step : steps_) {
    if (step.op == Op::kCompare) {
      const double value = kMetrics[step.metric].value(metrics);
      stack.push_back(std::isnan(value)                            ? kUnknown
                      : Compare(value, step.relation, step.number) ? kTrue
                                                                   : kFalse);
      continue;
    }
    const Truth top = stack.back();
    if (step.op == Op::kNot) {
      stack.back() = static_cast<Truth>(kTrue - top);
      continue;
    }
    stack.pop_back();
    stack.back() = step.op == Op::kAnd ? std::min(stack.back(), top) : std::max(stack.back(), top);
  }
  return stack.back() == kTrue;
}

std::string Predicate::ValuesText(const Metrics& metrics) const {
  std::string text;
  std::set<size_t> said;
  for (const Step& step : steps_) {
    if (step.op != Op::kCompare || !said.insert(step.metric).second) continue;
    const double value = kMetrics[step.metric].value(metrics);
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", kMetrics[step.metric].name,
                        std::isnan(value) ? "undefined" : Short(value));
  }
  return text;
}

bool Predicate::Names(std::string_view metric) const {
  return std::any_of(steps_.begin(), steps_.end(), [&](const Step& step) {
    return step.op == Op::kCompare && kMetrics[step.metric].name == metric;
  });
}

bool Predicate::needs_values() const {
  return std::any_of(steps_.begin(), steps_.end(), [](const Step& step) {
    return step.op == Op::kCompare && kMetrics[step.metric].of_one_side;
  });
}

}  // namespace tdump::compare
