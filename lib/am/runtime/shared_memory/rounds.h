// The rounds of a channel: what does not fit into a slot goes through it in several.
//
//   std::memcpy(rounds.write(deadline), data, bytes);      // this rank's slot of the next round
//   rounds.show(label);
//   const std::byte* theirs = rounds.shown(peer, label, deadline);   // of the first that is not done
//   ...
//   rounds.done();
//
// Note [Rounds]: all ranks count the same rounds. In a round a rank writes a slot of its own and
// says so (shown), reads the slots of the others and says so (done). A slot is free when all others
// are done with what it showed. A rank takes its first free slot: where nobody lags these are one
// or two, which stay in the cores' caches. Where a peer is not scheduled, because other programs
// have the cores, a rank shows what it has for rounds ahead, as far as it has slots, and the peer
// finds all of it when its turn comes: else each round would wait until both are scheduled at once.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "am/runtime/shared_memory/channel.h"

namespace am::runtime::shared_memory {

// Of no bytes, neither need be there.
inline void copy_bytes(void* to, const void* from, int64_t bytes) {
  if (bytes > 0 && to != from) std::memcpy(to, from, static_cast<size_t>(bytes));
}

class Rounds {
 public:
  using Deadline = Channel::Clock::time_point;

  explicit Rounds(const Channel& channel);

  // The next round to show.
  bool can_write() const;
  std::byte* write(Deadline deadline);  // waits until it can
  void show(uint64_t label);
  uint32_t count_shown() const { return static_cast<uint32_t>(shown_); }

  // The next round to read. Throws std::runtime_error as Channel::wait_for, and where the peer says
  // another label.
  bool all_shown() const;
  const std::byte* shown(int64_t peer, uint64_t label, Deadline deadline) const;
  std::byte* own() const;  // what this rank shows in it
  void done();
  uint32_t count_done() const { return static_cast<uint32_t>(done_); }
  // Its part of a sum; see Count.
  void reduced() const;
  void wait_until_reduced(int64_t peer, Deadline deadline) const;

 private:
  uint64_t done_by_others() const;
  const uint64_t* free_slot() const;

  const Channel& channel_;
  uint64_t shown_ = 0;  // the channel's counts are their last 32 bits
  uint64_t done_ = 0;
  // By slot: all others must be done with so many rounds before it is written again.
  std::array<uint64_t, Channel::kSlots> free_at_ = {};
  uint32_t writing_ = 0;  // slot
};

}  // namespace am::runtime::shared_memory
