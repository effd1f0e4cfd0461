#include "collectors/python/local_parts.h"

#include <ATen/record_function.h>

#include <memory>
#include <string>
#include <unordered_map>

#include "collectors/python/error_guard.h"
#include "collectors/python/gil.h"
#include "collectors/python/in_python.h"
#include "collectors/python/python_tensor.h"
#include "collectors/python/reference.h"
#include "collectors/torch/local_parts.h"

namespace tdump::collectors {
namespace {

std::string TextOf(PyObject* object) {
  const Reference text(object != nullptr ? InPython([&] { return PyObject_Str(object); })
                                         : nullptr);
  const char* utf8 = text != nullptr ? PyUnicode_AsUTF8(text.get()) : nullptr;
  if (utf8 == nullptr) PyErr_Clear();
  return utf8 != nullptr ? utf8 : "";
}

struct Layout {
  Reference spec;  // weak
  std::string placements, mesh;
};

// What torch prints of a layout, as long as its own description of it (`_spec`) is the same object:
// a parameter keeps it, and its gradients mostly share it. Keeps no description alive.
class Layouts {
 public:
  static Layouts& Get() {
    static auto* one = new Layouts;  // never destroyed: Python may be gone by then
    return *one;
  }

  // Null: torch does not say it.
  std::shared_ptr<const Layout> Of(PyObject* dtensor) {
    const Reference spec = AttributeOf(dtensor, "_spec");
    if (const auto found = known_.find(spec.get());
        found != known_.end() && PyWeakref_GetObject(found->second->spec.get()) == spec.get())
      return found->second;
    auto layout = std::make_shared<Layout>();
    layout->placements = TextOf(InPython([&] { return AttributeOf(dtensor, "placements"); }).get());
    layout->mesh = TextOf(InPython([&] { return AttributeOf(dtensor, "device_mesh"); }).get());
    if (layout->placements.empty() || layout->mesh.empty()) return nullptr;
    layout->spec.reset(spec != nullptr ? PyWeakref_NewRef(spec.get(), nullptr) : nullptr);
    PyErr_Clear();
    if (known_.size() >= kMost) known_.clear();
    if (layout->spec != nullptr) known_[spec.get()] = layout;
    return layout;
  }

 private:
  static constexpr size_t kMost = 4096;  // those of results are mostly of no use a second time

  std::unordered_map<PyObject*, std::shared_ptr<const Layout>> known_;
};

bool Read(const at::TensorBase& tensor, UseLocalPart use, void* context) {
  if (!Py_IsInitialized()) return false;
  const Gil gil;
  const ErrorGuard guard;
  const Reference whole = ObjectOf(tensor);
  if (whole == nullptr || !IsSharded(whole.get())) return false;
  const Reference local = AttributeOf(whole.get(), "_local_tensor");
  if (local == nullptr || !IsTensor(local.get())) return false;
  std::shared_ptr<const Layout> layout;
  {
    const at::DisableRecordFunctionGuard unseen;  // the job asked for none of it
    layout = Layouts::Get().Of(whole.get());
  }
  if (layout == nullptr) return false;
  use(context, TensorOf(local.get()),
      {layout->placements, layout->mesh, SizesOf(whole.get()), RequiresGradient(whole.get()),
       SubclassOf(local.get())});
  return true;
}

}  // namespace

bool IsSharded(PyObject* object) { return SubclassOf(object) == kDTensorClass; }

void InstallLocalPartReader() { SetLocalPartReader(Read); }

}  // namespace tdump::collectors
