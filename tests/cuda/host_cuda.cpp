#undef _FORTIFY_SOURCE  // its checked longjmp aborts when the target is on another stack
#include "cuda/host_cuda.h"

#include <setjmp.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <array>
#include <cstdlib>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

namespace am::test::host_cuda {

Dim3 threadIdx, blockIdx, blockDim, gridDim;

namespace {

constexpr unsigned kWarp = 32;
constexpr size_t kStackBytes = 128 << 10;

enum class State { kReady, kInBarrier, kInShuffle, kEnded };

struct Fiber {
  jmp_buf at = {};  // point at which the fiber resumes
  bool begun = false;
  State state = State::kEnded;
  unsigned mask = 0;                    // lanes that the fiber's shuffle waits for
  std::array<uint64_t, 2> values = {};  // arguments of the fiber's last two shuffles
  unsigned shuffles = 0;
};

// Returns the memory for the stacks of all fibers. It is mapped once; all blocks use it in turn.
char* stacks() {
  static void* const memory = ::mmap(nullptr, 1024 * kStackBytes, PROT_READ | PROT_WRITE,
                                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::runtime_error("no memory for the stacks of fibers");
  return static_cast<char*>(memory);
}

std::mt19937& random_order() {
  static std::mt19937 generator = [] {
    const char* seed = std::getenv("AM_OPERATORS_SEED");
    return std::mt19937(seed == nullptr ? 1 : static_cast<unsigned>(std::atoi(seed)));
  }();
  return generator;
}

class Block {
 public:
  Block(int threads, const std::function<void()>& kernel)
      : kernel_(kernel), fibers_(static_cast<size_t>(threads)), stacks_(stacks()) {}

  void run() {
    running_ = this;
    alive_ = fibers_.size();
    waiting_ = 0;
    ready_.clear();
    for (size_t i = 0; i < fibers_.size(); ++i) {
      fibers_[i].shuffles = 0;
      make_ready(i);
    }
    // In about half of the blocks, the thread that became ready last runs next, so that a warp runs
    // far ahead of the others.
    const bool newest = random_order()() % 2 == 0;
    while (!ready_.empty()) {
      const size_t pick = newest ? ready_.size() - 1 : random_order()() % ready_.size();
      current_ = ready_[pick];
      ready_[pick] = ready_.back();
      ready_.pop_back();
      threadIdx = {static_cast<unsigned>(current_), 0, 0};
      resume(fibers_[current_]);
    }
    if (problem_ != nullptr) throw std::logic_error(problem_);
    if (alive_ > 0) throw std::logic_error(stuck());
  }

  static Block& running() { return *running_; }

  void wait_for_block() {
    ++waiting_;
    fibers_[current_].state = State::kInBarrier;
    if (waiting_ == fibers_.size()) {
      waiting_ = 0;
      for (size_t i = 0; i < fibers_.size(); ++i) make_ready(i);
    }
    suspend();
  }

  uint64_t exchange(unsigned mask, uint64_t value, unsigned from) {
    Fiber& mine = fibers_[current_];
    const size_t turn = mine.shuffles++ % 2, warp = current_ / kWarp * kWarp;
    if ((mask >> lane() & 1) == 0 || (mask >> from & 1) == 0) {
      problem_ = "a shuffle's mask lacks a lane that takes part";
    }
    mine.values[turn] = value;
    mine.mask = mask;
    mine.state = State::kInShuffle;
    const auto here = [&](size_t of_warp) {
      const size_t i = warp + of_warp;
      return i < fibers_.size() && fibers_[i].state == State::kInShuffle &&
             fibers_[i].mask == mask && fibers_[i].shuffles == mine.shuffles;
    };
    bool all = true;
    for (size_t i = 0; i < kWarp; ++i) all = all && ((mask >> i & 1) == 0 || here(i));
    if (all) {
      for (size_t i = 0; i < kWarp; ++i) {
        if ((mask >> i & 1) != 0) make_ready(warp + i);
      }
    }
    suspend();
    return fibers_[warp + from].values[turn];
  }

  unsigned lane() const { return static_cast<unsigned>(current_) % kWarp; }

 private:
  // Runs in a fiber: executes the kernel as one thread of each block.
  static void entry() {
    Block& block = *running_;
    for (;;) {
      block.kernel_();
      block.fibers_[block.current_].state = State::kEnded;
      --block.alive_;
      block.suspend();
    }
  }

  // Lets a fiber run until it suspends itself. Uses setjmp and longjmp, which make no system calls,
  // unlike swapcontext. Only the start of a fiber needs a context, to switch to its stack.
  [[gnu::noinline]] void resume(Fiber& fiber) {
    if (_setjmp(scheduler_) != 0) return;
    if (fiber.begun) ::_longjmp(fiber.at, 1);
    fiber.begun = true;
    ucontext_t context = {};
    ::getcontext(&context);
    context.uc_stack.ss_sp = stacks_ + current_ * kStackBytes;
    context.uc_stack.ss_size = kStackBytes;
    ::makecontext(&context, &Block::entry, 0);
    ::setcontext(&context);
  }

  void make_ready(size_t i) {
    fibers_[i].state = State::kReady;
    ready_.push_back(i);
  }

  [[gnu::noinline]] void suspend() {
    if (_setjmp(fibers_[current_].at) == 0) ::_longjmp(scheduler_, 1);
  }

  std::string stuck() const {
    std::array<size_t, 4> count = {};
    for (const Fiber& fiber : fibers_) ++count[static_cast<size_t>(fiber.state)];
    return "block " + std::to_string(blockIdx.x) + ": " + std::to_string(count[1]) +
           " threads wait in a barrier and " + std::to_string(count[2]) + " in a shuffle, " +
           std::to_string(count[3]) + " have ended";
  }

  const std::function<void()>& kernel_;
  std::vector<Fiber> fibers_;
  char* stacks_;
  jmp_buf scheduler_ = {};
  std::vector<size_t> ready_;
  size_t current_ = 0, alive_ = 0, waiting_ = 0;
  const char* problem_ = nullptr;  // thrown by run(), because fibers must not throw
  static inline Block* running_ = nullptr;
};

}  // namespace

void wait_for_block() { Block::running().wait_for_block(); }
uint64_t exchange(unsigned mask, uint64_t value, unsigned from) {
  return Block::running().exchange(mask, value, from);
}
unsigned lane() { return Block::running().lane(); }

void run_blocks(const Blocks& grid, const std::function<void()>& kernel) {
  if (grid.threads < 1 || grid.threads > 1024) throw std::logic_error("1 to 1024 threads a block");
  Block block(grid.threads, kernel);
  gridDim = {static_cast<unsigned>(grid.blocks), 1, 1};
  blockDim = {static_cast<unsigned>(grid.threads), 1, 1};
  for (int64_t i = grid.first; i < grid.blocks; ++i) {
    blockIdx = {static_cast<unsigned>(i), 0, 0};
    block.run();
  }
}

}  // namespace am::test::host_cuda
