#include "compare/foreign/pickle_machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>

#include "compare/foreign/pickle_calls.h"
#include "compare/foreign/pickle_opcodes.h"
#include "core/parse_number.h"

namespace tdump::compare::foreign {
namespace {

constexpr size_t kMaxStack = 4'000'000;
constexpr uint64_t kMaxText = 16 << 20;
constexpr uint64_t kMaxLine = 4096;
constexpr uint64_t kMaxIntegerBytes = 64;

}  // namespace

Status PickleMachine::Error(const std::string& what) const {
  return Corrupt(fmt::format("'{}', offset {}: {}", reader_.name(), at_, what));
}

Result<PickleRef> PickleMachine::Run() {
  while (true) {
    at_ = reader_.offset();
    TDUMP_ASSIGN_OR_RETURN(const uint8_t opcode, reader_.ReadByte());
    if (opcode == kStop) break;
    if (heap_.full())
      return Error(fmt::format("its values need more than {} MiB", PickleHeap::kMaxBytes >> 20));
    TDUMP_RETURN_IF_ERROR(Step(opcode));
  }
  TDUMP_RETURN_IF_ERROR(Need(1));
  return stack_.back();
}

Status PickleMachine::Step(uint8_t opcode) {
  bool known = false;
  for (const auto step :
       {&PickleMachine::StepNumber, &PickleMachine::StepText, &PickleMachine::StepContainer,
        &PickleMachine::StepStack, &PickleMachine::StepMemo, &PickleMachine::StepObject}) {
    TDUMP_RETURN_IF_ERROR((this->*step)(opcode, &known));
    if (known) return {};
  }
  return Error(fmt::format("0x{:02x} is no opcode of a pickle that can be read", opcode));
}

// --- The stack and the numbers that are read ---

PickleRef PickleMachine::Pop() {
  const PickleRef ref = stack_.back();
  stack_.pop_back();
  return ref;
}

// Values above the topmost mark only: what lies below it is not this opcode's.
Status PickleMachine::Need(size_t count) {
  const size_t floor = marks_.empty() ? 0 : marks_.back();
  return stack_.size() - floor >= count ? Status::Ok() : Error("the stack is empty");
}

Result<size_t> PickleMachine::SinceMark() {
  if (marks_.empty()) return Error("there is no mark");
  const size_t count = stack_.size() - marks_.back();
  marks_.pop_back();
  return count;
}

Status PickleMachine::Push(PickleRef ref) {
  if (stack_.size() >= kMaxStack) return Error(fmt::format("a stack of {} values", kMaxStack));
  stack_.push_back(ref);
  return {};
}

Result<uint64_t> PickleMachine::ReadUnsigned(size_t bytes) {
  std::array<std::byte, 8> number{};
  TDUMP_RETURN_IF_ERROR(reader_.Read(std::span(number).first(bytes)));
  return Little64(number.data());
}

Result<uint64_t> PickleMachine::ReadLineNumber() {
  TDUMP_ASSIGN_OR_RETURN(const std::string line, reader_.ReadLine(kMaxLine));
  if (const auto number = ParseNumber<uint64_t>(line)) return *number;
  return Error(fmt::format("'{}' is not a number", line));
}

// --- Numbers ---

Status PickleMachine::PushNumber(PickleKind kind, int64_t number) {
  return Push(heap_.Add(kind, number, at_));
}

// Little-endian two's complement. What does not fit into 64 bits is nobody's size or offset.
Status PickleMachine::PushInteger(uint64_t bytes) {
  if (bytes > kMaxIntegerBytes) return Error(fmt::format("an integer of {} bytes", bytes));
  std::array<std::byte, kMaxIntegerBytes> digits{};
  TDUMP_RETURN_IF_ERROR(reader_.Read(std::span(digits).first(bytes)));
  if (bytes > 8) return Push(heap_.AddText(PickleKind::kOpaque, "a large integer", at_));
  const bool negative = bytes > 0 && (digits[bytes - 1] & std::byte{0x80}) != std::byte{0};
  if (negative)
    std::fill(digits.begin() + static_cast<ptrdiff_t>(bytes), digits.end(), std::byte{0xff});
  return PushNumber(PickleKind::kInteger, static_cast<int64_t>(Little64(digits.data())));
}

// 'I' and 'L': decimal digits; "00" and "01" are booleans, an L may follow.
Status PickleMachine::PushDecimal() {
  TDUMP_ASSIGN_OR_RETURN(std::string line, reader_.ReadLine(kMaxLine));
  if (line == "00" || line == "01") return PushNumber(PickleKind::kBool, line == "01");
  if (line.ends_with('L')) line.pop_back();
  int64_t number = 0;
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), number);
  if (error == std::errc::result_out_of_range)
    return Push(heap_.AddText(PickleKind::kOpaque, "a large integer", at_));
  if (error != std::errc() || end != line.data() + line.size())
    return Error(fmt::format("'{}' is not a number", line));
  return PushNumber(PickleKind::kInteger, number);
}

Status PickleMachine::StepNumber(uint8_t opcode, bool* known) {
  *known = true;
  switch (opcode) {
    case kNone:
      return PushNumber(PickleKind::kNone, 0);
    case kNewTrue:
    case kNewFalse:
      return PushNumber(PickleKind::kBool, opcode == kNewTrue);
    case kBinInt1:
    case kBinInt2:
    case kBinInt: {
      TDUMP_ASSIGN_OR_RETURN(const uint64_t number, ReadUnsigned(opcode == kBinInt1   ? 1
                                                                 : opcode == kBinInt2 ? 2
                                                                                      : 4));
      return PushNumber(PickleKind::kInteger, opcode == kBinInt ? static_cast<int32_t>(number)
                                                                : static_cast<int64_t>(number));
    }
    case kLong1:
    case kLong4: {
      TDUMP_ASSIGN_OR_RETURN(const uint64_t bytes, ReadUnsigned(opcode == kLong1 ? 1 : 4));
      return PushInteger(bytes);
    }
    case kIntLine:
    case kLongLine:
      return PushDecimal();
    case kBinFloat:
      TDUMP_RETURN_IF_ERROR(ReadUnsigned(8).status());
      return PushNumber(PickleKind::kFloat, 0);
    case kFloatLine:
      TDUMP_RETURN_IF_ERROR(reader_.ReadLine(kMaxLine).status());
      return PushNumber(PickleKind::kFloat, 0);
    default:
      *known = false;
      return {};
  }
}

// --- Texts and bytes ---

Status PickleMachine::PushText(PickleKind kind, uint64_t bytes) {
  TDUMP_ASSIGN_OR_RETURN(std::string text, reader_.ReadText(bytes, kMaxText));
  return Push(heap_.AddText(kind, std::move(text), at_));
}

// Bytes are nothing that is compared: they are passed over.
Status PickleMachine::PushBytes(uint64_t bytes) {
  if (bytes > reader_.left())
    return Error(fmt::format("{} bytes, {} are left", bytes, reader_.left()));
  std::array<std::byte, 4096> scrap;
  for (uint64_t left = bytes; left > 0;) {
    const auto count = std::min<uint64_t>(left, scrap.size());
    TDUMP_RETURN_IF_ERROR(reader_.Read(std::span(scrap).first(count)));
    left -= count;
  }
  return PushNumber(PickleKind::kBytes, static_cast<int64_t>(bytes));
}

Status PickleMachine::PushLine(PickleKind kind) {
  TDUMP_ASSIGN_OR_RETURN(std::string line, reader_.ReadLine(kMaxLine));
  return Push(heap_.AddText(kind, std::move(line), at_));
}

Status PickleMachine::StepText(uint8_t opcode, bool* known) {
  *known = true;
  const size_t length_bytes =
      opcode == kShortBinUnicode || opcode == kShortBinString || opcode == kShortBinBytes ? 1
      : opcode == kBinUnicode8 || opcode == kBinBytes8 || opcode == kByteArray8           ? 8
                                                                                          : 4;
  switch (opcode) {
    case kBinUnicode:
    case kShortBinUnicode:
    case kBinUnicode8:
    case kBinString:
    case kShortBinString: {
      TDUMP_ASSIGN_OR_RETURN(const uint64_t bytes, ReadUnsigned(length_bytes));
      return PushText(PickleKind::kText, bytes);
    }
    case kBinBytes:
    case kShortBinBytes:
    case kBinBytes8:
    case kByteArray8: {
      TDUMP_ASSIGN_OR_RETURN(const uint64_t bytes, ReadUnsigned(length_bytes));
      return PushBytes(bytes);
    }
    case kUnicodeLine:
      return PushLine(PickleKind::kText);
    default:
      *known = false;
      return {};
  }
}

// --- Containers ---

Status PickleMachine::PushTuple(size_t count) {
  TDUMP_RETURN_IF_ERROR(Need(count));
  Values items(stack_.end() - static_cast<ptrdiff_t>(count), stack_.end());
  stack_.resize(stack_.size() - count);
  return Push(heap_.AddList(PickleKind::kList, std::move(items), at_));
}

Status PickleMachine::PushMarked(PickleKind kind) {
  TDUMP_ASSIGN_OR_RETURN(const size_t count, SinceMark());
  if (kind == PickleKind::kDict && count % 2 != 0) return Error("a key without a value");
  Values items(stack_.end() - static_cast<ptrdiff_t>(count), stack_.end());
  stack_.resize(stack_.size() - count);
  return Push(heap_.AddList(kind, std::move(items), at_));
}

// What is added to something opaque is dropped.
Status PickleMachine::Fill(size_t count) {
  TDUMP_RETURN_IF_ERROR(Need(count + 1));
  const PickleRef target = stack_[stack_.size() - count - 1];
  if (heap_.has_items(target)) {
    if (heap_.kind(target) == PickleKind::kDict && count % 2 != 0)
      return Error("a key without a value");
    heap_.AppendItems(target, std::span(stack_).last(count));
  } else if (heap_.kind(target) != PickleKind::kOpaque) {
    return Error("something is added to what is no container");
  }
  stack_.resize(stack_.size() - count);
  return {};
}

Status PickleMachine::StepContainer(uint8_t opcode, bool* known) {
  *known = true;
  switch (opcode) {
    case kEmptyTuple:
    case kEmptyList:
    case kEmptySet:
      return Push(heap_.AddList(PickleKind::kList, {}, at_));
    case kEmptyDict:
      return Push(heap_.AddList(PickleKind::kDict, {}, at_));
    case kTuple1:
    case kTuple2:
    case kTuple3:
      return PushTuple(opcode - kTuple1 + 1);
    case kTuple:
    case kList:
    case kFrozenSet:
      return PushMarked(PickleKind::kList);
    case kDict:
      return PushMarked(PickleKind::kDict);
    case kAppend:
      return Fill(1);
    case kSetItem:
      return Fill(2);
    case kAppends:
    case kSetItems:
    case kAddItems: {
      TDUMP_ASSIGN_OR_RETURN(const size_t count, SinceMark());
      return Fill(count);
    }
    default:
      *known = false;
      return {};
  }
}

Status PickleMachine::StepStack(uint8_t opcode, bool* known) {
  *known = true;
  switch (opcode) {
    case kMark:
      if (marks_.size() >= kMaxStack) return Error("too many marks");
      marks_.push_back(stack_.size());
      return {};
    case kPop:
      TDUMP_RETURN_IF_ERROR(Need(1));
      stack_.pop_back();
      return {};
    case kPopMark: {
      TDUMP_ASSIGN_OR_RETURN(const size_t count, SinceMark());
      stack_.resize(stack_.size() - count);
      return {};
    }
    case kDup:
      TDUMP_RETURN_IF_ERROR(Need(1));
      return Push(stack_.back());
    case kProto:
      return ReadUnsigned(1).status();
    case kFrame:
      return ReadUnsigned(8).status();
    default:
      *known = false;
      return {};
  }
}

// --- The memo ---

Status PickleMachine::Memoize(uint64_t index) {
  TDUMP_RETURN_IF_ERROR(Need(1));
  heap_.Charge(48);  // about what an entry takes
  memo_[index] = stack_.back();
  return {};
}

Status PickleMachine::Recall(uint64_t index) {
  const auto found = memo_.find(index);
  if (found == memo_.end()) return Error(fmt::format("nothing is remembered under {}", index));
  return Push(found->second);
}

Status PickleMachine::StepMemo(uint8_t opcode, bool* known) {
  *known = true;
  switch (opcode) {
    case kMemoizeTop:
      return Memoize(memo_.size());
    case kBinPut:
    case kLongBinPut: {
      TDUMP_ASSIGN_OR_RETURN(const uint64_t index, ReadUnsigned(opcode == kBinPut ? 1 : 4));
      return Memoize(index);
    }
    case kBinGet:
    case kLongBinGet: {
      TDUMP_ASSIGN_OR_RETURN(const uint64_t index, ReadUnsigned(opcode == kBinGet ? 1 : 4));
      return Recall(index);
    }
    case kPutLine: {
      TDUMP_ASSIGN_OR_RETURN(const uint64_t index, ReadLineNumber());
      return Memoize(index);
    }
    case kGetLine: {
      TDUMP_ASSIGN_OR_RETURN(const uint64_t index, ReadLineNumber());
      return Recall(index);
    }
    default:
      *known = false;
      return {};
  }
}

// --- Globals, calls and objects ---

Status PickleMachine::PushGlobal(std::string module, const std::string& name) {
  return Push(heap_.AddText(PickleKind::kGlobal, std::move(module) + "." + name, at_));
}

// The callable lies below its arguments.
Status PickleMachine::Call(size_t arguments) {
  TDUMP_RETURN_IF_ERROR(Need(arguments + 1));
  const PickleRef passed = stack_[stack_.size() - arguments];
  const PickleRef callable = stack_[stack_.size() - arguments - 1];
  stack_.resize(stack_.size() - arguments - 1);
  const PickleKind kind = heap_.kind(callable);
  if (kind == PickleKind::kOpaque) return Push(callable);
  if (kind != PickleKind::kGlobal) return Error("a call of what is no function");
  if (heap_.kind(passed) != PickleKind::kList) return Error("a call without a tuple of arguments");
  return Push(CallGlobal(callable, passed, at_, &heap_));
}

// The state of an object. Of a dictionary (OrderedDict has attributes) and of a tensor it is
// nothing that is compared.
Status PickleMachine::Build() {
  TDUMP_RETURN_IF_ERROR(Need(2));
  stack_.pop_back();
  return {};
}

Status PickleMachine::StepObject(uint8_t opcode, bool* known) {
  *known = true;
  switch (opcode) {
    case kGlobalLine: {
      TDUMP_ASSIGN_OR_RETURN(std::string module, reader_.ReadLine(kMaxLine));
      TDUMP_ASSIGN_OR_RETURN(const std::string name, reader_.ReadLine(kMaxLine));
      return PushGlobal(std::move(module), name);
    }
    case kStackGlobal: {
      TDUMP_RETURN_IF_ERROR(Need(2));
      const PickleRef name = Pop(), module = Pop();
      if (heap_.kind(name) != PickleKind::kText || heap_.kind(module) != PickleKind::kText)
        return Error("a global whose name is no text");
      return PushGlobal(heap_.text(module), heap_.text(name));
    }
    case kReduce:
    case kNewObject:
      return Call(1);
    case kNewObjectEx:
      return Call(2);
    case kBuild:
      return Build();
    case kBinPersId: {
      TDUMP_RETURN_IF_ERROR(Need(1));
      return Push(PersistentStorage(Pop(), at_, &heap_));
    }
    case kPersId:
      TDUMP_RETURN_IF_ERROR(reader_.ReadLine(kMaxLine).status());
      return Push(heap_.AddText(PickleKind::kOpaque, "a persistent id", at_));
    default:
      *known = false;
      return {};
  }
}

}  // namespace tdump::compare::foreign
