#include "collectors/python/python_text.h"

namespace tdump::collectors {
namespace {

bool Encode(PyObject* text, const char* errors, std::string* bytes) {
  PyObject* encoded = PyUnicode_AsEncodedString(text, "utf-8", errors);
  if (encoded == nullptr) {
    PyErr_Clear();
    return false;
  }
  bytes->assign(PyBytes_AS_STRING(encoded), static_cast<size_t>(PyBytes_GET_SIZE(encoded)));
  Py_DECREF(encoded);
  return true;
}

}  // namespace

std::optional<std::string_view> Utf8Of(PyObject* text, std::string* made) {
  if (!PyUnicode_Check(text)) return std::nullopt;
  Py_ssize_t length = 0;
  const char* utf8 = PyUnicode_AsUTF8AndSize(text, &length);
  if (utf8 != nullptr) return std::string_view(utf8, static_cast<size_t>(length));
  PyErr_Clear();
  if (Encode(text, "surrogateescape", made) || Encode(text, "backslashreplace", made)) return *made;
  return std::nullopt;
}

}  // namespace tdump::collectors
