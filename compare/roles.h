// What the role of a record says of its tensor.
#pragma once

#include <string>

#include "core/key.h"
#include "core/types.h"

namespace tdump::compare {

// A parameter, or a buffer.
inline bool IsWeight(Role role) { return role == Role::kParam || role == Role::kState; }
// These, and gradients of parameters: named path.arg.
inline bool IsOfParameters(Role role) { return IsWeight(role) || role == Role::kParamGrad; }
// What a call gave, not what it was given.
inline bool IsOutput(Role role) {
  return role == Role::kOutput || role == Role::kAfter || role == Role::kGradInput ||
         role == Role::kParamGrad;
}
inline bool IsGradient(Role role) {
  return role == Role::kGradInput || role == Role::kGradOutput || role == Role::kParamGrad;
}
// What an optimizer keeps of a parameter, "weight.exp_avg", recorded after its step; no buffer.
inline bool IsOfOptimizer(const Key& key) {
  return key.role == Role::kState && key.arg.find('.') != std::string::npos;
}
// The parameter that a gradient is of, or what an optimizer keeps: "weight" of "weight.exp_avg".
inline std::string ParameterOf(const Key& key) { return key.arg.substr(0, key.arg.find('.')); }
// That parameter in its pass.
inline std::string ParameterIn(const Key& key) {
  return key.root + "\n" + key.path + "\n" + ParameterOf(key);
}
// What the model as a whole was given.
inline bool IsRootInput(const Key& key) {
  return key.path == "." && key.op.empty() && key.role == Role::kInput;
}

}  // namespace tdump::compare
