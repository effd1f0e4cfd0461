// PickleMachine: reads one pickle (protocols 0 to 5) without executing anything in it. It has
// values and containers of its own; of the calls that a pickle asks for it performs those of a
// fixed list (pickle_calls.h), which only rearrange data. Every other object becomes opaque: a
// name, to be told to the user.
#pragma once

#include <unordered_map>
#include <vector>

#include "compare/foreign/byte_source.h"
#include "compare/foreign/pickle_heap.h"

namespace tdump::compare::foreign {

// Used once for each pickle of a file, on one heap. Not thread-safe. Memory: PickleHeap::kMaxBytes
// and the stack.
class PickleMachine {
 public:
  PickleMachine(ByteReader* reader, PickleHeap* heap) : reader_(*reader), heap_(*heap) {}

  // The value of the pickle that begins where the reader stands; the reader then stands behind it.
  // Error: kCorrupt with the offset.
  Result<PickleRef> Run();

 private:
  using Values = std::vector<PickleRef>;

  Status Step(uint8_t opcode);
  Status StepNumber(uint8_t opcode, bool* known);
  Status StepText(uint8_t opcode, bool* known);
  Status StepContainer(uint8_t opcode, bool* known);
  Status StepStack(uint8_t opcode, bool* known);
  Status StepMemo(uint8_t opcode, bool* known);
  Status StepObject(uint8_t opcode, bool* known);

  Status Push(PickleRef ref);
  Status PushNumber(PickleKind kind, int64_t number);
  Status PushText(PickleKind kind, uint64_t bytes);
  Status PushBytes(uint64_t bytes);
  Status PushTuple(size_t count);
  Status PushMarked(PickleKind kind);
  Status PushLine(PickleKind kind);
  Status PushInteger(uint64_t bytes);
  Status PushDecimal();
  Status PushGlobal(std::string module, const std::string& name);
  Status Fill(size_t count);  // a container with the topmost values
  Status Memoize(uint64_t index);
  Status Recall(uint64_t index);
  Status Call(size_t arguments);
  Status Build();

  Result<uint64_t> ReadUnsigned(size_t bytes);
  Result<uint64_t> ReadLineNumber();
  Status Need(size_t count);
  Result<size_t> SinceMark();
  PickleRef Pop();
  Status Error(const std::string& what) const;

  ByteReader& reader_;
  PickleHeap& heap_;
  Values stack_;
  std::vector<size_t> marks_;
  std::unordered_map<uint64_t, PickleRef> memo_;
  uint64_t at_ = 0;  // offset of the opcode
};

}  // namespace tdump::compare::foreign
