#include "am/base/map_guard.h"

#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <mutex>
#include <system_error>

#include "am/base/error.h"
#include "am/base/text.h"

namespace am {
namespace {

// A registered memory map. The signal handler reads slots in any thread, so a slot consists of
// lock-free atomics and is never freed.
struct MapSlot {
  std::atomic<uintptr_t> begin = 0;  // address of the map's first byte; 0: the slot is unused
  std::atomic<size_t> size = 0;
  std::atomic<bool> cut = false;  // whether the signal handler has replaced the map's end by zeros
};

static_assert(std::atomic<uintptr_t>::is_always_lock_free &&
              std::atomic<bool>::is_always_lock_free);

struct SlotBlock {
  std::array<MapSlot, 256> slots;
  std::atomic<SlotBlock*> next = nullptr;
};

// State of the signal handler, in globals because a handler can access nothing else.
SlotBlock first_block;
std::mutex taking;  // held while a map is registered or unregistered, or pages are released
std::atomic<size_t> read_bytes = 0;
struct sigaction before;
uintptr_t page_size = 4096;

template <typename Visit>
MapSlot* find_slot(Visit visit) {
  for (SlotBlock* block = &first_block; block != nullptr; block = block->next.load()) {
    for (MapSlot& slot : block->slots) {
      if (visit(slot)) return &slot;
    }
  }
  return nullptr;
}

uintptr_t address_of(std::span<const std::byte> map) {
  return reinterpret_cast<uintptr_t>(map.data());
}

MapSlot* slot_of(std::span<const std::byte> map) {
  if (map.empty()) return nullptr;
  return find_slot([&](const MapSlot& slot) { return slot.begin.load() == address_of(map); });
}

void take_slot(uintptr_t begin, size_t size) {
  const std::lock_guard lock(taking);
  const auto is_free = [](const MapSlot& slot) { return slot.begin.load() == 0; };
  MapSlot* slot = find_slot(is_free);
  if (slot == nullptr) {
    SlotBlock* last = &first_block;
    while (last->next.load() != nullptr) last = last->next.load();
    last->next = new SlotBlock;
    slot = find_slot(is_free);
  }
  slot->cut = false;
  slot->size = size;
  slot->begin = begin;
}

// Maps zeros from the page of `address` to the end of the registered map that contains `address`,
// so that the repeated access succeeds. Returns false if no registered map contains `address`, or
// if mmap fails. mmap is a bare system call and therefore safe in a signal handler.
bool replace_rest(uintptr_t address) {
  MapSlot* slot = find_slot([&](const MapSlot& candidate) {
    const uintptr_t begin = candidate.begin.load();
    return begin != 0 && address >= begin && address - begin < candidate.size.load();
  });
  if (slot == nullptr) return false;
  const uintptr_t page = address / page_size * page_size;
  const size_t rest = slot->begin.load() + slot->size.load() - page;
  auto* at = reinterpret_cast<void*>(page);  // NOLINT(performance-no-int-to-ptr)
  slot->cut = true;
  return ::mmap(at, rest, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED;
}

void on_bus_error(int /*signal*/, siginfo_t* info, void* /*context*/) {
  const int code = errno;
  const bool sent = info->si_code <= 0;  // by kill() or raise(): the signal has no address
  if (sent || !replace_rest(reinterpret_cast<uintptr_t>(info->si_addr))) {
    // Restores the previous handler. The access is repeated after this handler returns, and raises
    // the signal again.
    ::sigaction(SIGBUS, &before, nullptr);
    if (sent) ::raise(SIGBUS);
  }
  errno = code;
}

}  // namespace

void guard_mapped_files() {
  page_size = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  struct sigaction action = {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  struct sigaction old = {};
  ::sigaction(SIGBUS, &action, &old);
  const bool again = (old.sa_flags & SA_SIGINFO) != 0 && old.sa_sigaction == on_bus_error;
  if (!again) before = old;
}

void forget_read_pages(size_t bytes) {
  constexpr size_t kMostRead = size_t{64} << 20;
  if (read_bytes.fetch_add(bytes) + bytes < kMostRead) return;
  read_bytes = 0;
  const std::lock_guard lock(taking);
  find_slot([](const MapSlot& slot) {
    const uintptr_t begin = slot.begin.load();
    auto* at = reinterpret_cast<void*>(begin);  // NOLINT(performance-no-int-to-ptr)
    if (begin != 0) ::madvise(at, slot.size.load(), MADV_DONTNEED);
    return false;
  });
}

void begin_guard(std::span<const std::byte> map) {
  if (!map.empty()) take_slot(address_of(map), map.size());
}

void end_guard(std::span<const std::byte> map) {
  const std::lock_guard lock(taking);
  if (MapSlot* slot = slot_of(map)) slot->begin = 0;
}

void require_whole(const std::filesystem::path& path, std::span<const std::byte> map) {
  const MapSlot* slot = slot_of(map);
  if (slot == nullptr || !slot->cut.load()) return;
  std::error_code none;
  const auto now = std::filesystem::file_size(path, none);
  const bool smaller = !none && now < map.size();
  throw Error(ErrorKind::kIo,
              smaller ? cat(path.string(), ": became smaller while it was open: ", map.size(),
                            " bytes before, ", now, " now")
                      : cat(path.string(), ": the mapped file can no longer be read"),
              "another program may be writing to the file, or its disk failed; open the file again "
              "when it is complete");
}

}  // namespace am
