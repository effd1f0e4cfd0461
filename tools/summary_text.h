// What tdump.log(stat=...) kept of tensors in place of their values, as text for the operator log.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "core/status.h"
#include "io/pass_reader.h"
#include "io/records.h"

namespace tdump::tools {

class Summaries {
 public:
  // Notes a record that holds one; false: it holds none.
  bool Add(const io::Record& record);
  void Read(const io::PassReader& reader);

  // Of an argument of the call that began then: its summaries, "stat" or "stat.NAME", with their
  // values.
  std::vector<std::pair<std::string, std::string>> Of(uint64_t call_begin, Role role,
                                                      std::string_view arg) const;

 private:
  struct Summary {
    uint64_t record = 0;
    std::string text;
  };
  std::map<std::tuple<uint64_t, Role, std::string>, Summary> summaries_;
};

}  // namespace tdump::tools
