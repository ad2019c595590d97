// Cache for the memory of large host tensors: a freed block is kept for the next tensor of the same
// size.
//
// malloc either returns freed large blocks to the system or keeps them in its heap. Blocks from the
// system have pages that must be cleared (a tenth of a step's time); in the heap, tensors of many
// sizes cause fragmentation (a tenth of the memory). Every training step allocates the same sizes,
// so this cache keeps a freed block for a tensor of its size. Blocks in use and freed blocks that
// wait for reuse together never exceed a budget: the most bytes that were ever in use, times
// 1 + 1/256. A process therefore needs little more memory than its peak, and steps after the first
// allocate hardly anything from the system.
//
//   BlockCache::install();   // in programs that train, before the first tensor; not in libraries
//
// Note [The budget]: if a new block would exceed the budget, the cache unmaps the smallest waiting
// block that makes enough room; among blocks of equal size, it unmaps the block that has waited
// longest. If no waiting block is large enough, the cache unmaps the largest waiting block and
// searches again. If the system cannot provide a new block, the cache unmaps all waiting blocks and
// tries a second time.
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
  // Size in bytes from which install()'s allocator uses the cache; smaller tensors use malloc.
  static constexpr size_t kSmallest = size_t{1} << 20;

  BlockCache() = default;
  ~BlockCache();
  BlockCache(const BlockCache&) = delete;
  BlockCache& operator=(const BlockCache&) = delete;

  // Returns an uninitialised block of at least `bytes` bytes, aligned to pages. Throws
  // std::bad_alloc.
  void* take(size_t bytes);
  // Frees a block that take() returned.
  void give(void* block);
  // Whether `block` was returned by take() and has not been freed.
  bool gave(const void* block) const;

  struct Counts {
    size_t in_use = 0;   // bytes of blocks in use
    size_t most = 0;     // maximum of in_use so far
    size_t waiting = 0;  // bytes of freed blocks that are kept for reuse
    int64_t asked = 0;   // number of blocks allocated from the system
  };
  Counts counts() const;

  // Makes a cache the allocator of large host tensors for the rest of the process, and makes malloc
  // keep more freed memory. Further calls have no effect.
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
  std::list<Block> waiting_;  // freed blocks; the first block has waited longest
  Counts counts_;
};

}  // namespace am::tensor
