#include "collectors/torch/aten_operators.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>
#include <charconv>
#include <cstring>

namespace tdump::collectors {
namespace {

// Collectives have results that are not there yet when the operator returns.
bool IsCollective(const std::string& name) {
  for (const char* space : {"c10d::", "_c10d_functional::", "_c10d_functional_autograd::"}) {
    if (name.starts_with(space)) return true;
  }
  return false;
}

std::vector<AtenOperator::Argument> ArgumentsOf(const c10::FunctionSchema& schema) {
  std::vector<AtenOperator::Argument> arguments;
  for (const c10::Argument& argument : schema.arguments()) {
    AtenOperator::Argument& own = arguments.emplace_back();
    own.name = argument.name();
    own.arg =
        argument.kwarg_only() ? "kwargs." + argument.name() : std::to_string(arguments.size() - 1);
    own.written = argument.alias_info() != nullptr && argument.alias_info()->isWrite();
    if (argument.default_value()) {
      ValueText text;
      own.default_value = *argument.default_value();
      own.default_text = TextOf(own.default_value, &text);
    }
  }
  return arguments;
}

AtenOperator Describe(const at::RecordFunction& range) {
  AtenOperator op;
  op.name = range.name();
  op.overload = range.overload_name();
  const auto name = range.operator_name();
  const auto handle = name ? c10::Dispatcher::singleton().findOp(*name) : std::nullopt;
  if (!handle || !handle->hasSchema()) return op;
  op.followed = !IsCollective(op.name) &&
                !handle->hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd);
  op.arguments = ArgumentsOf(handle->schema());
  op.returns = handle->schema().returns().size();
  for (const AtenOperator::Argument& argument : op.arguments) op.writes |= argument.written;
  return op;
}

// Appends to a buffer and drops what has no room.
class Writer {
 public:
  explicit Writer(ValueText* buffer) : begin_(buffer->bytes), at_(begin_) {}
  void Add(std::string_view text) {
    const size_t bytes = std::min(text.size(), room());
    std::memcpy(at_, text.data(), bytes);
    at_ += bytes;
  }
  void Add(bool value) { Add(std::string_view(value ? "true" : "false")); }
  void Add(int64_t value) { AddNumber(value); }
  void Add(double value) { AddNumber(value); }
  size_t size() const { return static_cast<size_t>(at_ - begin_); }
  std::string_view text() const { return {begin_, size()}; }

 private:
  size_t room() const { return sizeof(ValueText) - size(); }
  template <class Number>
  void AddNumber(Number value) {
    const auto end = std::to_chars(at_, at_ + room(), value);
    if (end.ec == std::errc()) at_ = end.ptr;
  }
  char* const begin_;
  char* at_;
};

// A list of numbers, at most about 256 bytes of it.
template <class Add>
std::string_view ListText(c10::ArrayRef<c10::IValue> items, Writer* out, Add add) {
  out->Add(std::string_view("["));
  for (size_t i = 0; i < items.size(); ++i) {
    if (i != 0) out->Add(std::string_view(","));
    add(items[i]);
    if (out->size() > 256) {
      out->Add(std::string_view(",..."));
      break;
    }
  }
  out->Add(std::string_view("]"));
  return out->text();
}

}  // namespace

std::string_view TextOf(const c10::IValue& value, ValueText* buffer) {
  Writer out(buffer);
  if (value.isNone() || value.isTensor()) return "";
  if (value.isInt()) {
    out.Add(value.toInt());
  } else if (value.isDouble()) {
    out.Add(value.toDouble());
  } else if (value.isBool()) {
    out.Add(value.toBool());
  } else if (value.isString()) {
    return value.toStringRef();
  } else if (value.isDevice()) {
    out.Add(std::string_view(value.toDevice().str()));
  } else if (value.isComplexDouble()) {
    const auto number = value.toComplexDouble();
    out.Add(number.real());
    out.Add(std::string_view("+"));
    out.Add(number.imag());
    out.Add(std::string_view("j"));
  } else if (value.isIntList()) {
    return ListText(value.toListRef(), &out,
                    [&](const c10::IValue& item) { out.Add(item.toInt()); });
  } else if (value.isDoubleList()) {
    return ListText(value.toListRef(), &out,
                    [&](const c10::IValue& item) { out.Add(item.toDouble()); });
  } else if (value.isBoolList()) {
    return ListText(value.toListRef(), &out,
                    [&](const c10::IValue& item) { out.Add(item.toBool()); });
  }
  return out.text();
}

bool IsDefault(const c10::IValue& value, const AtenOperator::Argument& argument) {
  const c10::IValue& other = argument.default_value;
  if (value.isInt() && other.isInt()) return value.toInt() == other.toInt();
  if (value.isBool() && other.isBool()) return value.toBool() == other.toBool();
  ValueText buffer;
  return TextOf(value, &buffer) == argument.default_text;
}

const AtenOperator* AtenOperators::Of(const at::RecordFunction& range) {
  const char* name = range.name();
  const auto same = [&](const AtenOperator& op) {
    return std::strcmp(op.name.c_str(), name) == 0 &&
           std::strcmp(op.overload.c_str(), range.overload_name()) == 0;
  };
  auto& recent = recent_[(reinterpret_cast<uintptr_t>(name) >> 4) % recent_.size()];
  if (recent.first == name && same(*recent.second)) return recent.second;
  const auto it = known_.find(name);
  const AtenOperator* op = nullptr;
  if (it != known_.end() && same(it->second)) {
    op = &it->second;
  } else {
    if (!range.operator_name()) return nullptr;
    AtenOperator& fresh = known_[name];
    fresh = Describe(range);
    fresh.number = next_number_++;
    op = &fresh;
  }
  recent = {name, op};
  return op;
}

AtenOperators::Id& AtenOperators::FindOrAdd(uint64_t key) {
  if (2 * used_ids_ >= ids_.size()) GrowIds();
  for (size_t at = PlaceOf(key);; ++at) {
    Id& id = ids_[at & (ids_.size() - 1)];
    if (id.key == key) return id;
    if (id.key != 0) continue;
    ++used_ids_;
    id.key = key;
    return id;
  }
}

void AtenOperators::GrowIds() {
  std::vector<Id> before(std::max<size_t>(256, 2 * ids_.size()));
  before.swap(ids_);
  for (const Id& old : before) {
    if (old.key == 0) continue;
    size_t at = PlaceOf(old.key);
    while (ids_[at & (ids_.size() - 1)].key != 0) ++at;
    ids_[at & (ids_.size() - 1)] = old;
  }
}

}  // namespace tdump::collectors
