#include "collectors/torch/aten_operators.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>

#include "collectors/torch/device_text.h"
#include "collectors/torch/plugin.h"
#include "collectors/torch/process_groups.h"

namespace tdump::collectors {
namespace {

bool IsOfDistributed(const std::string& name) {
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
    if (argument.default_value()) own.default_value = *argument.default_value();
  }
  return arguments;
}

// What tdump puts into a program to look at its values.
bool IsOurs(const std::string& name) { return name.starts_with("tdump::"); }

AtenOperator Describe(const at::RecordFunction& range) {
  AtenOperator op;
  op.name = range.name();
  op.overload = range.overload_name();
  const auto name = range.operator_name();
  const auto handle = name ? c10::Dispatcher::singleton().findOp(*name) : std::nullopt;
  if (!handle || !handle->hasSchema()) return op;
  const bool distributed = IsOfDistributed(op.name);
  op.collective = distributed && !op.name.ends_with("::wait_tensor");
  op.followed = (!distributed || CurrentRuntime()->collect_collectives) && !IsOurs(op.name) &&
                !handle->hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd);
  op.arguments = ArgumentsOf(handle->schema());
  return op;
}

bool SameBits(double a, double b) { return std::bit_cast<int64_t>(a) == std::bit_cast<int64_t>(b); }

// 1 and 1.0 have one text; larger ones may be written differently.
bool SameText(int64_t integer, double number) {
  return std::abs(integer) < 100'000 && SameBits(static_cast<double>(integer), number);
}

bool SameText(const c10::IValue& a, const c10::IValue& b) {
  if (a.isInt()) {
    if (b.isDouble()) return SameText(a.toInt(), b.toDouble());
    return b.isInt() && a.toInt() == b.toInt();
  }
  if (a.isDouble()) {
    if (b.isInt()) return SameText(b.toInt(), a.toDouble());
    return b.isDouble() && SameBits(a.toDouble(), b.toDouble());
  }
  if (a.isBool()) return b.isBool() && a.toBool() == b.toBool();
  if (a.isString()) return b.isString() && a.toStringRef() == b.toStringRef();
  if (a.isDevice()) return b.isDevice() && a.toDevice() == b.toDevice();
  if (!a.isList() || !b.isList()) return false;
  const c10::ArrayRef<c10::IValue> items = a.toListRef(), others = b.toListRef();
  return std::equal(items.begin(), items.end(), others.begin(), others.end(),
                    [](const auto& one, const auto& other) { return SameText(one, other); });
}

}  // namespace

void AddValue(std::string_view name, const c10::IValue& value, CallText* text) noexcept {
  const auto items = [&] { return value.toListRef(); };
  if (value.isNone() || value.isTensor()) return;
  if (value.isInt()) {
    text->AddInteger(name, value.toInt());
  } else if (value.isDouble()) {
    text->AddDouble(name, value.toDouble());
  } else if (value.isBool()) {
    text->AddBool(name, value.toBool());
  } else if (value.isString()) {
    text->AddText(name, value.toStringRef());
  } else if (value.isDevice()) {
    text->AddText(name, DeviceText(value.toDevice()));
  } else if (value.isComplexDouble()) {
    const auto number = value.toComplexDouble();
    text->AddComplex(name, number.real(), number.imag());
  } else if (value.isIntList()) {
    text->AddIntegers(name, items().size(), [&](size_t i) { return items()[i].toInt(); });
  } else if (value.isDoubleList()) {
    text->AddDoubles(name, items().size(), [&](size_t i) { return items()[i].toDouble(); });
  } else if (value.isBoolList()) {
    text->AddBools(name, items().size(), [&](size_t i) { return items()[i].toBool(); });
  } else if (value.isObject()) {
    AddProcessGroup(name, value, text);
  }
}

bool IsDefault(const c10::IValue& value, const AtenOperator::Argument& argument) {
  return SameText(value, argument.default_value);
}

void AtenOperators::FollowDispatcher() {
  struct Listener final : c10::OpRegistrationListener {
    void onOperatorRegistered(const c10::OperatorHandle&) override {}
    void onOperatorDeregistered(const c10::OperatorHandle&) override { ++removed_operators_; }
  };
  // Never taken back: operators come and go for as long as the process lives.
  static auto* registration = new c10::RegistrationHandleRAII(
      c10::Dispatcher::singleton().addRegistrationListener(std::make_unique<Listener>()));
  (void)registration;
}

const AtenOperator* AtenOperators::FindOrDescribe(const at::RecordFunction& range) {
  const auto it = known_.find(range.name());
  if (it != known_.end() && it->second.name == range.name() &&
      it->second.overload == range.overload_name())
    return &it->second;
  if (!range.operator_name()) return nullptr;
  AtenOperator& fresh = known_[range.name()];
  fresh = Describe(range);
  fresh.number = next_number_++;
  return &fresh;
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
