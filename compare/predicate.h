// Predicate: a condition on the metrics of a pair, as rules of `--bounds` say it:
//
//     sqnr_db >= 30
//     max_abs <= 1e-3 and nan_mismatch == 0
//     not (max_rel > 0.1 or outside_share > 1 %)        # 1 % = 0.01
//
//   expression := term { "or" term }          term := factor { "and" factor }
//   factor := "not" factor | "(" expression ")" | METRIC ("<" "<=" "==" "!=" ">=" ">") NUMBER
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compare/metrics.h"

namespace tdump::compare {

// Where a text is no predicate. `offset`: bytes from its start.
struct PredicateMistake {
  size_t offset = 0;
  std::string what, expected;
  std::string unknown_metric;  // where that is the mistake
};

// Immutable, a plain value.
class Predicate {
 public:
  static std::optional<Predicate> Parse(std::string_view text, PredicateMistake* mistake);
  static const std::vector<std::string>& MetricNames();

  // Any comparison with a metric that is not defined (the cosine of zeros) or NaN is false, so is
  // its negation: what cannot be measured satisfies nothing.
  bool Holds(const Metrics& metrics) const;
  // "sqnr_db 12.4, max_abs 0.5": the metrics it names, once each.
  std::string ValuesText(const Metrics& metrics) const;

  const std::string& text() const { return text_; }
  bool Names(std::string_view metric) const;
  // Whether equal bits do not decide it: it asks for more than how far the sides are apart.
  bool needs_values() const;

 private:
  enum class Op : uint8_t { kCompare, kAnd, kOr, kNot };
  enum class Relation : uint8_t { kLess, kAtMost, kEqual, kUnequal, kAtLeast, kMore };
  struct Step {  // in postfix order
    Op op;
    size_t metric = 0;
    Relation relation = Relation::kEqual;
    double number = 0;
  };
  class Parser;
  static bool Compare(double value, Relation relation, double number);

  std::string text_;
  std::vector<Step> steps_;
};

}  // namespace tdump::compare
