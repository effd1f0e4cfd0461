// Text form of a record's key: `path/op::callN@role#arg` (docs/design.md, "Names and order").
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/status.h"
#include "core/types.h"

namespace tdump {

// The identity of a record within one pass of one process. Two runs are paired by it.
struct Key {
  std::string root;
  std::string path;
  std::string op;
  Role role = Role::kOutput;
  std::string arg;
  uint64_t call = 0;
  uint32_t micro = 0;
  uint32_t chunk = 0;
  Phase phase = Phase::kForward;
  bool recompute = false;
  uint32_t lane = 0;
  auto operator<=>(const Key&) const = default;
};

// Percent-escapes `% / : @ # ~`, control bytes and DEL. "a/b:0" ->
// "a%2Fb%3A0". Other bytes, UTF-8 or not, stay.
std::string EscapeField(std::string_view field);
Result<std::string> UnescapeField(std::string_view text);

// "encoder.layer.0.attention/aten%3A%3Amm::call1@output#0". A root, when named, stands before the
// path: "Critic%231:a.b". ParseKey also takes the operator unescaped, "aten::mm", and
// gradients without their "~b".
//
// Left out are `::call0` and, for a module, `/op`. Micro, chunk, lane, backward and recompute, when
// not 0, follow as "~m1.c0.l2.b.r", in that order: equal text means equal key.
std::string ToText(const Key& key);
// Its end: "~m1.b"; "" where there is none.
std::string KeyMarks(const Key& key);
Result<Key> ParseKey(std::string_view text);

// Name of the plain view (load_pass): the path, for an ATen op or tap "path/op"; `root` and a `.`
// before it when named.
std::string PlainName(std::string_view root, std::string_view path, std::string_view op);

// A file name for a tensor name: one path component, at most 200 bytes, legal on Linux, macOS and
// Windows, different for different names (a hash is appended whenever a character had to change or
// the name was cut). Cuts never split UTF-8.
std::string PortableFileName(std::string_view name, std::string_view suffix);

}  // namespace tdump
