#include "filters/predicate.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cctype>
#include <map>
#include <mutex>

#include "core/fork_mutex.h"
#include "core/key.h"
#include "filters/settings.h"

namespace tdump::filters {
namespace {

constexpr std::string_view kForms = "pkg.mod:fn, /path/f.py:fn or /path/l.so:fn";

bool IsIdentifier(std::string_view text) {
  if (text.empty() || std::isdigit(static_cast<unsigned char>(text[0]))) return false;
  for (unsigned char c : text) {
    if (!std::isalnum(c) && c != '_' && c < 0x80) return false;
  }
  return true;
}

bool IsModulePath(std::string_view text) {
  while (true) {
    const size_t dot = text.find('.');
    if (!IsIdentifier(text.substr(0, dot))) return false;
    if (dot == std::string_view::npos) return true;
    text.remove_prefix(dot + 1);
  }
}

using Function = int (*)(const char*, const char*);

Result<Function> Open(const PredicateSpec& spec) {
  void* object = ::dlopen(spec.where.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (object == nullptr) {
    const char* why = ::dlerror();
    return InvalidArgument(std::string("cannot open: ") +
                           (why != nullptr ? why : "unknown reason"));
  }
  void* symbol = ::dlsym(object, spec.function.c_str());
  if (symbol == nullptr)
    return InvalidArgument("'" + spec.where + "' has no function '" + spec.function + "'");
  return reinterpret_cast<Function>(symbol);
}

class SharedObjects final : public PredicateHost {
 public:
  Result<bool> Evaluate(const std::string& spec, const OperatorInfo& info, const void*) override {
    TDUMP_ASSIGN_OR_RETURN(const Function function, Find(spec));
    const std::string name = PlainName(info.root, info.path, info.op);
    return function(name.c_str(), info.cls.c_str()) != 0;
  }

 private:
  Result<Function> Find(const std::string& text) {
    std::lock_guard lock(mutex_);
    const auto it = functions_.find(text);
    if (it != functions_.end()) return it->second;
    TDUMP_ASSIGN_OR_RETURN(const PredicateSpec spec, ParsePredicate(text));
    return functions_.emplace(text, Open(spec)).first->second;
  }

  ForkMutex mutex_;
  std::map<std::string, Result<Function>> functions_;
};

}  // namespace

Result<PredicateSpec> ParsePredicate(std::string_view text) {
  const auto bad = [&](std::string_view why) {
    return InvalidArgument("predicate '" + Printable(text) + "': " + std::string(why) + " (" +
                           std::string(kForms) + ")");
  };
  if (text.find('\0') != std::string_view::npos) return bad("a zero byte");
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return bad("no ':' before the function");
  PredicateSpec spec;
  spec.where = text.substr(0, colon);
  spec.function = text.substr(colon + 1);
  if (!IsIdentifier(spec.function))
    return bad("'" + Printable(spec.function) + "' is not a function name");
  const bool is_object =
      spec.where.ends_with(".so") || spec.where.find(".so.") != std::string::npos;
  if (is_object) {
    spec.kind = PredicateSpec::Kind::kSharedObject;
    // Without a slash dlopen would search the library path instead.
    if (spec.where.find('/') == std::string::npos) spec.where = "./" + spec.where;
  } else if (spec.where.ends_with(".py")) {
    spec.kind = PredicateSpec::Kind::kPythonFile;
  } else if (!IsModulePath(spec.where)) {
    return bad("'" + Printable(spec.where) + "' is neither a module nor a .py or .so file");
  }
  return spec;
}

Status CheckPredicate(std::string_view text) {
  TDUMP_ASSIGN_OR_RETURN(const PredicateSpec spec, ParsePredicate(text));
  if (spec.kind == PredicateSpec::Kind::kPythonModule || ::access(spec.where.c_str(), R_OK) == 0)
    return Status::Ok();
  return ErrnoStatus(errno, "cannot read", Printable(spec.where));
}

PredicateHost* SharedObjectPredicates() {
  static auto* host = new SharedObjects;  // never destroyed: operators may run during exit
  return host;
}

}  // namespace tdump::filters
