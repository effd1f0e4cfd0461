#include "collectors/python/flatten.h"

#include <ATen/EmptyTensor.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "collectors/python/python_tensor.h"
#include "collectors/torch/capture.h"
#include "core/index_text.h"

namespace tdump::collectors {
namespace {

constexpr int kMaxLeaves = 65536;  // tensors and other values of one argument list or result

// Appends ".name" (or "name" at the top) and cuts it off again.
class PathPart {
 public:
  PathPart(std::string* path, std::string_view name) : path_(path), length_(path->size()) {
    if (!path->empty()) *path += '.';
    *path += name;
  }
  ~PathPart() { path_->resize(length_); }

 private:
  std::string* path_;
  size_t length_;
};

// Where the text of a key that has none of its own is made.
struct KeyBuffer {
  char bytes[4 + IndexText::kMaxBytes];
};

std::string_view NumberText(std::string_view before, long long number, KeyBuffer* buffer) {
  char* at = std::copy(before.begin(), before.end(), buffer->bytes);
  if (number < 0) *at++ = '-';
  const auto size = static_cast<unsigned long long>(number);
  at = IndexText::Copy(number < 0 ? 0 - size : size, at);
  return {buffer->bytes, static_cast<size_t>(at - buffer->bytes)};
}

// Keys that are strings or integers name a part; others are counted. Valid as long as the key and
// the buffer.
std::string_view KeyText(PyObject* key, Py_ssize_t position, KeyBuffer* buffer) {
  if (PyUnicode_Check(key)) {
    Py_ssize_t length = 0;
    const char* text = PyUnicode_AsUTF8AndSize(key, &length);
    if (text != nullptr) return {text, static_cast<size_t>(length)};
    PyErr_Clear();
  } else if (PyLong_CheckExact(key)) {
    const long long number = PyLong_AsLongLong(key);
    if (number != -1 || PyErr_Occurred() == nullptr) return NumberText("", number, buffer);
    PyErr_Clear();
  }
  return NumberText("key", position, buffer);
}

// Attribute without a fuss: a new reference, or null with no error set.
PyObject* Attribute(PyObject* object, const char* name) {
  PyObject* value = PyObject_GetAttrString(object, name);
  if (value == nullptr) PyErr_Clear();
  return value;
}

// An attribute of a class as its body and those of its bases define it: borrowed, no code runs.
PyObject* ClassAttribute(PyObject* value, PyObject* name) {
  return name == nullptr ? nullptr : _PyType_Lookup(Py_TYPE(value), name);
}

PyObject* FieldsName() {
  static PyObject* name = PyUnicode_InternFromString("_fields");
  return name;
}

PyObject* DataclassName() {
  static PyObject* name = PyUnicode_InternFromString("__dataclass_fields__");
  return name;
}

PyTypeObject* UserDict() {
  static PyObject* cls = [] {
    PyObject* collections = PyImport_ImportModule("collections");
    PyObject* found =
        collections != nullptr ? PyObject_GetAttrString(collections, "UserDict") : nullptr;
    Py_XDECREF(collections);
    PyErr_Clear();
    return found != nullptr && PyType_Check(found) ? found : nullptr;
  }();
  return reinterpret_cast<PyTypeObject*>(cls);
}

// Adds what goes in without making an object or a text.
bool AddPlain(PyObject* value, std::string_view name, CallText* text) {
  if (value == Py_None) return text->AddText(name, "None"), true;
  if (value == Py_True) return text->AddText(name, "True"), true;
  if (value == Py_False) return text->AddText(name, "False"), true;
  if (PyFloat_CheckExact(value)) return text->AddPythonFloat(name, PyFloat_AS_DOUBLE(value)), true;
  if (PyLong_CheckExact(value)) {
    int overflow = 0;
    const long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
    if (overflow == 0) text->AddInteger(name, number);
    return overflow == 0;
  }
  if (!PyUnicode_CheckExact(value) || !PyUnicode_IS_ASCII(value)) return false;
  const auto* ascii = reinterpret_cast<const char*>(PyUnicode_1BYTE_DATA(value));
  text->AddPythonString(name, {ascii, static_cast<size_t>(PyUnicode_GET_LENGTH(value))});
  return true;
}

// A long integer, a str that is not ASCII: repr() knows their text.
void AddRepr(PyObject* value, std::string_view name, CallText* text) {
  const bool plain = PyUnicode_CheckExact(value) || PyLong_CheckExact(value);
  PyObject* made = plain ? PyObject_Repr(value) : nullptr;
  const char* utf8 = made != nullptr ? PyUnicode_AsUTF8(made) : nullptr;
  if (utf8 != nullptr)
    text->AddText(name, utf8);
  else
    text->AddPythonObject(name, Py_TYPE(value)->tp_name);
  Py_XDECREF(made);
  PyErr_Clear();
}

struct TextPool {
  std::vector<std::unique_ptr<std::string>> texts;
  size_t used = 0;
};

TextPool& PoolOfThread() {
  static thread_local TextPool pool;
  return pool;
}

}  // namespace

ThreadText::ThreadText() {
  TextPool& pool = PoolOfThread();
  if (pool.used == pool.texts.size()) pool.texts.push_back(std::make_unique<std::string>());
  text_ = pool.texts[pool.used++].get();
  text_->clear();
}

ThreadText::~ThreadText() { --PoolOfThread().used; }

void Flattener::Visit(PyObject* value, std::string_view arg) {
  *path_ = arg;
  VisitValue(value);
}

void Flattener::VisitArguments(PyObject* args) {
  (*path_).clear();
  if (PyTuple_Check(args)) VisitSequence(args);
}

void Flattener::VisitKeywords(PyObject* kwargs) {
  (*path_).clear();
  if (!PyDict_Check(kwargs) || PyDict_GET_SIZE(kwargs) == 0) return;
  PathPart part(path_.get(), "kwargs");
  VisitDict(kwargs);
}

void Flattener::VisitValue(PyObject* value) {
  if (leaves_ >= kMaxLeaves) {
    recorder_.sink().note(
        "an argument list or result holds more than 65,536 values: the rest of it is not captured");
    return;
  }
  if (IsTensor(value)) return VisitTensor(value);
  if (value == Py_None || PyUnicode_Check(value) || PyLong_Check(value) || PyFloat_Check(value))
    return NoteValue(value);
  const auto end = above_.begin() + depth_;
  const bool contains_itself = std::find(above_.begin(), end, value) != end;
  const bool too_deep = depth_ == static_cast<int>(above_.size());
  if (too_deep && (PyTuple_Check(value) || PyList_Check(value) || PyDict_Check(value)))
    recorder_.sink().note(
        "containers are nested more than 32 deep: what lies below is not captured");
  if (!contains_itself && !too_deep) {
    above_[depth_++] = value;
    const bool container = VisitContainer(value);
    --depth_;
    if (container) return;
  }
  NoteValue(value);
}

bool Flattener::VisitContainer(PyObject* value) {
  if (PyTuple_Check(value)) {
    PyObject* fields = PyTuple_CheckExact(value) ? nullptr : ClassAttribute(value, FieldsName());
    if (fields != nullptr && PyTuple_Check(fields) &&
        PyTuple_GET_SIZE(fields) == PyTuple_GET_SIZE(value)) {
      Py_INCREF(fields);
      VisitNamedTuple(value, fields);
      Py_DECREF(fields);
    } else {
      VisitSequence(value);
    }
    return true;
  }
  if (PyList_Check(value)) {
    VisitSequence(value);
    return true;
  }
  if (PyDict_Check(value)) {
    VisitDict(value);
    return true;
  }
  return VisitDataclass(value);
}

void Flattener::VisitSequence(PyObject* sequence) {
  // Sizes are read anew each time: nothing here holds a list back from changing.
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(sequence); ++i) {
    KeyBuffer buffer;
    PathPart part(path_.get(), NumberText("", i, &buffer));
    PyObject* item = Py_NewRef(PySequence_Fast_GET_ITEM(sequence, i));
    VisitValue(item);
    Py_DECREF(item);
  }
}

void Flattener::VisitNamedTuple(PyObject* tuple, PyObject* fields) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) {
    KeyBuffer buffer;
    PathPart part(path_.get(), KeyText(PyTuple_GET_ITEM(fields, i), i, &buffer));
    VisitValue(PyTuple_GET_ITEM(tuple, i));
  }
}

void Flattener::VisitDict(PyObject* dict) {
  PyObject *key, *item;
  Py_ssize_t position = 0, count = 0;
  while (PyDict_Next(dict, &position, &key, &item)) {
    KeyBuffer buffer;
    PathPart part(path_.get(), KeyText(key, count++, &buffer));
    Py_INCREF(item);
    VisitValue(item);
    Py_DECREF(item);
  }
}

// Dataclasses, and objects that wrap a dict in `data` as collections.UserDict does.
bool Flattener::VisitDataclass(PyObject* value) {
  if (PyType_Check(value)) return false;
  PyObject* fields = ClassAttribute(value, DataclassName());
  if (fields != nullptr && PyDict_Check(fields)) {
    Py_INCREF(fields);
    PyObject *name, *field;
    Py_ssize_t position = 0, count = 0;
    while (PyDict_Next(fields, &position, &name, &field)) {
      PyObject* item = PyUnicode_Check(name) ? PyObject_GetAttr(value, name) : nullptr;
      if (item == nullptr) {
        PyErr_Clear();
        continue;
      }
      KeyBuffer buffer;
      PathPart part(path_.get(), KeyText(name, count++, &buffer));
      VisitValue(item);
      Py_DECREF(item);
    }
    Py_DECREF(fields);
    return true;
  }
  if (UserDict() == nullptr || PyType_IsSubtype(Py_TYPE(value), UserDict()) == 0) return false;
  PyObject* data = Attribute(value, "data");
  const bool is_dict = data != nullptr && PyDict_Check(data);
  if (is_dict) VisitDict(data);
  Py_XDECREF(data);
  return is_dict;
}

// Where it is not the first behind the batch. No operator of torch's makes the number: one would
// be recorded as the job's.
void Flattener::VisitRaggedDim(PyObject* tensor) {
  PyObject* index = Attribute(tensor, "_ragged_idx");
  const int64_t dim = index != nullptr && PyLong_Check(index) ? PyLong_AsLongLong(index) : 1;
  Py_XDECREF(index);
  if (dim == -1) PyErr_Clear();
  if (dim <= 1) return;
  const at::TensorBase number = at::detail::empty_cpu({}, at::kLong);
  *number.mutable_data_ptr<int64_t>() = dim;
  PathPart part(path_.get(), "jagged_dim");
  Capture(recorder_, scope_, {role_, *path_, late_, ""}, number);
}

// A jagged tensor is a class of Python around its parts.
void Flattener::VisitJagged(PyObject* tensor) {
  VisitRaggedDim(tensor);
  for (const auto& [attribute, name] :
       {std::pair{"_values", "values"}, {"_offsets", "offsets"}, {"_lengths", "lengths"}}) {
    PyObject* value = Attribute(tensor, attribute);
    if (value != nullptr && IsTensor(value)) {
      PathPart part(path_.get(), name);
      Capture(recorder_, scope_, {role_, *path_, late_, SubclassOf(value)}, TensorOf(value));
    }
    Py_XDECREF(value);
  }
}

void Flattener::VisitTensor(PyObject* tensor) {
  ++leaves_;
  const at::TensorBase& seen = TensorOf(tensor);
  if (values_) Capture(recorder_, scope_, {role_, *path_, late_, SubclassOf(tensor)}, seen);
  if (values_ && SubclassOf(tensor) == kJaggedClass) VisitJagged(tensor);
  if (gradients_) WatchGradient(*scope_, GradientOf(role_), *path_, late_, seen);
  watches_ = watches_ || (gradients_ && RequiresGradient(tensor));
}

void Flattener::NoteValue(PyObject* value) {
  ++leaves_;
  if (scope_->text.full()) return;
  ThreadText name;
  if (role_ == Role::kOutput) (*name).append("out").append((*path_).empty() ? "" : ".");
  (*name).append(*path_);
  if (!AddPlain(value, *name, &scope_->text)) AddRepr(value, *name, &scope_->text);
}

}  // namespace tdump::collectors
