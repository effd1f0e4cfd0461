#include "collectors/python/flatten.h"

#include <algorithm>
#include <charconv>
#include <memory>
#include <vector>

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

// Where the text of a key that has none of its own is made.
struct KeyBuffer {
  char bytes[32];
};

// Keys that are strings or integers name a part; others are counted. Valid as long as the key and
// the buffer.
std::string_view KeyText(PyObject* key, Py_ssize_t position, KeyBuffer* buffer) {
  const auto number_text = [&](std::string_view before, long long number) {
    char* const at = std::copy(before.begin(), before.end(), buffer->bytes);
    char* const end = std::to_chars(at, buffer->bytes + sizeof(KeyBuffer), number).ptr;
    return std::string_view(buffer->bytes, static_cast<size_t>(end - buffer->bytes));
  };
  if (PyUnicode_Check(key)) {
    Py_ssize_t length = 0;
    const char* text = PyUnicode_AsUTF8AndSize(key, &length);
    if (text != nullptr) return {text, static_cast<size_t>(length)};
    PyErr_Clear();
  } else if (PyLong_CheckExact(key)) {
    const long long number = PyLong_AsLongLong(key);
    if (number != -1 || PyErr_Occurred() == nullptr) return number_text("", number);
    PyErr_Clear();
  }
  return number_text("key", position);
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

// Text of None, a bool or a short integer without making an object; "" for anything else.
std::string_view ShortText(PyObject* value, KeyBuffer* buffer) {
  if (value == Py_None) return "None";
  if (value == Py_True) return "True";
  if (value == Py_False) return "False";
  if (!PyLong_CheckExact(value)) return "";
  int overflow = 0;
  const long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
  if (overflow != 0) return "";
  char* const end = std::to_chars(buffer->bytes, buffer->bytes + sizeof(KeyBuffer), number).ptr;
  return {buffer->bytes, static_cast<size_t>(end - buffer->bytes)};
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
    char buffer[24];
    PathPart part(path_.get(), IndexText(i, buffer));
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

// A jagged tensor is a class of Python around its parts.
void Flattener::VisitJagged(PyObject* tensor) {
  for (const auto& [attribute, name] : {std::pair{"_values", "values"}, {"_offsets", "offsets"}}) {
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
  Capture(recorder_, scope_, {role_, *path_, late_, SubclassOf(tensor)}, TensorOf(tensor));
  if (SubclassOf(tensor) == kJaggedClass) VisitJagged(tensor);
  if (gradients_) WatchGradient(*scope_, GradientOf(role_), *path_, late_, TensorOf(tensor));
}

void Flattener::NoteValue(PyObject* value) {
  ++leaves_;
  if (!HasRoomForText(*scope_)) return;
  ThreadText name;
  if (role_ == Role::kOutput) (*name).append("out").append((*path_).empty() ? "" : ".");
  (*name).append(*path_);
  KeyBuffer buffer;
  if (const std::string_view text = ShortText(value, &buffer); !text.empty())
    return AddText(scope_, *name, text);
  const bool plain =
      PyUnicode_CheckExact(value) || PyLong_CheckExact(value) || PyFloat_CheckExact(value);
  PyObject* text = plain ? PyObject_Repr(value) : nullptr;
  const char* utf8 = text != nullptr ? PyUnicode_AsUTF8(text) : nullptr;
  if (utf8 != nullptr)
    AddText(scope_, *name, utf8);
  else
    AddText(scope_, *name, "<" + std::string(Py_TYPE(value)->tp_name) + ">");
  Py_XDECREF(text);
  PyErr_Clear();
}

}  // namespace tdump::collectors
