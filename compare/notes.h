// Notes: what is said of a pair in words. Of most pairs nothing is, of some steps the like of every
// pair.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compare/packed.h"

namespace tdump::compare {

template <>
struct Packing<std::vector<std::string>> {
  static std::string Pack(const std::vector<std::string>& notes);
  static std::vector<std::string> Unpack(std::string_view bytes);
};

// Packed, which takes more notes. Reads like a vector too, of which each call unpacks the whole.
class Notes : public Packed<std::vector<std::string>> {
 public:
  using List = std::vector<std::string>;
  using value_type = std::string;

  // Over a list of its own; equal where they are at the same note.
  class const_iterator {
   public:
    using iterator_category = std::forward_iterator_tag;
    using value_type = std::string;
    using difference_type = std::ptrdiff_t;
    using pointer = const std::string*;
    using reference = const std::string&;

    const_iterator() = default;
    const_iterator(List list, size_t at)
        : list_(std::make_shared<const List>(std::move(list))), at_(at) {}
    reference operator*() const { return (*list_)[at_]; }
    pointer operator->() const { return &**this; }
    const_iterator& operator++() {
      ++at_;
      return *this;
    }
    const_iterator operator++(int) {
      const_iterator before = *this;
      ++at_;
      return before;
    }
    bool operator==(const const_iterator& other) const { return at_ == other.at_; }

   private:
    std::shared_ptr<const List> list_;
    size_t at_ = 0;
  };
  using iterator = const_iterator;

  Notes() = default;
  Notes(std::initializer_list<std::string> notes) : Packed(List(notes)) {}
  explicit Notes(const List& notes) : Packed(notes) {}

  List Copy() const { return **this; }
  bool empty() const { return !is_set() || Copy().empty(); }  // or the file cannot be read
  size_t size() const { return Copy().size(); }
  std::string front() const { return Copy().front(); }
  std::string back() const { return Copy().back(); }
  std::string operator[](size_t i) const { return Copy()[i]; }
  const_iterator begin() const { return {Copy(), 0}; }
  const_iterator end() const { return {List(), size()}; }

  // In memory from now on, wherever the others lay.
  void push_back(std::string note) {
    List notes = Copy();
    notes.push_back(std::move(note));
    *this = Notes(notes);
  }
};

}  // namespace tdump::compare
