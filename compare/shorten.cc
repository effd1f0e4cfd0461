#include "compare/shorten.h"

#include <algorithm>
#include <map>
#include <set>

#include "core/utf8.h"

namespace tdump::compare {

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

constexpr size_t kLeastName = 8;  // characters of a name that say something

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
  const std::string_view before = text.substr(0, head), behind = text.substr(text.size() - tail);
  const std::string_view own = text.substr(head, text.size() - head - tail);
  if (CharactersIn(text) <= width || CharactersIn(own) + kLeastName > width)
    return std::string(text);
  const size_t room = width - CharactersIn(own);
  const size_t for_head = std::max(room / 3, room - std::min(room, CharactersIn(behind)));
  const bool none = for_head < 4 && CharactersIn(before) > for_head;
  const std::string cut = none ? "…" : Shorten(before, for_head);
  return cut + std::string(own) + Shorten(behind, room - CharactersIn(cut));
}

// A name that looks like no other one, with what is behind it; the name is left whole where that
// has no room.
std::string ShortenAlone(const NamedCell& cell, size_t width) {
  const std::string cut = Shorten(cell.name + cell.what, width);
  return cut.ends_with(cell.what) ? cut
                                  : Shorten(cell.name, width - CharactersIn(cell.what)) + cell.what;
}

size_t RoomOf(const NamedCell& cell, size_t width) {
  return width - std::min(width, CharactersIn(cell.what));
}

}  // namespace

std::vector<std::string> ShortenApart(const std::vector<NamedCell>& cells, size_t width) {
  size_t least = width;  // characters for the name that has the fewest
  for (const NamedCell& cell : cells) {
    if (RoomOf(cell, width) >= kLeastName) least = std::min(least, RoomOf(cell, width));
  }
  std::map<std::string, std::set<std::string_view>> alike;  // by what they are cut to
  for (const NamedCell& cell : cells) alike[Shorten(cell.name, least)].insert(cell.name);
  std::vector<std::string> names;                           // as they are shown
  std::map<std::string, std::set<std::string_view>> shown;  // which name each of these is of
  for (const NamedCell& cell : cells) {
    const size_t room = RoomOf(cell, width);
    const std::set<std::string_view>& same = alike[Shorten(cell.name, least)];
    std::string name = cell.name;
    if (CharactersIn(name) > room && room >= kLeastName) {
      const size_t head = SharedHead(same);
      if (same.size() > 1) {
        name = ShortenAround(name, head, SharedTail(same, head), room);
      } else {
        name = ShortenAlone(cell, width);
        name.resize(name.size() - cell.what.size());
      }
    }
    shown[name].insert(cell.name);
    names.push_back(std::move(name));
  }
  std::vector<std::string> texts;
  for (size_t i = 0; i < cells.size(); ++i)
    texts.push_back((shown[names[i]].size() > 1 ? cells[i].name : names[i]) + cells[i].what);
  return texts;
}

}  // namespace tdump::compare
