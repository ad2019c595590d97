// Where the ranks of a group on one host meet: counts a rank that say how far it is, and slots a
// rank for what it shows to the others.
//
//   auto channel = Channel::meet(store, index, size, {.ranks = ranks});   // null: no common memory
//   std::memcpy(channel->slot(index, 0), data, bytes);
//   channel->reach(Count::kShown, 1);     // all before it is seen by whoever waits for the count
//   channel->wait_for(peer, Count::kShown, 1, deadline);
//   ...                                   // what the peer wrote before it may be read now
//
// Counts grow by the rules of whoever uses the channel (rounds.h). They are compared as a distance,
// so that they may wrap around.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "am/runtime/shared_memory/segment.h"

namespace am::runtime::shared_memory {

// Of the rounds that a rank has come so far with.
enum class Count : uint8_t {
  kShown,    // its slot is written
  kReduced,  // so is its part of the sum
  kDone,     // it has read what the others showed
};

struct ChannelOptions {
  bool wanted = true;  // one rank that does not want it: nobody has it
  // A short while of looking again and again before sleeping: only where every rank of the host has
  // a core of its own.
  bool spin = false;
  std::vector<int64_t> ranks;  // what errors call the peers; empty: by their number in the group
};

class Channel {
 public:
  using Clock = std::chrono::steady_clock;

  // A rank's slot holds so many bytes: two slots fit into a core's cache.
  static constexpr size_t kSlotBytes = 512 << 10;
  static constexpr uint32_t kSlots = 4;

  // Collective among `size` ranks, of which this is number `index`, in a store that is theirs
  // alone. Null on all of them where one of them cannot reach the memory of index 0.
  static std::unique_ptr<Channel> meet(c10d::Store& store, int64_t index, int64_t size,
                                       const ChannelOptions& options);
  ~Channel();
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  int64_t index() const { return index_; }
  int64_t size() const { return size_; }

  std::byte* slot(int64_t rank, uint32_t number) const;
  // What a rank says about a round: where it is shown, and what it belongs to. Forgotten kSlots
  // rounds later.
  struct Entry {
    uint64_t label = 0;
    uint32_t slot = 0;
  };
  Entry entry(int64_t rank, uint32_t round) const;
  void set_entry(uint32_t round, const Entry& entry) const;

  // This rank has come so far.
  void reach(Count count, uint32_t value) const;
  // How far a rank has come.
  uint32_t value(int64_t rank, Count count) const;
  // Waits until the peer has. Throws std::runtime_error: it left or its process ended before, this
  // rank has left, the deadline is over.
  void wait_for(int64_t peer, Count count, uint32_t value, Clock::time_point deadline) const;
  // This rank takes part no more: peers that wait for it, and threads of this rank that wait here,
  // get an error. From any thread.
  void leave() const;
  bool has_left() const;
  // Empty: the peer takes part, as far as is known.
  std::string why_gone(int64_t peer) const;
  // "rank 3"
  std::string name(int64_t peer) const;

 private:
  struct Line;
  Channel(Segment segment, int64_t index, int64_t size, ChannelOptions options);
  static size_t bytes_for(int64_t size);
  Line& line(int64_t rank) const;
  void watch_peers();
  std::string why_gone(int64_t peer, bool ask_system) const;
  std::string hopeless(int64_t peer, Clock::time_point deadline, bool ask_system) const;

  Segment segment_;
  int64_t index_;
  int64_t size_;
  ChannelOptions options_;
  std::vector<int> processes_;  // by rank: a file descriptor that becomes readable at its end; -1
};

}  // namespace am::runtime::shared_memory
