// Cache for the memory of large host tensors: a freed block is kept for the next tensor of the same
// size.
//
// malloc either returns large blocks to the system, so that each tensor of a training step needs
// newly cleared pages (a tenth of a step's time), or keeps them in its heap, where tensors of many
// sizes fragment it (a tenth of the memory). Every step allocates the same sizes. So a freed block
// waits here for a tensor of its size, within a budget: blocks in use and waiting blocks together
// never exceed the most bytes that were ever in use, plus 1/256. A process therefore takes little
// more memory than its peak needs, and steps after the first allocate nothing from the system.
//
//   BlockCache::install();   // in programs that train, before the first tensor; not in libraries
//
// Note [The budget]: if a new block would exceed the budget, a waiting block is unmapped: the
// smallest one that makes enough room, and of equal ones the one that has waited longest; if none
// is large enough, the largest, repeatedly. If the system has no memory, all waiting blocks are
// unmapped before a second attempt.
#pragma once

#include <c10/core/Allocator.h>

#include <cstddef>
#include <cstdint>
#include <list>
#include <mutex>
#include <unordered_map>

namespace am::tensor {

// Cache of blocks of host memory. Thread-safe.
class BlockCache {
 public:
  // Bytes of the smallest block that the cache allocates; smaller ones are left to malloc.
  static constexpr size_t kSmallest = size_t{1} << 20;

  BlockCache() = default;
  ~BlockCache();
  BlockCache(const BlockCache&) = delete;
  BlockCache& operator=(const BlockCache&) = delete;

  // Returns an uninitialised block aligned to pages. Throws std::bad_alloc.
  void* take(size_t bytes);
  // Frees a block that take() returned.
  void give(void* block);
  // Whether take() returned `block` and it is in use.
  bool gave(const void* block) const;

  struct Counts {
    size_t in_use = 0;   // bytes of blocks in use
    size_t most = 0;     // maximum of in_use so far
    size_t waiting = 0;  // bytes of freed blocks that are kept for reuse
    int64_t asked = 0;   // number of blocks allocated from the system
  };
  Counts counts() const;

  // Makes a cache the allocator of host tensors for the rest of the process. Further calls have no
  // effect.
  static void install();

 private:
  struct Block {
    void* start;
    size_t bytes;
  };
  void drop(std::list<Block>::iterator block);
  void make_room(size_t bytes);

  mutable std::mutex mutex_;
  std::unordered_map<const void*, size_t> sizes_;  // bytes of each block in use, by its address
  std::list<Block> waiting_;  // freed blocks, of which the first has waited longest
  Counts counts_;
};

}  // namespace am::tensor
