// Shared memory of the ranks of a group on one host. Each rank has counters of its progress, and
// slots with the data that it shows to the other ranks. The arguments `rank` and `peer` are indices
// in the group.
//
//   auto channel = Channel::meet(store, index, size, {.ranks = ranks});   // null: no common memory
//   std::memcpy(channel->slot(index, 0), data, bytes);
//   channel->reach(Count::kShown, 1);     // the data is visible to ranks that see the count
//   channel->wait_for(peer, Count::kShown, 1, deadline);
//   ...                                   // data that the peer wrote before may be read now
//
// Rounds (rounds.h) increments the counts. Counts are compared by their difference modulo 2^32, so
// they may wrap around.
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

// Phases of a round, in which each rank shows at most one slot to the others (rounds.h). A count is
// the number of rounds in which a rank has completed the phase.
enum class Count : uint8_t {
  kShown,    // the rank's slot is written
  kReduced,  // the rank's part of a sum is written
  kDone,     // the rank has read the other ranks' slots
};

struct ChannelOptions {
  bool wanted = true;  // whether this rank wants a channel; meet() makes one only if all do
  // Whether a waiting thread spins briefly before it sleeps. Spinning helps only if every rank of
  // the host has its own core.
  bool spin = false;
  // World ranks of the group's members, by index; errors name the members by these numbers. Empty:
  // errors name the members by their indices in the group.
  std::vector<int64_t> ranks;
};

class Channel {
 public:
  using Clock = std::chrono::steady_clock;

  // Size of a slot: two slots fit into a core's cache.
  static constexpr size_t kSlotBytes = 512 << 10;
  static constexpr uint32_t kSlots = 4;

  // Collective among the `size` ranks of a group, in which this rank has index `index`: creates the
  // channel. The ranks exchange messages through `store`, which no other group uses. Returns null
  // on all ranks if any rank does not want a channel or cannot watch processes (pidfd_open), or if
  // the ranks cannot share memory that index 0 creates.
  static std::unique_ptr<Channel> meet(c10d::Store& store, int64_t index, int64_t size,
                                       const ChannelOptions& options);
  ~Channel();
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  int64_t index() const { return index_; }
  int64_t size() const { return size_; }

  std::byte* slot(int64_t rank, uint32_t number) const;
  // A rank's record of a round: the number of the slot with the rank's data, and the label of the
  // rank's collective or message (label.h). The record is overwritten kSlots rounds later.
  struct Entry {
    uint64_t label = 0;
    uint32_t slot = 0;
  };
  Entry entry(int64_t rank, uint32_t round) const;
  void set_entry(uint32_t round, const Entry& entry) const;

  // Sets this rank's count to `value`, and wakes the peers that wait for the count.
  void reach(Count count, uint32_t value) const;
  // Returns a rank's count.
  uint32_t value(int64_t rank, Count count) const;
  // Waits until the peer's count reaches `value`. Throws std::runtime_error if the peer leaves or
  // its process ends first, if this rank has left, or at the deadline.
  void wait_for(int64_t peer, Count count, uint32_t value, Clock::time_point deadline) const;
  // Ends this rank's participation: peers that wait for this rank, and threads of this rank that
  // wait for peers, get an error. Thread-safe.
  void leave() const;
  bool has_left() const;
  // Returns why the peer no longer takes part: the peer left the channel, or its process ended.
  // Returns an empty string if neither is known.
  std::string why_gone(int64_t peer) const;
  // Returns the peer's name in errors, for example "rank 3".
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
  // For each rank: a pidfd, which becomes readable when the rank's process ends. -1 for ranks in
  // this process, which are not watched.
  std::vector<int> processes_;
};

}  // namespace am::runtime::shared_memory
