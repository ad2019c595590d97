// Shared memory of the ranks of a group on one host. Each rank has counters of its progress, and
// slots with the data that it shows to the other ranks. Arguments `rank` and `peer` are indices in
// the group.
//
//   auto channel = Channel::meet(store, index, size, {.ranks = ranks});   // null: no common memory
//   std::memcpy(channel->slot(index, 0), data, bytes);
//   channel->reach(Count::kShown, 1);     // the data is visible to ranks that see the count
//   channel->wait_for(peer, Count::kShown, 1, deadline);
//   ...                                   // data that the peer wrote before may be read now
//
// The channel's user defines when counts grow (rounds.h). Counts are compared by their difference,
// so they may wrap around.
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

// Phases of a round; a count is the number of rounds in which a rank has completed the phase.
enum class Count : uint8_t {
  kShown,    // the rank's slot is written
  kReduced,  // the rank's part of a sum is written
  kDone,     // the rank has read the other ranks' slots
};

struct ChannelOptions {
  bool wanted = true;  // whether this rank wants a channel; all ranks must, otherwise none gets one
  // Spin briefly before sleeping; this helps only if every rank of the host has its own core.
  bool spin = false;
  // Names of the group's members in errors: their ranks in the world. Empty: their index in the
  // group.
  std::vector<int64_t> ranks;
};

class Channel {
 public:
  using Clock = std::chrono::steady_clock;

  // Size of a slot: two slots fit into a core's cache.
  static constexpr size_t kSlotBytes = 512 << 10;
  static constexpr uint32_t kSlots = 4;

  // Creates the channel; collective among `size` ranks, of which this rank has index `index`. The
  // ranks exchange messages through `store`, which no other group uses. Returns null on all ranks
  // if any rank does not want a channel, cannot open the memory of index 0, or cannot be notified
  // of the end of a process (pidfd).
  static std::unique_ptr<Channel> meet(c10d::Store& store, int64_t index, int64_t size,
                                       const ChannelOptions& options);
  ~Channel();
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  int64_t index() const { return index_; }
  int64_t size() const { return size_; }

  std::byte* slot(int64_t rank, uint32_t number) const;
  // A rank's record of a round: the slot with the rank's data, and the label of the rank's
  // collective. The record is overwritten kSlots rounds later.
  struct Entry {
    uint64_t label = 0;
    uint32_t slot = 0;
  };
  Entry entry(int64_t rank, uint32_t round) const;
  void set_entry(uint32_t round, const Entry& entry) const;

  // Publishes this rank's progress: sets the count to `value`.
  void reach(Count count, uint32_t value) const;
  // Returns the progress of a rank.
  uint32_t value(int64_t rank, Count count) const;
  // Waits until the peer's count reaches `value`. Throws std::runtime_error if the peer leaves or
  // its process ends first, if this rank has left, or at the deadline.
  void wait_for(int64_t peer, Count count, uint32_t value, Clock::time_point deadline) const;
  // Ends this rank's participation: peers that wait for this rank, and threads of this rank that
  // wait for peers, get an error. Thread-safe.
  void leave() const;
  bool has_left() const;
  // Returns why the peer has left the channel; empty if it is not known to have left.
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
