#include "tools/statistics_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace tdump::tools {
namespace {

std::string Digits(unsigned __int128 value) {
  std::string text;
  do {
    text.insert(text.begin(), static_cast<char>('0' + static_cast<int>(value % 10)));
    value /= 10;
  } while (value != 0);
  return text;
}

std::string Whole(__int128 value) {
  const auto magnitude = static_cast<unsigned __int128>(value);
  return value < 0 ? "-" + Digits(-magnitude) : Digits(magnitude);
}

std::string Short(double value) { return fmt::format("{:.6g}", value); }

}  // namespace

std::string AbsmaxText(const Statistics& s) {
  if (!s.has_range()) return "-";
  if (s.kind == StatisticsKind::kInteger) return Whole(std::max(s.exact_max, -s.exact_min));
  return fmt::format("{:.9g}", s.absmax());
}

std::string RmsText(const Statistics& s) { return s.has_range() ? Short(s.rms()) : "-"; }

std::string StatisticsText(const Statistics& s) {
  std::string text = s.kind == StatisticsKind::kBits ? "none for this dtype" : "";
  const auto add = [&](const std::string& name, const std::string& value) {
    text += fmt::format("{}{} {}", text.empty() ? "" : "  ", name, value);
  };
  if (s.has_range()) {
    const bool exact = s.kind == StatisticsKind::kInteger;
    add("min", exact ? Whole(s.exact_min) : Short(s.min));
    add("max", exact ? Whole(s.exact_max) : Short(s.max));
    add("mean", Short(s.mean));
    if (s.has_std()) add("std", Short(s.std));
    add("rms", Short(s.rms()));
    if (s.zeros != 0) add("zeros", fmt::format("{}", s.zeros));
  } else if (text.empty()) {
    text = s.count == 0 ? "no elements" : "nothing finite";
  }
  std::string special;
  const auto count = [&](uint64_t n, const char* what) {
    if (n != 0) special += fmt::format("{}{} {}", special.empty() ? "" : ", ", n, what);
  };
  count(s.nan, "NaN");
  count(s.positive_inf, "+Inf");
  count(s.negative_inf, "-Inf");
  return special.empty() ? text : text + "  (" + special + ")";
}

nlohmann::ordered_json StatisticsJson(const Statistics& s) {
  using Json = nlohmann::ordered_json;
  Json json = {{"kind", ToString(s.kind)},
               {"count", s.count},
               {"finite", s.finite},
               {"nan", s.nan},
               {"positive_inf", s.positive_inf},
               {"negative_inf", s.negative_inf},
               {"zeros", s.zeros},
               {"negative_zeros", s.negative_zeros}};
  if (!s.has_range()) return json;
  if (s.kind == StatisticsKind::kInteger) {
    // As text: larger than what JSON readers keep exactly.
    json["min"] = Whole(s.exact_min);
    json["max"] = Whole(s.exact_max);
    json["sum"] = Whole(s.exact_sum);
  } else {
    json["min"] = s.min;
    json["max"] = s.max;
  }
  json["mean"] = s.mean;
  if (s.has_std()) json["std"] = s.std;
  json["mean_abs"] = s.mean_abs;
  json["l1"] = s.l1;
  json["l2"] = s.l2;
  json["rms"] = s.rms();
  json["histogram"] = s.histogram;
  return json;
}

}  // namespace tdump::tools
