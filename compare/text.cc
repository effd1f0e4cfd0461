#include "compare/text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "compare/names.h"
#include "core/utf8.h"

namespace tdump::compare {

std::string Style::Wrap(std::string_view code, std::string_view text) const {
  return colour_ ? fmt::format("\033[{}m{}\033[0m", code, text) : std::string(text);
}

std::string ShapeText(const std::vector<uint64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

std::string Short(double value) { return value == 0 ? "0" : fmt::format("{:.4g}", value); }

std::string NumbersText(std::string_view noun, const std::vector<uint64_t>& numbers) {
  return fmt::format("{}{} {}", noun, numbers.size() == 1 ? "" : "s", RangesText(numbers));
}

std::string RanksText(const std::vector<int32_t>& ranks) {
  return NumbersText("rank", {ranks.begin(), ranks.end()});
}

std::string LayerName(std::string_view path) {
  for (size_t at = 0; at < path.size();) {
    const size_t end = std::min(path.find('.', at), path.size());
    if (IsDigits(path.substr(at, end - at))) return std::string(path.substr(0, end));
    at = end + 1;
  }
  const size_t dot = path.find('.');
  if (dot == 0 || dot == std::string_view::npos) return std::string(path);
  return std::string(path.substr(0, path.find('.', dot + 1)));
}

std::string RegexOf(std::string_view text) {
  std::string regex;
  for (const char c : text) {
    if (std::string_view("\\^$|?*+()[]{}").find(c) != std::string_view::npos) regex += '\\';
    regex += c;
  }
  return regex;
}

namespace {

// Where the text in quotes ends that begins at `at`, as "'B:@param_grad: ...'" does; `at` where
// none does: an apostrophe stands within a word, or behind it.
size_t EndOfQuoted(std::string_view line, size_t at) {
  if (line[at] != '\'' || (at > 0 && std::string_view(" (=").find(line[at - 1]) == line.npos))
    return at;
  for (size_t end = line.find('\'', at + 1); end != line.npos; end = line.find('\'', end + 1)) {
    if (end + 1 == line.size() || std::string_view(" ,.;:)").find(line[end + 1]) != line.npos)
      return end;
  }
  return at;
}

// Whether `rest` of a command line begins with an option, or with a word that is no prose: a path,
// an address, a placeholder ("RUN"), or whatever an option follows.
bool GoesOn(std::string_view rest) {
  if (rest.starts_with("--")) return true;
  std::string_view word = rest.substr(0, rest.find(' '));
  if (rest.substr(word.size()).starts_with(" --")) return true;
  word = word.substr(0, word.find_last_not_of(",.;:)") + 1);
  return word.find_first_of("/@:") != word.npos ||
         (!word.empty() &&
          std::all_of(word.begin(), word.end(), [](char c) { return c >= 'A' && c <= 'Z'; }));
}

// By character: whether it is a space that a line may not be broken at.
std::vector<bool> KeptSpaces(std::string_view line) {
  std::vector<bool> kept(line.size());
  bool in_command = false;
  size_t word = 0;  // where it begins
  for (size_t i = 0; i < line.size(); ++i) {
    if (const size_t end = EndOfQuoted(line, i); end > i) {
      std::fill(kept.begin() + static_cast<ptrdiff_t>(i),
                kept.begin() + static_cast<ptrdiff_t>(end), true);
      i = end;
    }
    if (line[i] != ' ') continue;
    const std::string_view last = line.substr(word, i - word), rest = line.substr(i + 1);
    const bool ends = last.empty() || std::string_view(",.;:)").find(last.back()) != line.npos;
    const bool is_tool = last.starts_with("tdump-");
    kept[i] = !ends && (is_tool || last.starts_with("--") || (in_command && GoesOn(rest)));
    in_command = kept[i] && (is_tool || in_command);
    word = i + 1;
  }
  return kept;
}

}  // namespace

std::string Wrap(std::string_view line, size_t hang, size_t width) {
  std::string text;
  const std::vector<bool> kept = KeptSpaces(line);
  const char* const start = line.data();
  for (size_t indent = 0;; indent = hang) {
    const size_t room = width - std::min(width, indent);
    text.append(indent, ' ');
    if (CharactersIn(line) <= room) return text.append(line);
    size_t cut = std::string_view::npos, characters = 0;
    for (size_t i = 0; i < line.size(); ++i) {
      const bool may_break = line[i] == ' ' && !kept[static_cast<size_t>(line.data() + i - start)];
      if (may_break && (characters <= room || cut == std::string_view::npos) &&
          line.find_first_not_of(' ') < i)
        cut = i;
      characters += (static_cast<unsigned char>(line[i]) >> 6) != 2;
      if (characters > room && cut != std::string_view::npos) break;
    }
    if (cut == std::string_view::npos) return text.append(line);
    std::string_view head = line.substr(0, cut);
    head = head.substr(0, head.find_last_not_of(' ') + 1);
    text.append(head) += '\n';
    line.remove_prefix(std::min(line.find_first_not_of(' ', cut), line.size()));
  }
}

namespace {

// Cuts what stands in the column `flexible`. Returns how wide it is then, but for what stands on a
// line of its own, where there is room up to its end.
size_t FitColumn(const std::vector<size_t>& widths, size_t flexible,
                 const std::vector<NamedCell>& names, size_t indent, size_t columns,
                 std::vector<std::vector<std::string>>* rows) {
  constexpr size_t kLeast = 12;
  const auto column = widths.begin() + static_cast<ptrdiff_t>(flexible);
  const size_t before = std::accumulate(widths.begin(), column, indent + 2 * flexible);
  const size_t total =
      std::accumulate(widths.begin(), widths.end(), indent + 2 * (widths.size() - 1));
  const size_t over = total - std::min(total, columns);
  if (over == 0) return widths[flexible];
  const size_t room = std::max(kLeast, widths[flexible] - std::min(over, widths[flexible]));
  std::vector<std::string> cells = ShortenApart(names, room);
  std::vector<std::string> lines =
      ShortenApart(names, std::max(room, columns - std::min(columns, before)));
  size_t widest = CharactersIn(rows->front()[flexible]);
  for (size_t i = 0; i < cells.size(); ++i) {
    const bool fits = CharactersIn(cells[i]) <= room;
    if (fits) widest = std::max(widest, CharactersIn(cells[i]));
    (*rows)[i + 1][flexible] = std::move(fits ? cells[i] : lines[i]);
  }
  return widest;
}

}  // namespace

std::string Table(std::vector<std::vector<std::string>> rows, const std::vector<bool>& right,
                  size_t flexible, const std::vector<NamedCell>& names, std::string_view indent,
                  const Style& style) {
  for (size_t i = 0; i < names.size(); ++i) rows[i + 1][flexible] = names[i].name + names[i].what;
  std::vector<size_t> widths(right.size(), 0);
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size() && i < widths.size(); ++i)
      widths[i] = std::max(widths[i], CharactersIn(row[i]));
  }
  widths[flexible] = FitColumn(widths, flexible, names, indent.size(), style.columns(), &rows);
  std::string text;
  for (size_t r = 0; r < rows.size(); ++r) {
    std::string line(indent);
    for (size_t i = 0; i < rows[r].size() && i < widths.size(); ++i) {
      if (CharactersIn(rows[r][i]) > widths[i]) {  // on a line of its own
        text += line + rows[r][i] + "\n";
        line = std::string(CharactersIn(line) + widths[i] + 2, ' ');
        continue;
      }
      const std::string pad(widths[i] - CharactersIn(rows[r][i]), ' ');
      line += right[i] ? pad + rows[r][i] : rows[r][i] + pad;
      line += "  ";
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += (r == 0 ? style.Dim(line) : line) + "\n";
  }
  return text;
}

}  // namespace tdump::compare
