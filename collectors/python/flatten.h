// Finds the tensors in what a module takes and gives: tuples, lists, dicts, dataclasses, named
// tuples, user dicts.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <array>
#include <string>
#include <string_view>

#include "collectors/torch/gradients.h"
#include "core/recorder.h"

namespace tdump::collectors {

// A text of the calling thread that keeps its room from one use to the next. Uses nest: reading a
// value may run code of the job.
class ThreadText {
 public:
  ThreadText();
  ~ThreadText();
  ThreadText(const ThreadText&) = delete;
  std::string& operator*() { return *text_; }
  std::string* get() { return text_; }

 private:
  std::string* text_;
};

// Visits `value` depth first and captures every tensor in it under the path of keys and positions
// below `arg`: "0", "1.hidden_states"; the value itself is `arg`. Where the gradients of such
// tensors are wanted, they are watched from here on. What is no tensor goes into the
// call's text. Reads containers and attributes only; no user code runs but __getattr__ of dataclass
// fields. No Python error is left set.
class Flattener {
 public:
  Flattener(Recorder& recorder, Recorder::CallScope* scope, Role role, bool late)
      : recorder_(recorder),
        scope_(scope),
        role_(role),
        late_(late),
        gradients_(WantsGradient(recorder, *scope, GradientOf(role))) {}

  // Before a visit: only values, or only gradients, as far as these are wanted. Returns whether
  // gradients are.
  bool Take(bool values, bool gradients) {
    values_ = values;
    return gradients_ = gradients_ && gradients;
  }
  // Whether a tensor was visited whose gradient is watched.
  bool watches() const { return watches_; }

  void Visit(PyObject* value, std::string_view arg);
  // The items of a tuple of positional arguments, of a dict of keyword
  // arguments: "0", "kwargs.mask".
  void VisitArguments(PyObject* args);
  void VisitKeywords(PyObject* kwargs);

 private:
  void VisitValue(PyObject* value);
  bool VisitContainer(PyObject* value);
  void VisitSequence(PyObject* sequence);
  void VisitNamedTuple(PyObject* tuple, PyObject* fields);
  void VisitDict(PyObject* dict);
  bool VisitDataclass(PyObject* value);
  void VisitTensor(PyObject* tensor);
  void VisitJagged(PyObject* tensor);
  void VisitRaggedDim(PyObject* tensor);
  void NoteValue(PyObject* value);

  static Role GradientOf(Role role) {
    return role == Role::kInput ? Role::kGradInput : Role::kGradOutput;
  }

  Recorder& recorder_;
  Recorder::CallScope* scope_;
  Role role_;
  bool late_;
  bool gradients_;
  bool values_ = true;
  bool watches_ = false;
  ThreadText path_;
  std::array<PyObject*, 32> above_{};  // containers that are being visited, outermost first
  int depth_ = 0;
  int leaves_ = 0;
};

}  // namespace tdump::collectors
