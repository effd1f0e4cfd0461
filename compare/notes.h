// Notes: what is said of a pair in words. Of most pairs nothing is, of some steps the like of every
// pair.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "compare/spill_file.h"

namespace tdump::compare {

// Reads like a vector, in two words. Not thread-safe, even to read: what lies in a file is in
// memory once it was looked at. A copy is in memory, and leaves the other where it lies.
class Notes {
 public:
  using List = std::vector<std::string>;
  using value_type = std::string;
  using size_type = size_t;
  using difference_type = List::difference_type;
  using reference = const std::string&;
  using const_reference = const std::string&;
  using iterator = List::const_iterator;
  using const_iterator = List::const_iterator;

  Notes() = default;
  Notes(std::initializer_list<std::string> notes) : Notes(List(notes)) {}
  explicit Notes(List notes);
  Notes(const Notes& other) : Notes(other.Copy()) {}
  Notes(Notes&& other) noexcept
      : file_(std::exchange(other.file_, nullptr)), word_(std::exchange(other.word_, 0)) {}
  Notes& operator=(Notes other) noexcept {
    std::swap(file_, other.file_);
    std::swap(word_, other.word_);
    return *this;
  }
  ~Notes() {
    if (file_ == nullptr) delete list();
  }

  bool empty() const { return file_ == nullptr && word_ == 0; }
  size_t size() const { return Loaded().size(); }
  const_iterator begin() const { return Loaded().begin(); }
  const_iterator end() const { return Loaded().end(); }
  const std::string& front() const { return Loaded().front(); }
  const std::string& back() const { return Loaded().back(); }
  const std::string& operator[](size_t i) const { return Loaded()[i]; }
  List Copy() const;

  void push_back(std::string note);
  // Which outlives it; where that does not take them they stay in memory. `file` may be null.
  void MoveTo(SpillFile* file);

 private:
  List* list() const { return reinterpret_cast<List*>(word_); }
  const List& Loaded() const;

  mutable const SpillFile* file_ = nullptr;
  mutable uintptr_t word_ = 0;  // a place in the file; else the address of a List, 0: none
};

}  // namespace tdump::compare
