#include "collectors/torch/scripted_graph.h"

#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/passes/inliner.h>

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "core/fork_mutex.h"

namespace tdump::collectors {
namespace {

namespace jit = torch::jit;
namespace prim = c10::prim;
using jit::GraphFunction;

// What a function keeps of itself and gives to nobody; access is not checked where a template is
// instantiated explicitly.
struct Mutex {
  friend auto MemberOf(Mutex);
};
struct Executors {
  friend auto MemberOf(Executors);
};
struct Specialization {
  friend auto MemberOf(Specialization);
};
struct Mode {
  friend auto MemberOf(Mode);
};
struct IgnoresAutocast {
  friend auto MemberOf(IgnoresAutocast);
};
template <class Kind, auto kMember>
struct Reach {
  friend auto MemberOf(Kind) { return kMember; }
};
template struct Reach<Mutex, &GraphFunction::compile_mutex>;
template struct Reach<Executors, &GraphFunction::executors_>;
template struct Reach<Specialization, &GraphFunction::currentSpecialization>;
template struct Reach<Mode, &GraphFunction::executor_execution_mode_>;
template struct Reach<IgnoresAutocast, &GraphFunction::force_no_amp_>;

c10::Symbol ValueSymbol() { return c10::Symbol::fromQualString("tdump::scripted_value"); }

// The second call of a module in a trace is `forward1`.
bool IsForward(std::string_view name) {
  constexpr std::string_view kForward = "forward";
  return name.starts_with(kForward) &&
         std::ranges::all_of(name.substr(kForward.size()),
                             [](char c) { return '0' <= c && c <= '9'; });
}

bool IsModule(const jit::Value* value) {
  const auto type = value->type()->cast<c10::ClassType>();
  return type != nullptr && type->is_module();
}

// Every use of the tensor, but what is in its own place, becomes one of what is put there.
void Shield(jit::Value* value) {
  jit::Node* made_by = value->node();
  const bool elsewhere = made_by->kind() == prim::Param || made_by->kind() == prim::CallMethod ||
                         made_by->kind() == ValueSymbol();
  if (elsewhere || value->uses().size() < 2 || value->type()->kind() != c10::TypeKind::TensorType)
    return;
  jit::Node* shield = value->owningGraph()->create(ValueSymbol(), {value}, 1);
  shield->output()->setType(value->type());
  shield->insertAfter(made_by);
  value->replaceAllUsesAfterNodeWith(shield, shield->output());
}

void ShieldResult(jit::Value* result) {
  const c10::Symbol kind = result->node()->kind();
  if (kind == prim::TupleConstruct || kind == prim::ListConstruct || kind == prim::DictConstruct) {
    const std::vector<jit::Value*> items = result->node()->inputs().vec();
    for (jit::Value* item : items) ShieldResult(item);
  } else {
    Shield(result);
  }
}

// Puts graphs together, each function's once.
class Marker {
 public:
  // The graph of the function with all methods inlined and what is said of modules' calls.
  std::shared_ptr<jit::Graph> GraphOf(GraphFunction* function) {
    std::shared_ptr<jit::Graph>& graph = graphs_[function];
    if (graph != nullptr) return graph;
    function->ensure_defined();
    auto made = function->graph()->copy();
    Inline(made->block());
    if (IsForward(function->name()) && !made->inputs().empty() && IsModule(made->inputs()[0]))
      Mark(made.get());
    return graphs_[function] = made;
  }

 private:
  void Inline(jit::Block* block) {
    for (auto it = block->nodes().begin(); it != block->nodes().end();) {
      jit::Node* node = *it++;
      for (jit::Block* inner : node->blocks()) Inline(inner);
      GraphFunction* callee =
          node->kind() == prim::CallMethod ? jit::tryToGraphFunction(node) : nullptr;
      if (callee == nullptr) continue;
      for (size_t i = 1; i < node->inputs().size(); ++i) Shield(node->input(i));
      jit::inlineCallTo(node, callee, GraphOf(callee).get());
    }
  }

  static void Mark(jit::Graph* graph) {
    jit::Value* self = graph->inputs()[0];
    graph->prependNode(graph->create(ScriptedBeginSymbol(), graph->inputs(), 0));
    ShieldResult(graph->outputs()[0]);
    graph->appendNode(graph->create(ScriptedEndSymbol(), {self, graph->outputs()[0]}, 0));
  }

  std::unordered_map<const GraphFunction*, std::shared_ptr<jit::Graph>> graphs_;
};

// Whether the function waits for a future, or what it calls.
class Waits {
 public:
  bool In(GraphFunction* function) {
    if (!seen_.insert(function).second) return false;
    function->ensure_defined();
    return In(function->graph()->block());
  }

 private:
  bool In(jit::Block* block) {
    return std::ranges::any_of(block->nodes(), [this](jit::Node* node) { return At(node); });
  }

  bool At(jit::Node* node) {
    if (node->kind() == c10::aten::wait) return true;
    const bool is_call = node->kind() == prim::CallMethod || node->kind() == prim::CallFunction;
    GraphFunction* callee = is_call ? jit::tryToGraphFunction(node) : nullptr;
    return (callee != nullptr && In(callee)) ||
           std::ranges::any_of(node->blocks(), [this](jit::Block* inner) { return In(inner); });
  }

  std::set<const GraphFunction*> seen_;
};

// As GraphFunction::get_executor() makes it.
jit::GraphExecutor MarkedExecutor(GraphFunction* function) {
  GraphFunction marked(function->qualname(), Marker().GraphOf(function), nullptr,
                       function->*MemberOf(Mode{}));
  marked._set_ignore_amp(function->*MemberOf(IgnoresAutocast{}));
  return marked.get_executor();
}

}  // namespace

c10::Symbol ScriptedBeginSymbol() { return c10::Symbol::fromQualString("tdump::scripted_begin"); }
c10::Symbol ScriptedEndSymbol() { return c10::Symbol::fromQualString("tdump::scripted_end"); }

Marked GiveMarkedExecutor(const c10::ClassTypePtr& type) {
  jit::Function* forward = type->findMethod("forward");
  GraphFunction* function = forward != nullptr ? jit::tryToGraphFunction(*forward) : nullptr;
  if (function == nullptr) return Marked::kYes;
  function->ensure_defined();
  // By executor; under the mutex of the function each, and one for the map.
  static auto* mutex = new ForkMutex;
  static auto* known = new std::map<std::pair<const GraphFunction*, size_t>, Marked>;
  std::lock_guard compiling(function->*MemberOf(Mutex{}));
  const auto which = static_cast<size_t>((function->*MemberOf(Specialization{}))());
  auto& executor = (function->*MemberOf(Executors{})).at(which);
  std::lock_guard lock(*mutex);
  const auto found = known->find({function, which});
  if (found != known->end() && (executor || found->second == Marked::kWaits)) return found->second;
  if (executor) return Marked::kRanBefore;
  const Marked marked = Waits().In(function) ? Marked::kWaits : Marked::kYes;
  if (marked == Marked::kYes) executor = MarkedExecutor(function);
  return known->insert_or_assign({function, which}, marked).first->second;
}

}  // namespace tdump::collectors
