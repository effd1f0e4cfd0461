#include "collectors/python/flatten.h"

#include <algorithm>
#include <charconv>

#include "collectors/python/python_tensor.h"
#include "collectors/torch/capture.h"

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

std::string_view IndexText(Py_ssize_t index, char (&buffer)[24]) {
  return {buffer,
          static_cast<size_t>(std::to_chars(buffer, buffer + sizeof buffer, index).ptr - buffer)};
}

// Keys that are strings or integers name a part; others are counted.
std::string KeyText(PyObject* key, Py_ssize_t position) {
  if (PyUnicode_Check(key)) {
    Py_ssize_t length = 0;
    const char* text = PyUnicode_AsUTF8AndSize(key, &length);
    if (text != nullptr) return {text, static_cast<size_t>(length)};
    PyErr_Clear();
  } else if (PyLong_CheckExact(key)) {
    const long long number = PyLong_AsLongLong(key);
    if (number != -1 || PyErr_Occurred() == nullptr) return std::to_string(number);
    PyErr_Clear();
  }
  return "key" + std::to_string(position);
}

// Attribute without a fuss: a new reference, or null with no error set.
PyObject* Attribute(PyObject* object, const char* name) {
  PyObject* value = PyObject_GetAttrString(object, name);
  if (value == nullptr) PyErr_Clear();
  return value;
}

}  // namespace

void Flattener::Visit(PyObject* value, std::string_view arg) {
  path_ = arg;
  VisitValue(value);
}

void Flattener::VisitArguments(PyObject* args) {
  path_.clear();
  if (PyTuple_Check(args)) VisitSequence(args);
}

void Flattener::VisitKeywords(PyObject* kwargs) {
  path_.clear();
  if (!PyDict_Check(kwargs) || PyDict_GET_SIZE(kwargs) == 0) return;
  PathPart part(&path_, "kwargs");
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
    PyObject* fields = PyTuple_CheckExact(value)
                           ? nullptr
                           : Attribute(reinterpret_cast<PyObject*>(Py_TYPE(value)), "_fields");
    if (fields != nullptr && PyTuple_Check(fields) &&
        PyTuple_GET_SIZE(fields) == PyTuple_GET_SIZE(value)) {
      VisitNamedTuple(value, fields);
    } else {
      VisitSequence(value);
    }
    Py_XDECREF(fields);
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
    char buffer[24];
    PathPart part(&path_, IndexText(i, buffer));
    PyObject* item = Py_NewRef(PySequence_Fast_GET_ITEM(sequence, i));
    VisitValue(item);
    Py_DECREF(item);
  }
}

void Flattener::VisitNamedTuple(PyObject* tuple, PyObject* fields) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) {
    PathPart part(&path_, KeyText(PyTuple_GET_ITEM(fields, i), i));
    VisitValue(PyTuple_GET_ITEM(tuple, i));
  }
}

void Flattener::VisitDict(PyObject* dict) {
  PyObject *key, *item;
  Py_ssize_t position = 0, count = 0;
  while (PyDict_Next(dict, &position, &key, &item)) {
    PathPart part(&path_, KeyText(key, count++));
    Py_INCREF(item);
    VisitValue(item);
    Py_DECREF(item);
  }
}

// Dataclasses, and objects that wrap a dict in `data` as collections.UserDict does.
bool Flattener::VisitDataclass(PyObject* value) {
  if (PyType_Check(value)) return false;
  PyObject* fields = Attribute(reinterpret_cast<PyObject*>(Py_TYPE(value)), "__dataclass_fields__");
  if (fields != nullptr && PyDict_Check(fields)) {
    PyObject *name, *field;
    Py_ssize_t position = 0, count = 0;
    while (PyDict_Next(fields, &position, &name, &field)) {
      PyObject* item = PyUnicode_Check(name) ? PyObject_GetAttr(value, name) : nullptr;
      if (item == nullptr) {
        PyErr_Clear();
        continue;
      }
      PathPart part(&path_, KeyText(name, count++));
      VisitValue(item);
      Py_DECREF(item);
    }
    Py_DECREF(fields);
    return true;
  }
  Py_XDECREF(fields);
  static PyObject* user_dict = [] {
    PyObject* collections = PyImport_ImportModule("collections");
    PyObject* cls =
        collections != nullptr ? PyObject_GetAttrString(collections, "UserDict") : nullptr;
    PyErr_Clear();
    return cls;
  }();
  if (user_dict == nullptr || PyObject_IsInstance(value, user_dict) != 1) {
    PyErr_Clear();
    return false;
  }
  PyObject* data = Attribute(value, "data");
  const bool is_dict = data != nullptr && PyDict_Check(data);
  if (is_dict) VisitDict(data);
  Py_XDECREF(data);
  return is_dict;
}

// A jagged tensor is a class of Python around its parts.
void Flattener::VisitJagged(PyObject* tensor) {
  for (const auto& [attribute, name] : {std::pair{"_values", "values"}, {"_offsets", "offsets"}}) {
    PyObject* value = Attribute(tensor, attribute);
    if (value != nullptr && IsTensor(value)) {
      PathPart part(&path_, name);
      Capture(recorder_, scope_, {role_, path_, late_, SubclassOf(value)}, TensorOf(value));
    }
    Py_XDECREF(value);
  }
}

void Flattener::VisitTensor(PyObject* tensor) {
  ++leaves_;
  Capture(recorder_, scope_, {role_, path_, late_, SubclassOf(tensor)}, TensorOf(tensor));
  if (SubclassOf(tensor) == kJaggedClass) VisitJagged(tensor);
  if (gradients_) WatchGradient(*scope_, GradientOf(role_), path_, late_, TensorOf(tensor));
}

void Flattener::NoteValue(PyObject* value) {
  ++leaves_;
  if (!HasRoomForText(*scope_)) return;
  const std::string name =
      (role_ == Role::kOutput ? "out" + std::string(path_.empty() ? "" : ".") : "") + path_;
  const bool plain = value == Py_None || PyBool_Check(value) || PyUnicode_CheckExact(value) ||
                     PyLong_CheckExact(value) || PyFloat_CheckExact(value);
  PyObject* text = plain ? PyObject_Repr(value) : nullptr;
  const char* utf8 = text != nullptr ? PyUnicode_AsUTF8(text) : nullptr;
  if (utf8 != nullptr)
    AddText(scope_, name, utf8);
  else
    AddText(scope_, name, "<" + std::string(Py_TYPE(value)->tp_name) + ">");
  Py_XDECREF(text);
  PyErr_Clear();
}

}  // namespace tdump::collectors
