// Predicates of `where:`: the user's own code decides whether a rule applies to an operator.
#pragma once

#include <string>
#include <string_view>

#include "core/status.h"
#include "core/types.h"

namespace tdump::filters {

// "pkg.mod:fn" (Python module), "/path/f.py:fn" (Python file), "/path/l.so:fn" (C function).
struct PredicateSpec {
  enum class Kind : unsigned char { kPythonModule, kPythonFile, kSharedObject };
  Kind kind = Kind::kPythonModule;
  std::string where;  // module or path
  std::string function;
};
// Checks the form only; the error says what was expected.
Result<PredicateSpec> ParsePredicate(std::string_view text);
// Also that the file, where one is named, can be read.
Status CheckPredicate(std::string_view text);

// Evaluates predicates of one kind. Called from any thread, with no lock of tdump held; must not
// throw. An error counts as "does not match".
class PredicateHost {
 public:
  virtual ~PredicateHost() = default;
  // `subject` is what the collector handed to Plan::op (a borrowed
  // PyObject* of the module, or nullptr).
  virtual Result<bool> Evaluate(const std::string& spec, const OperatorInfo& info,
                                const void* subject) = 0;
};

// C predicates: `int fn(const char* name, const char* cls)` of a shared object, non-zero = match.
// Opened once per process and never closed. Thread-safe.
PredicateHost* SharedObjectPredicates();

}  // namespace tdump::filters
