#include "collectors/torch/exported_calls.h"

#include <ATen/ATen.h>
#include <ATen/record_function.h>
#include <torch/library.h>

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "collectors/torch/capture.h"
#include "collectors/torch/module_calls.h"
#include "collectors/torch/plugin.h"
#include "collectors/torch/torch_state.h"
#include "core/fork_mutex.h"

namespace tdump::collectors {
namespace {

// Roots of packages count apart from those of Python and C++ (cxx_modules.cc).
constexpr uint64_t kFirstNumber = uint64_t{1} << 49;

enum class Part : uint8_t { kWhole, kBegin, kEnd };

struct Site {
  Part part = Part::kWhole;
  bool is_root = false;
  OperatorInfo info;
  std::string told_as;
  uint64_t number = 0;
  struct Value {
    Role role = Role::kOutput;
    bool late = false;
    std::string arg;
  };
  std::vector<Value> values;
};

// Cuts the text before the first `end` off; all of it where there is none.
std::string_view Cut(std::string_view* text, char end) {
  const size_t at = text->find(end);
  const std::string_view part = text->substr(0, at);
  text->remove_prefix(at == std::string_view::npos ? text->size() : at + 1);
  return part;
}

// As tdump/_exported.py escaped it.
std::string Unescaped(std::string_view text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '\\' && i + 1 < text.size()) {
      c = text[++i];
      c = c == 'n' ? '\n' : c == 't' ? '\t' : c == '0' ? '\0' : c;
    }
    plain += c;
  }
  return plain;
}

std::optional<Site> Parse(std::string_view text) {
  if (Cut(&text, '\n') != "1") return std::nullopt;
  Site site;
  const std::string_view part = Cut(&text, '\n');
  site.part = part == "begin" ? Part::kBegin : part == "end" ? Part::kEnd : Part::kWhole;
  site.info.root = Unescaped(Cut(&text, '\n'));
  site.info.path = Unescaped(Cut(&text, '\n'));
  site.info.cls = Unescaped(Cut(&text, '\n'));
  site.info.leaf = Cut(&text, '\n') == "leaf";
  site.is_root = Cut(&text, '\n') == "root";
  std::string_view aliases = Cut(&text, '\n');
  while (!aliases.empty()) site.info.aliases.push_back(Unescaped(Cut(&aliases, '\t')));
  while (!text.empty()) {
    std::string_view value = Cut(&text, '\n');
    const std::string_view kind = Cut(&value, ' ');
    site.values.push_back(
        {kind == "o" ? Role::kOutput : Role::kInput, kind == "l", Unescaped(value)});
  }
  site.told_as = ToldAs(site.info, site.is_root);
  return site;
}

// By text; kept for good. Null: a version that is not known.
const Site* SiteOf(std::string_view text) {
  static auto* mutex = new ForkMutex;
  static auto* sites = new std::map<std::string, std::optional<Site>, std::less<>>;
  static uint64_t roots = 0;
  std::lock_guard lock(*mutex);
  auto found = sites->find(text);
  if (found == sites->end()) {
    found = sites->emplace(text, Parse(text)).first;
    if (found->second && found->second->is_root) found->second->number = kFirstNumber + roots++;
  }
  return found->second ? &*found->second : nullptr;
}

void Keep(Runtime* runtime, Recorder::CallScope* scope, const Site& site, at::TensorList values) {
  for (size_t i = 0; i < values.size() && i < site.values.size(); ++i) {
    const Site::Value& value = site.values[i];
    Capture(*runtime->recorder, scope, {value.role, value.arg, value.late}, values[i]);
  }
}

// Calls of this thread that began and did not end.
struct OpenExported {
  std::string key;  // root and path
  uint64_t serial;
};

std::vector<OpenExported>& OpenOfThread() {
  static thread_local std::vector<OpenExported> open;
  return open;
}

std::string KeyOf(const Site& site) { return site.info.root + '\n' + site.info.path; }

// `here`: a place on the stack of what runs the package. A package that threw left calls below it.
ModuleFrame* Begin(Runtime* runtime, const Site& site, const void* here) {
  ModuleCalls& calls = ModuleCalls::OfThread();
  if (site.is_root) calls.DropUnwound(runtime, here);
  if (!calls.empty() && !runtime->gate->armed()) return nullptr;
  std::vector<OpenExported>& open = OpenOfThread();
  while (!open.empty() && calls.WithSerial(open.back().serial) == nullptr) open.pop_back();
  const OperatorId op = runtime->operators->Intern(site.info);
  if (op == kNoOperator) return nullptr;
  const ModuleIdentity identity{.module = &site,
                                .op = op,
                                .is_root = site.is_root,
                                .told_as = site.told_as,
                                .cls = site.info.cls,
                                .root_number = site.number};
  ModuleFrame* frame = calls.Push(runtime, identity, /*depth=*/0);
  if (frame == nullptr) return nullptr;
  frame->stack = here;
  open.push_back({KeyOf(site), frame->serial});
  runtime->recorder->Begin(op, nullptr, Phase::kForward, frame->recompute, &frame->scope);
  frame->scope.call.compiled = !site.is_root;
  return frame;
}

void End(Runtime* runtime, const Site& site, at::TensorList values) {
  std::vector<OpenExported>& open = OpenOfThread();
  if (open.empty() || open.back().key != KeyOf(site)) return;
  ModuleCalls& calls = ModuleCalls::OfThread();
  ModuleFrame* frame = calls.WithSerial(open.back().serial);
  open.pop_back();
  if (frame == nullptr) return;
  calls.UnwindTo(runtime, frame);
  if (frame->scope.call.begin != 0) Keep(runtime, &frame->scope, site, values);
  calls.Pop(runtime, /*threw=*/false);
}

void Whole(Runtime* runtime, const Site& site, at::TensorList values) {
  const OperatorId op = runtime->operators->Intern(site.info);
  Recorder::CallScope scope;
  if (op == kNoOperator ||
      !runtime->recorder->Begin(op, nullptr, Phase::kForward, InBackward(), &scope))
    return;
  scope.call.compiled = true;
  Keep(runtime, &scope, site, values);
  runtime->recorder->End(&scope, /*threw=*/false);
}

void ExportedCall(at::TensorList values, std::string_view text) {
  Runtime* runtime = CurrentRuntime();
  if (runtime == nullptr || runtime->gate->off() || !runtime->collect_modules) return;
  if (TracingRegion() != nullptr) return;
  try {
    const at::DisableRecordFunctionGuard unseen;
    const Site* site = SiteOf(text);
    if (site == nullptr) {
      runtime->sink->note("a package that another tdump made: its modules are not captured");
    } else if (site->part == Part::kEnd) {
      End(runtime, *site, values);
    } else if (site->part == Part::kBegin) {
      ModuleFrame* frame = Begin(runtime, *site, __builtin_frame_address(0));
      if (frame != nullptr && frame->scope.call.begin != 0)
        Keep(runtime, &frame->scope, *site, values);
    } else if (runtime->gate->armed()) {
      Whole(runtime, *site, values);
    }
  } catch (...) {  // out of memory: nothing is recorded
  }
}

}  // namespace

void DefineExportedOperators() {
  static torch::Library* library = nullptr;
  if (library != nullptr) return;
  auto made = std::make_unique<torch::Library>(torch::Library::FRAGMENT, "tdump", std::nullopt,
                                               __FILE__, __LINE__);
  // Any layout of the values will do: none is copied for the sake of its strides.
  const std::vector<at::Tag> tags = {at::Tag::flexible_layout};
  made->def("exported_call(Tensor[] values, str site) -> ()", tags);
  made->impl("exported_call",
             torch::dispatch(c10::DispatchKey::CompositeExplicitAutograd, TORCH_FN(ExportedCall)));
  library = made.release();  // for as long as the process lives
}

}  // namespace tdump::collectors
