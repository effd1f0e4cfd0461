// The names of other people's dumps as keys (core/key.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/key.h"

namespace tdump::compare::foreign {

struct NamedKey {
  Key key;
  std::string cls;
  OperatorKind kind = OperatorKind::kModule;
  // The dump says what the tensor is to its operator. Else an output is assumed.
  bool knows_role = false;
};

// A name of the plain view or a whole key: "model.layers.0.mlp", "vision::call1", "a/aten::mm",
// "a.b@input#0". SGLang's "model.forward_batch_info.input_ids" is an input of "model".
NamedKey KeyOfName(std::string_view name);

// Of a tensor at a place of a pass file: the first key is the name; indices behind it are the
// argument ("name", "1"), keys between belong to the name.
NamedKey KeyOfPlace(const std::vector<std::string>& place);

// The tags of a file of SGLang's dumper: "step=0___rank=1___dump_index=7___name=q___layer_id=3".
// None: not such a name.
struct TaggedName {
  uint64_t step = 0;
  int32_t rank = 0;
  uint64_t dump_index = 0;
  std::string coordinates;  // "tp=1 pp=0" of tp_rank and the like; "" for none
  NamedKey key;  // of name, prefixes (param__, grad__, non_intrusive__) and the tags that are left
};
std::optional<TaggedName> ParseTags(std::string_view stem);

// Of msprobe: an operator ("Module.layer1.Linear.forward.0", "Torch.matmul.3.backward"), what the
// tensor is to it ("input", "kwargs", "output", "parameters", "parameters_grad"), and which one.
NamedKey KeyOfProbe(std::string_view entry, std::string_view category, std::string_view argument);
// "Module.layer1.Linear.parameters_grad.0": gradients of parameters.
bool IsProbeGradients(std::string_view entry);
// "Module.layer1.Linear.forward.0.output.0"
NamedKey KeyOfProbeFile(std::string_view stem);

}  // namespace tdump::compare::foreign
