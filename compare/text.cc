#include "compare/text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

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

std::string Shorten(std::string_view text, size_t width) {
  const size_t characters = CharactersIn(text);
  if (characters <= width) return std::string(text);
  if (width < 4) return std::string(CutUtf8(text, width));
  const auto is_start = [](char c) { return (static_cast<unsigned char>(c) >> 6) != 2; };
  const size_t head = (width - 1) / 3, tail = characters - (width - 1 - head);
  std::string shortened;
  size_t at = 0;  // character
  for (size_t i = 0; i < text.size(); ++i) {
    at += is_start(text[i]);
    if (at == head + 1 && is_start(text[i])) shortened += "…";
    if (at <= head || at > tail) shortened += text[i];
  }
  return shortened;
}

namespace {

// Bytes that all of them begin with, of whole characters.
size_t SharedHead(const std::set<std::string_view>& texts) {
  const std::string_view first = *texts.begin();
  size_t shared = first.size();
  for (const std::string_view text : texts) {
    shared = std::min(shared, text.size());
    while (text.substr(0, shared) != first.substr(0, shared)) --shared;
  }
  return CutUtf8(first, shared).size();
}

// Bytes that all of them end with behind the first `head` ones, of whole characters.
size_t SharedTail(const std::set<std::string_view>& texts, size_t head) {
  const std::string_view first = *texts.begin();
  size_t shared = first.size() - head;
  for (const std::string_view text : texts) {
    shared = std::min(shared, text.size() - head);
    while (!text.ends_with(first.substr(first.size() - shared))) --shared;
  }
  const auto goes_on = [&](size_t at) { return (static_cast<unsigned char>(first[at]) >> 6) == 2; };
  while (shared > 0 && goes_on(first.size() - shared)) --shared;
  return shared;
}

// What is not shared stays, of what is before and behind it a third and two thirds of the rest.
// Whole where that is too little.
std::string ShortenAround(std::string_view text, size_t head, size_t tail, size_t width) {
  constexpr size_t kLeast = 8;
  const std::string_view before = text.substr(0, head), behind = text.substr(text.size() - tail);
  const std::string_view own = text.substr(head, text.size() - head - tail);
  if (CharactersIn(text) <= width || CharactersIn(own) + kLeast > width) return std::string(text);
  const size_t room = width - CharactersIn(own);
  const size_t for_head = std::max(room / 3, room - std::min(room, CharactersIn(behind)));
  const bool none = for_head < 4 && CharactersIn(before) > for_head;
  const std::string cut = none ? "…" : Shorten(before, for_head);
  return cut + std::string(own) + Shorten(behind, room - CharactersIn(cut));
}

}  // namespace

std::vector<std::string> ShortenApart(const std::vector<std::string>& texts, size_t width) {
  std::vector<std::string> cut;
  std::map<std::string, std::set<std::string_view>> alike;  // by what they are cut to
  for (const std::string& text : texts) {
    cut.push_back(Shorten(text, width));
    alike[cut.back()].insert(text);
  }
  for (size_t i = 0; i < texts.size(); ++i) {
    const std::set<std::string_view>& same = alike[cut[i]];
    if (same.size() == 1) continue;
    const size_t head = SharedHead(same);
    cut[i] = ShortenAround(texts[i], head, SharedTail(same, head), width);
  }
  return cut;
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
    kept[i] =
        !ends && (is_tool || last.starts_with("--") || (in_command && rest.starts_with("--")));
    in_command = kept[i] && (is_tool || in_command);
    word = i + 1;
  }
  return kept;
}

}  // namespace

std::string Wrap(std::string_view line, size_t hang) {
  std::string text;
  const std::vector<bool> kept = KeptSpaces(line);
  const char* const start = line.data();
  for (size_t indent = 0;; indent = hang) {
    const size_t room = kReportWidth - indent;
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

std::string Table(std::vector<std::vector<std::string>> rows, const std::vector<bool>& right,
                  size_t flexible, std::string_view indent, const Style& style) {
  std::vector<size_t> widths(right.size(), 0);
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size() && i < widths.size(); ++i)
      widths[i] = std::max(widths[i], CharactersIn(row[i]));
  }
  const size_t total =
      std::accumulate(widths.begin(), widths.end(), indent.size() + 2 * (widths.size() - 1));
  if (total > kReportWidth) {
    const size_t over = total - kReportWidth;
    widths[flexible] = std::max<size_t>(12, widths[flexible] - std::min(over, widths[flexible]));
    std::vector<std::string> cells;
    for (const auto& row : rows) cells.push_back(row[flexible]);
    cells = ShortenApart(cells, widths[flexible]);
    for (size_t i = 0; i < rows.size(); ++i) {
      widths[flexible] = std::max(widths[flexible], CharactersIn(cells[i]));
      rows[i][flexible] = std::move(cells[i]);
    }
  }
  std::string text;
  for (size_t r = 0; r < rows.size(); ++r) {
    std::string line(indent);
    for (size_t i = 0; i < rows[r].size() && i < widths.size(); ++i) {
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
