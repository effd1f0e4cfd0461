// What the aten collector knows of an operator of the dispatcher: whether it is one that is
// followed, and what its schema says of arguments and returns. Found once per operator and thread.
#pragma once

#include <ATen/record_function.h>

#include <string>
#include <unordered_map>
#include <vector>

namespace tdump::collectors {

struct AtenOperator {
  struct Argument {
    std::string name;          // of the schema: "self"
    std::string arg;           // of the record: "0", or "kwargs.out"
    std::string default_text;  // text of the default value, "" for none
    bool written = false;      // in-place, out=
  };

  std::string name;      // "aten::add"
  std::string overload;  // "Tensor"
  // False for operators that only call others (they have a CompositeImplicitAutograd kernel), and
  // for collectives.
  bool followed = false;
  bool writes = false;
  std::vector<Argument> arguments;
  size_t returns = 0;
};

// Cache of one thread.
class AtenOperators {
 public:
  // Null: the range is no operator.
  const AtenOperator* Of(const at::RecordFunction& range);

 private:
  // By the address of the name, which belongs to the operator's schema; an operator may be
  // deregistered and its memory used again, so the names are compared too.
  std::unordered_map<const char*, AtenOperator> known_;
};

// Text of an argument that is no tensor, for the call's text; "" for
// None and for what has no short text.
std::string TextOf(const c10::IValue& value);

}  // namespace tdump::collectors
