// The rounds of a channel (channel.h). A slot is a part of the shared memory that one rank writes
// and the other ranks read. Data larger than a slot is transferred in several rounds.
//
//   std::memcpy(rounds.write(deadline), data, bytes);      // this rank's slot of the next round
//   rounds.show(label);
//   const std::byte* theirs = rounds.shown(peer, label, deadline);   // the peer's slot
//   ...
//   rounds.done();
//
// Note [Rounds]: a round has the same number on all ranks. In a round, a rank writes one of its
// slots and publishes the count kShown, then reads the other ranks' slots and publishes the count
// kDone. A slot is free when all other ranks have read it. A rank uses its first free slot. If no
// rank lags, a rank uses only one or two slots, which stay in the cores' caches. If a peer is not
// scheduled because other programs occupy the cores, a rank writes data of later rounds to its
// other slots. When the peer is scheduled again, it finds all of this data. With a single slot,
// each round would wait until all ranks are scheduled at the same time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "am/runtime/shared_memory/channel.h"

namespace am::runtime::shared_memory {

// Copies bytes; the pointers may be null if bytes == 0.
inline void copy_bytes(void* to, const void* from, int64_t bytes) {
  if (bytes > 0 && to != from) std::memcpy(to, from, static_cast<size_t>(bytes));
}

class Rounds {
 public:
  using Deadline = Channel::Clock::time_point;

  explicit Rounds(const Channel& channel);

  // Write this rank's data of the next round: write() returns the slot to fill, show() publishes
  // the slot, and can_write() returns whether a slot is free.
  bool can_write() const;
  std::byte* write(Deadline deadline);  // waits until can_write()
  void show(uint64_t label);
  uint32_t count_shown() const { return static_cast<uint32_t>(shown_); }

  // Read the first round that is not done: shown() waits for the peer's slot and returns the slot,
  // done() ends the round, and all_shown() returns whether all peers have published their slots.
  // shown() throws the errors of Channel::wait_for, and std::runtime_error if the peer's label
  // differs from `label`.
  bool all_shown() const;
  const std::byte* shown(int64_t peer, uint64_t label, Deadline deadline) const;
  std::byte* own() const;  // this rank's slot of the round to read
  void done();
  uint32_t count_done() const { return static_cast<uint32_t>(done_); }
  // Used by reductions: reduced() publishes this rank's part of the sum, and wait_until_reduced()
  // waits for the peer's part; see Count::kReduced.
  void reduced() const;
  void wait_until_reduced(int64_t peer, Deadline deadline) const;

 private:
  uint64_t done_by_others() const;
  const uint64_t* free_slot() const;

  const Channel& channel_;
  // How many rounds this rank has shown, and how many it has completed. The channel's counts are
  // the low 32 bits of these numbers.
  uint64_t shown_ = 0;
  uint64_t done_ = 0;
  // For each slot: number of rounds that all other ranks must have completed before this rank may
  // write the slot again.
  std::array<uint64_t, Channel::kSlots> free_at_ = {};
  uint32_t writing_ = 0;  // number of the slot that is being written
};

}  // namespace am::runtime::shared_memory
