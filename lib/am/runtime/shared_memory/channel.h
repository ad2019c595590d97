// Where the ranks of a group on one host meet: a word a rank that says how far it is, and two slots
// a rank for what it shows to the others.
//
//   auto channel = Channel::meet(store, index, size, {.timeout = timeout});   // null: no common
//   memory std::memcpy(channel->slot(index, 0), data, bytes); channel->reach(stage); // all before
//   it is seen by whoever waits for the stage channel->wait_for(peer, stage, deadline); // what the
//   peer wrote before it may be read now
//
// Stages grow by the rules of whoever uses the channel (exchange.h). They are compared as a
// distance, so that they may wrap around.
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

  // A rank's slot holds so many bytes. Two slots of a few ranks fit into a core's cache.
  static constexpr size_t kSlotBytes = 512 << 10;
  static constexpr uint32_t kSlots = 2;

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
  // What the rank says about the contents of its slot.
  uint64_t label(int64_t rank, uint32_t number) const;
  void set_label(uint32_t number, uint64_t label) const;

  // This rank has come so far.
  void reach(uint32_t stage) const;
  // Waits until the peer has. Throws std::runtime_error: it left or its process ended before, this
  // rank has left, the deadline is over.
  void wait_for(int64_t peer, uint32_t stage, Clock::time_point deadline) const;
  // This rank takes part no more: peers that wait for it, and threads of this rank that wait here,
  // get an error. From any thread.
  void leave() const;
  bool has_left() const;
  // "rank 3"
  std::string name(int64_t peer) const;

 private:
  struct Line;
  Channel(Segment segment, int64_t index, int64_t size, ChannelOptions options);
  static size_t bytes_for(int64_t size);
  Line& line(int64_t rank) const;
  void watch_peers();
  std::string hopeless(int64_t peer, Clock::time_point deadline, bool ask_system) const;

  Segment segment_;
  int64_t index_;
  int64_t size_;
  ChannelOptions options_;
  std::vector<int> processes_;  // by rank: a file descriptor that becomes readable at its end; -1
};

}  // namespace am::runtime::shared_memory
