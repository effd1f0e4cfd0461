#include "collectors/python/tap.h"

#include <string>

#include "collectors/python/error_guard.h"
#include "collectors/python/flatten.h"
#include "collectors/python/hooks.h"
#include "collectors/python/python_text.h"
#include "collectors/torch/capture.h"
#include "collectors/torch/module_calls.h"
#include "collectors/torch/plugin.h"
#include "collectors/torch/torch_state.h"

namespace tdump::collectors {
namespace {

// A str or number as text; of anything else the type. A str is its own text, which it keeps.
void TextOf(PyObject* object, std::string* result) {
  const bool plain = PyUnicode_Check(object) || PyLong_Check(object) || PyFloat_Check(object);
  if (!plain) {
    result->assign("<").append(Py_TYPE(object)->tp_name).append(">");
    return;
  }
  PyObject* text = PyObject_Str(object);
  std::string made;
  result->assign(text != nullptr ? Utf8Of(text, &made).value_or("") : "");
  Py_XDECREF(text);
  PyErr_Clear();
}

void AddTags(Recorder::CallScope* scope, PyObject* tags) {
  ThreadText tag;
  for (Py_ssize_t i = 0; PyTuple_Check(tags) && i < PyTuple_GET_SIZE(tags); ++i) {
    TextOf(PyTuple_GET_ITEM(tags, i), tag.get());
    scope->text.AddText("tag", *tag);
  }
}

struct Standing {
  OperatorId owner;
  Phase phase;
  bool recompute;
};

Standing StandingOf(const ModuleFrame* inside, TapPlace place) {
  if (place == TapPlace::kValueOfModule) return {kNoOperator, Phase::kForward, InBackward()};
  if (place == TapPlace::kGradientOfModule) return {kNoOperator, Phase::kBackward, false};
  if (inside != nullptr) return {inside->op, Phase::kForward, inside->recompute};
  return {kNoOperator, InBackward() ? Phase::kBackward : Phase::kForward, false};
}

void TapOrThrow(Runtime* runtime, PyObject* value, PyObject* name, PyObject* tags, TapHalf half,
                TapPlace place) {
  Activate(runtime);
  const char* region = TracingRegion();
  if (region == nullptr && !runtime->gate->armed()) return;
  ThreadText reused;
  std::string& text = *reused;
  TextOf(name, &text);
  if (text.empty()) text = "tap";
  if (region != nullptr) {
    return runtime->sink->note(std::string(region) + ": the tap '" + text +
                               "' is traced here, not run; not captured (not in this version)");
  }
  ModuleCalls& calls = ModuleCalls::OfThread();
  if (!calls.empty()) calls.DropStale(runtime, InterpreterDepth());
  const Standing standing = StandingOf(calls.top(), place);
  TapCall call;
  if (!runtime->recorder->Begin(TapOperator(runtime, standing.owner, text), nullptr, standing.phase,
                                standing.recompute, call.scope()))
    return;
  AddTags(call.scope(), tags);
  Flattener flattener(*runtime->recorder, call.scope(), Role::kOutput, /*late=*/false);
  const bool wanted = flattener.Take(HasValue(half), HasGradient(half));
  flattener.Visit(value, "");
  // Without gradients a checkpoint runs what it will run again with them.
  if (half == TapHalf::kGradient && !(wanted && (flattener.watches() || !GradEnabled())))
    NoteTapWithoutGradient(runtime, text, wanted);
  runtime->recorder->End(call.scope(), /*threw=*/false);
}

}  // namespace

void Tap(PyObject* value, PyObject* name, PyObject* tags, TapHalf half, TapPlace place) {
  Runtime* runtime = CurrentRuntime();
  if (Inert(runtime) || !runtime->collect_taps) return;
  ErrorGuard guard;
  try {
    TapOrThrow(runtime, value, name, tags, half, place);
  } catch (...) {  // out of memory: nothing is recorded
  }
}

}  // namespace tdump::collectors
