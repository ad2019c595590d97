// The collectives of a Channel. Data passes through the channel's slots, the parts of the shared
// memory that each rank writes, in rounds of at most one slot per rank (rounds.h). A tensor of any
// size therefore needs no memory beyond the slots.
//
//   Exchange exchange(*channel);
//   exchange.all_gather(out, in, bytes, deadline);
//
// Every rank must call the same functions in the same order, with matching sizes, one at a time.
// The functions throw std::runtime_error if a wait for a peer fails (Channel::wait_for), or if a
// peer is in another collective. This rank has then left the channel, and all later calls throw.
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "am/runtime/shared_memory/channel.h"
#include "am/runtime/shared_memory/combine.h"
#include "am/runtime/shared_memory/rounds.h"

namespace am::runtime::shared_memory {

class Exchange {
 public:
  using Deadline = Rounds::Deadline;

  explicit Exchange(const Channel& channel) : channel_(channel), rounds_(channel) {}

  // Gathers `in` of all ranks into `out`, which has size() parts of `bytes` bytes. `in` may be this
  // rank's part of `out`.
  void all_gather(void* out, const void* in, int64_t bytes, Deadline deadline);
  // Reduces `in` over all ranks and writes this rank's part of the result to `out`. `in` has size()
  // parts of `count` elements; `out` may be this rank's part of `in`.
  void reduce_scatter(void* out, const void* in, int64_t count, c10::ScalarType dtype,
                      Operation operation, Deadline deadline);
  // Reduces `data` over all ranks, in place.
  void all_reduce(void* data, int64_t count, c10::ScalarType dtype, Operation operation,
                  Deadline deadline);
  // Copies the data of index `root` to all ranks, in place.
  void broadcast(void* data, int64_t bytes, int64_t root, Deadline deadline);

  // Sends in_bytes[i] bytes to index i and receives out_bytes[i] bytes from index i. `in` is sorted
  // by destination, `out` by source. Elements have `width` bytes.
  void all_to_all(void* out, const void* in, const std::vector<int64_t>& out_bytes,
                  const std::vector<int64_t>& in_bytes, int64_t width, Deadline deadline);

 private:
  // Runs `body`, which is one collective. If `body` throws, leaves the channel and rethrows.
  void guarded(uint64_t label, Deadline deadline, const std::function<void()>& body);
  // Runs `count` rounds. write(i, slot) fills this rank's slot of round i; read(i) reads the other
  // ranks' slots of round i.
  void run(int64_t count, const std::function<void(int64_t, std::byte*)>& write,
           const std::function<void(int64_t)>& read);
  const std::byte* shown(int64_t peer) const { return rounds_.shown(peer, label_, deadline_); }
  int64_t part_begin(int64_t count, int64_t rank) const;
  void sum_all(std::byte* data, int64_t count, c10::ScalarType dtype, Operation operation) const;
  void sum_parts(std::byte* data, int64_t count, c10::ScalarType dtype, Operation operation) const;

  const Channel& channel_;
  Rounds rounds_;
  uint64_t label_ = 0;  // label of the current collective (label.h)
  Deadline deadline_;   // deadline of the current collective
  std::string broken_;  // reason why no further collective can run; empty: none
};

}  // namespace am::runtime::shared_memory
