// Processes of a team, here threads.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "compare/team.h"

namespace tdump::compare {

// What the processes of a team have in common.
class TeamWorld {
 public:
  explicit TeamWorld(int size) : size_(size) {}

  int size() const { return size_; }
  void Send(int from, std::string_view bytes) {
    const std::lock_guard lock(mutex_);
    sent_[from].emplace_back(bytes);
    arrived_.notify_all();
  }
  std::string Receive(int from) {
    std::unique_lock lock(mutex_);
    arrived_.wait(lock, [&] { return !sent_[from].empty(); });
    std::string bytes = std::move(sent_[from].front());
    sent_[from].pop_front();
    return bytes;
  }
  int Largest(int value) {
    std::unique_lock lock(mutex_);
    const size_t turn = given_.size() / static_cast<size_t>(size_);
    given_.push_back(value);
    arrived_.notify_all();
    const auto end = (turn + 1) * static_cast<size_t>(size_);
    arrived_.wait(lock, [&] { return given_.size() >= end; });
    const auto last = given_.begin() + static_cast<ptrdiff_t>(end);
    return *std::max_element(last - size_, last);
  }

 private:
  const int size_;
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::map<int, std::deque<std::string>> sent_;
  std::vector<int> given_;  // as many as there are processes, turn by turn
};

class TeamMember : public Team {
 public:
  TeamMember(TeamWorld* world, int rank) : world_(world), rank_(rank) {}
  int rank() const override { return rank_; }
  int size() const override { return world_->size(); }
  Status Send(std::string_view bytes) override { return world_->Send(rank_, bytes), Status(); }
  Result<std::string> Receive(int from) override { return world_->Receive(from); }
  Result<int> Largest(int value) override { return world_->Largest(value); }

 private:
  TeamWorld* world_;
  int rank_;
};

}  // namespace tdump::compare
