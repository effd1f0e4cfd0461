#include "collectors/torch/process_groups.h"

#include <ATen/core/ivalue.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

namespace tdump::collectors {
namespace {

std::string_view NameOf(const c10d::ReduceOp& reduction) {
  switch (reduction.op_) {
    case c10d::ReduceOp::SUM:
      return "sum";
    case c10d::ReduceOp::AVG:
      return "avg";
    case c10d::ReduceOp::PRODUCT:
      return "product";
    case c10d::ReduceOp::MIN:
      return "min";
    case c10d::ReduceOp::MAX:
      return "max";
    case c10d::ReduceOp::BAND:
      return "band";
    case c10d::ReduceOp::BOR:
      return "bor";
    case c10d::ReduceOp::BXOR:
      return "bxor";
    case c10d::ReduceOp::PREMUL_SUM:
      return "premul_sum";
    default:
      return "other";
  }
}

template <class Object>
bool Is(const c10::IValue& value) {
  return *value.type() == *c10::getCustomClassType<c10::intrusive_ptr<Object>>();
}

}  // namespace

void AddProcessGroup(std::string_view name, const c10::IValue& value, CallText* text) noexcept {
  try {
    if (!value.isObject()) return;
    if (Is<c10d::ProcessGroup>(value)) {
      const auto group = value.toCustomClass<c10d::ProcessGroup>();
      text->AddText("group_name", group->getGroupName());
      text->AddInteger("group_size", group->getSize());
    } else if (Is<c10d::ReduceOp>(value)) {
      text->AddText(name, NameOf(*value.toCustomClass<c10d::ReduceOp>()));
    }
  } catch (...) {  // a torch without them
  }
}

}  // namespace tdump::collectors
