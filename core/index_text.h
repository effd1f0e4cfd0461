// The decimal digits of a position in a list, for the paths of arguments: "1.0". Copied from a
// table, since paths are made on the job's threads for every tensor.
#pragma once

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>

namespace tdump {

class IndexText {
 public:
  static constexpr size_t kMaxBytes = 20;
  // Writes the digits of `index` at `to`, which has room for kMaxBytes, and returns their end.
  static char* Copy(uint64_t index, char* to) {
    if (index >= kTable.size()) [[unlikely]]
      return std::to_chars(to, to + kMaxBytes, index).ptr;
    const Entry& entry = kTable[index];
    return std::copy_n(entry.digits, entry.length, to);
  }

 private:
  struct Entry {
    char digits[3];
    uint8_t length;
  };
  static constexpr std::array<Entry, 1000> MakeTable() {
    std::array<Entry, 1000> table{};
    for (size_t i = 0; i < table.size(); ++i) {
      Entry& entry = table[i];
      for (size_t unit = i >= 100 ? 100 : i >= 10 ? 10 : 1; unit != 0; unit /= 10)
        entry.digits[entry.length++] = static_cast<char>('0' + i / unit % 10);
    }
    return table;
  }
  static const std::array<Entry, 1000> kTable;
};

inline constexpr std::array<IndexText::Entry, 1000> IndexText::kTable = MakeTable();

}  // namespace tdump
