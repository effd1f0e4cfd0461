#include "coordinator/coverage_names.h"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <tuple>
#include <unordered_map>

#include "core/text.h"

namespace tdump::coordinator {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// A name in pieces: text and numbers take turns, text first. A number with leading zeros or more
// digits than fit is text.
struct Pieces {
  std::vector<std::string> text;               // one more than numbers
  std::vector<std::vector<uint64_t>> numbers;  // what has been folded into each place
};

Pieces Split(const std::string& name) {
  Pieces pieces;
  pieces.text.emplace_back();
  for (size_t i = 0; i < name.size();) {
    size_t end = i;
    while (end < name.size() && IsDigit(name[end])) ++end;
    const size_t digits = end - i;
    if (digits == 0 || digits > 18 || (digits > 1 && name[i] == '0')) {
      end = std::max(end, i + 1);
      pieces.text.back() += name.substr(i, end - i);
    } else {
      pieces.numbers.push_back({std::stoull(name.substr(i, digits))});
      pieces.text.emplace_back();
    }
    i = end;
  }
  return pieces;
}

std::string Join(const Pieces& pieces, size_t hole) {
  std::string name = pieces.text[0];
  for (size_t i = 0; i < pieces.numbers.size(); ++i) {
    if (i == hole) {
      name += '\0';
    } else if (pieces.numbers[i].size() == 1) {
      name += std::to_string(pieces.numbers[i][0]);
    } else {
      name += "{" + RangesText(pieces.numbers[i]) + "}";
    }
    name += pieces.text[i + 1];
  }
  return name;
}

// Folds the names that are equal but for the number at `place`.
std::vector<Pieces> FoldAt(std::vector<Pieces> names, size_t place) {
  std::vector<Pieces> folded;
  std::unordered_map<std::string, size_t> seen;
  for (Pieces& name : names) {
    if (place >= name.numbers.size()) {
      folded.push_back(std::move(name));
      continue;
    }
    const auto [found, is_new] = seen.emplace(Join(name, place), folded.size());
    if (is_new) {
      folded.push_back(std::move(name));
    } else {
      auto& numbers = folded[found->second].numbers[place];
      numbers.insert(numbers.end(), name.numbers[place].begin(), name.numbers[place].end());
    }
  }
  return folded;
}

// The words of a name or regex, in lower case: what stands between '.', '/', ':' and whatever a
// regex has beside letters, digits and '_'.
std::vector<std::string> Words(const std::string& text) {
  std::vector<std::string> words(1);
  for (const char c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)) || c == '_') {
      words.back() += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    } else if (!words.back().empty()) {
      words.emplace_back();
    }
  }
  if (words.back().empty()) words.pop_back();
  return words;
}

constexpr size_t kLongWord = 64;  // not compared letter by letter

// How alike two words are, 0 to 1: by edit distance, and at least half when one contains the other
// (or one of its parts does).
double WordLikeness(const std::string& a, const std::string& b) {
  if (a == b) return 1;
  if (a.size() > kLongWord || b.size() > kLongWord) return 0;
  const double longer = static_cast<double>(std::max(a.size(), b.size()));
  const double by_edits = 1 - static_cast<double>(EditDistance(a, b)) / longer;
  const auto& [small, large] = a.size() < b.size() ? std::tie(a, b) : std::tie(b, a);
  const bool contains = small.size() > 2 && large.find(small) != std::string::npos;
  const double likeness = std::max(by_edits, contains ? 0.5 : 0.0);
  return likeness < 0.5 ? 0 : likeness;
}

double Likeness(const std::vector<std::string>& wanted, const std::vector<std::string>& name) {
  double sum = 0;
  for (const std::string& word : wanted) {
    double best = 0;
    for (const std::string& other : name) best = std::max(best, WordLikeness(word, other));
    sum += best;
  }
  return sum - 0.01 * static_cast<double>(name.size());
}

}  // namespace

std::vector<std::string> FoldNames(const std::vector<std::string>& names) {
  std::vector<Pieces> pieces;
  size_t places = 0;
  for (const std::string& name : names) {
    pieces.push_back(Split(name));
    places = std::max(places, pieces.back().numbers.size());
  }
  constexpr size_t kMostPlaces = 16;
  for (size_t place = std::min(places, kMostPlaces); place-- > 0;)
    pieces = FoldAt(std::move(pieces), place);
  std::vector<std::string> folded;
  for (const Pieces& name : pieces) folded.push_back(Join(name, ~size_t{0}));
  return folded;
}

std::vector<std::string> NearNames(const std::string& selector,
                                   const std::vector<std::string>& names, size_t most) {
  constexpr size_t kMostCompared = 20000;
  const std::vector<std::string> wanted = Words(selector);
  std::vector<std::pair<double, const std::string*>> scores;
  for (size_t i = 0; i < std::min(names.size(), kMostCompared); ++i) {
    const double score = Likeness(wanted, Words(names[i]));
    if (score < 0.4) continue;
    const bool small = selector.size() <= kLongWord && names[i].size() <= kLongWord;
    const double edits = small ? static_cast<double>(EditDistance(selector, names[i])) : kLongWord;
    scores.emplace_back(score - 1e-4 * edits, &names[i]);  // decides among equals
  }
  std::stable_sort(scores.begin(), scores.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<std::string> near;
  for (size_t i = 0; i < std::min(scores.size(), most); ++i) near.push_back(*scores[i].second);
  return near;
}

std::string Listed(const std::vector<std::string>& items, size_t most, std::string_view between) {
  std::string text;
  for (size_t i = 0; i < std::min(items.size(), most); ++i) {
    if (i != 0) text += between;
    text += Printable(items[i]);
  }
  if (items.size() > most)
    text.append(between).append("and ").append(CountText(items.size() - most)).append(" more");
  return text;
}

}  // namespace tdump::coordinator
