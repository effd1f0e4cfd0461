#include "collectors/torch/aten_operators.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <charconv>

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
    if (argument.default_value()) own.default_text = TextOf(*argument.default_value());
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

template <class Number>
std::string NumberText(Number value) {
  char buffer[64];
  return {buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr};
}

template <class List, class Item>
std::string ListText(const List& list, Item item) {
  std::string text = "[";
  for (size_t i = 0; i < list.size(); ++i) {
    text += (i == 0 ? "" : ",") + item(list[i]);
    if (text.size() > 256) return text + ",...]";
  }
  return text + "]";
}

}  // namespace

std::string TextOf(const c10::IValue& value) {
  if (value.isInt()) return NumberText(value.toInt());
  if (value.isDouble()) return NumberText(value.toDouble());
  if (value.isBool()) return value.toBool() ? "true" : "false";
  if (value.isString()) return value.toStringRef();
  if (value.isDevice()) return value.toDevice().str();
  if (value.isComplexDouble()) {
    const auto number = value.toComplexDouble();
    return NumberText(number.real()) + "+" + NumberText(number.imag()) + "j";
  }
  if (value.isIntList()) return ListText(value.toIntVector(), NumberText<int64_t>);
  if (value.isDoubleList()) return ListText(value.toDoubleVector(), NumberText<double>);
  if (value.isBoolList()) {
    const auto list = value.toBoolList();
    std::string text = "[";
    for (size_t i = 0; i < list.size(); ++i)
      text += std::string(i == 0 ? "" : ",") + (list.get(i) ? "true" : "false");
    return text + "]";
  }
  return "";
}

const AtenOperator* AtenOperators::Of(const at::RecordFunction& range) {
  const char* name = range.name();
  const auto it = known_.find(name);
  if (it != known_.end() && it->second.name == name && it->second.overload == range.overload_name())
    return &it->second;
  if (!range.operator_name()) return nullptr;
  return &(known_[name] = Describe(range));
}

}  // namespace tdump::collectors
