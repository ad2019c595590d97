// The collectives of a Channel: bytes through its slots, a slot's worth at a time, so that a tensor
// of any size needs no more memory than the slots.
//
//   Exchange exchange(*channel);
//   exchange.all_gather(out, in, bytes, deadline);
//
// Every rank calls the same ones in the same order, with the same sizes, one at a time. What goes
// wrong is a std::runtime_error, after which the rank has left the channel and all that follow
// fail: the wait for a peer (Channel::wait_for), or a peer that is in another collective.
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

  // `out` holds size() parts of `bytes`; `in` may be this rank's part of it.
  void all_gather(void* out, const void* in, int64_t bytes, Deadline deadline);
  // `in` holds size() parts of `count` elements; `out` may be this rank's part of it.
  void reduce_scatter(void* out, const void* in, int64_t count, c10::ScalarType dtype,
                      Operation operation, Deadline deadline);
  // In place.
  void all_reduce(void* data, int64_t count, c10::ScalarType dtype, Operation operation,
                  Deadline deadline);
  // From the rank number `root` to all, in place.
  void broadcast(void* data, int64_t bytes, int64_t root, Deadline deadline);

  // `in` lies sorted by rank, in_bytes[i] for rank i; `out` too, out_bytes[i] from rank i. Parts
  // are of elements of `width` bytes.
  void all_to_all(void* out, const void* in, const std::vector<int64_t>& out_bytes,
                  const std::vector<int64_t>& in_bytes, int64_t width, Deadline deadline);

 private:
  // Runs `body`; when it throws, leaves the channel.
  void guarded(uint64_t label, Deadline deadline, const std::function<void()>& body);
  // So many rounds: `write(i, slot)` what this rank shows in round i, `read(i)` what is there.
  void run(int64_t count, const std::function<void(int64_t, std::byte*)>& write,
           const std::function<void(int64_t)>& read);
  const std::byte* shown(int64_t peer) const { return rounds_.shown(peer, label_, deadline_); }
  int64_t part_begin(int64_t count, int64_t rank) const;
  void sum_all(std::byte* data, int64_t count, c10::ScalarType dtype, Operation operation) const;
  void sum_parts(std::byte* data, int64_t count, c10::ScalarType dtype, Operation operation) const;

  const Channel& channel_;
  Rounds rounds_;
  uint64_t label_ = 0;  // of the collective under way; peers must have the same
  Deadline deadline_;   // its
  std::string broken_;  // why nothing goes on here
};

}  // namespace am::runtime::shared_memory
