// Small pieces of text that tdump shows to people. Everything that came from a file or a job goes
// through Printable before it reaches a terminal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tdump {

// Text that cannot steer a terminal: control bytes (C0, DEL, C1 as UTF-8), characters that reorder
// or hide text (Unicode bidi controls, line and paragraph separators) and bytes that are no UTF-8
// become \xNN, one for each byte.
std::string Printable(std::string_view text);

// {0, 1, 2, 5} -> "0-2,5"; {} -> "none". Sorts and removes duplicates.
std::string RangesText(std::vector<uint64_t> numbers);
std::string CountText(uint64_t count);                      // "1,412"
std::string Plural(uint64_t count, std::string_view noun);  // "1 rank", "1,412 ranks", "2 passes"
std::string BytesText(uint64_t bytes);                      // "17 B", "4.0 GiB", "512 MiB"
std::string LocalTimeText();                                // now: "20261128-093000"

// A word of a command line that a shell takes as it is: quoted where it has to be.
std::string ShellWord(std::string_view text);

// Edits from one word to the other: letters inserted, left out, replaced, or two neighbours swapped
// (optimal string alignment).
size_t EditDistance(std::string_view a, std::string_view b);

}  // namespace tdump
