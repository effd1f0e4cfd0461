// SharedList: a list that many processes of a run have alike, kept once.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

namespace tdump::io {

template <class T>
class SharedList {
 public:
  auto begin() const { return list().begin(); }
  auto end() const { return list().end(); }
  size_t size() const { return list().size(); }
  bool empty() const { return list().empty(); }
  const T& operator[](size_t i) const { return list()[i]; }
  const T& at(size_t i) const { return list().at(i); }

  // A list of its own, to be changed.
  std::vector<T>& Edit() {
    if (!list_)
      list_ = std::make_shared<std::vector<T>>();
    else if (list_.use_count() > 1)
      list_ = std::make_shared<std::vector<T>>(*list_);
    return *list_;
  }
  bool SharesWith(const SharedList& other) const { return list_ == other.list_; }

 private:
  const std::vector<T>& list() const {
    static const std::vector<T> empty;
    return list_ ? *list_ : empty;
  }

  std::shared_ptr<std::vector<T>> list_;
};

// Thread-safe. Lists that are equal to one of the first kMost distinct ones become that one.
template <class T>
class ListPool {
 public:
  static constexpr size_t kMost = 64;

  void Share(SharedList<T>* list) {
    const std::lock_guard lock(mutex_);
    for (const SharedList<T>& known : lists_) {
      if (known.size() != list->size() || !std::equal(known.begin(), known.end(), list->begin()))
        continue;
      *list = known;
      return;
    }
    if (lists_.size() < kMost) lists_.push_back(*list);
  }

 private:
  std::mutex mutex_;
  std::vector<SharedList<T>> lists_;
};

}  // namespace tdump::io
