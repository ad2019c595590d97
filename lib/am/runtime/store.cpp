#include "am/runtime/store.h"

#include <resolv.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <future>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <utility>
#include <vector>

#include "am/base/error.h"
#include "am/base/first_line.h"
#include "am/base/text.h"
#include "am/launch/cause/rank_state.h"
#include "am/runtime/collective_error.h"

namespace am::runtime {

namespace {

bool is_in_use(const std::exception& error) {
  const auto* system = dynamic_cast<const std::system_error*>(&error);
  if (system != nullptr) return system->code() == std::errc::address_in_use;
  return std::string_view(error.what()).find("EADDRINUSE") != std::string_view::npos;
}

// Makes this thread send a query to each name server only once, with a timeout of 1 s. c10d looks
// up the host name of the peer's address, but uses this name only in messages. If all ranks of a
// job send queries at the same time, queries are lost. By default, each query is sent twice, with a
// timeout of 5 s.
void expect_little_of_name_service() {
  ::res_init();
  _res.retrans = 1;
  _res.retry = 1;
}

// Returns make()'s connection. c10d waits indefinitely for the server's greeting, which never comes
// if another program listens at the address, or if the launcher has no free descriptor. make()
// therefore runs in a thread that is abandoned after the timeout.
c10::intrusive_ptr<c10d::Store> connect_in_time(
    std::function<c10::intrusive_ptr<c10d::Store>()> make, std::chrono::milliseconds timeout) {
  using Result = c10::intrusive_ptr<c10d::Store>;
  auto task = std::make_shared<std::packaged_task<Result()>>([make = std::move(make)] {
    expect_little_of_name_service();
    return make();
  });
  auto result = task->get_future();
  std::thread([task] { (*task)(); }).detach();
  // Waits one second longer than c10d, because c10d's own timeout error is clearer.
  if (result.wait_for(timeout + std::chrono::seconds(1)) != std::future_status::ready) {
    throw std::runtime_error(launch::kNoGreeting);
  }
  return result.get();
}

// Waits until the server answers. Without this wait, c10d's client would report connection problems
// late and unclearly.
void await_server(const launch::RankEnvironment& here, std::chrono::milliseconds timeout,
                  const launch::Waiting& waiting) {
  std::string problem;
  const int fd =
      launch::connect_to_store(here.master_addr, here.master_port, timeout, waiting, problem);
  if (fd < 0) throw std::runtime_error(problem);
  ::close(fd);
}

std::vector<uint8_t> bytes_of(const std::string& text) { return {text.begin(), text.end()}; }

}  // namespace

std::string waiting_text(const launch::RankEnvironment& here, const std::string& reason) {
  return cat("rank ", here.rank, " waits for the job at ", here.master_addr, ":", here.master_port,
             ": ", reason);
}

c10::intrusive_ptr<c10d::Store> connect_store(const launch::RankEnvironment& here,
                                              std::chrono::milliseconds timeout,
                                              const launch::Waiting& waiting) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(here.master_port);
  options.isServer = here.rank == 0 && !here.agent_store;
  options.waitWorkers = false;  // because meet() waits, and names the missing ranks
  options.timeout = timeout;
  const std::string address = cat(here.master_addr, ":", here.master_port);
  try {
    c10::intrusive_ptr<c10d::Store> store;
    if (options.isServer) {
      store = c10::make_intrusive<c10d::TCPStore>(here.master_addr, options);
    } else {
      await_server(here, timeout, waiting);
      store = connect_in_time(
          [host = here.master_addr, options]() -> c10::intrusive_ptr<c10d::Store> {
            return c10::make_intrusive<c10d::TCPStore>(host, options);
          },
          timeout);
    }
    return c10::make_intrusive<c10d::PrefixStore>(launch::attempt_prefix(here.restart_count),
                                                  std::move(store));
  } catch (const std::exception& error) {
    if (is_in_use(error)) {
      throw Error(
          ErrorKind::kPeer,
          cat("rank ", here.rank, ": cannot serve the job at ", address, ": the port is in use"),
          "another job may use it: set MASTER_PORT to a free port, the same for all ranks");
    }
    throw Error(
        ErrorKind::kPeer,
        cat("rank ", here.rank, ": cannot join the job at ", address, ": ", first_line(error)),
        "check MASTER_ADDR and MASTER_PORT, and that rank 0 was started");
  }
}

c10::intrusive_ptr<c10d::Store> connect_again(const c10::intrusive_ptr<c10d::Store>& store,
                                              std::chrono::milliseconds timeout) {
  try {
    return connect_in_time([store] { return store->clone(); }, timeout);
  } catch (const std::exception& error) {
    throw Error(ErrorKind::kPeer,
                cat("cannot open a second connection to the job's store: ", first_line(error)),
                "the launcher or rank 0, which serves the store, has a problem: see its log");
  }
}

std::optional<std::string> store_get(c10d::Store& store, const std::string& key) {
  if (!store.check({key})) return std::nullopt;
  const std::vector<uint8_t> value = store.get(key);
  return std::string(value.begin(), value.end());
}

std::vector<std::optional<std::string>> store_get_all(c10d::Store& store,
                                                      const std::vector<std::string>& keys) {
  constexpr size_t kMostKeys = 1024;
  std::vector<std::optional<std::string>> values(keys.size());
  // First checks whether the keys exist, because multiGet waits for missing keys. If a key is
  // missing, each half of the keys is checked and requested separately.
  std::vector<std::pair<size_t, size_t>> open;
  for (size_t first = 0; first < keys.size(); first += kMostKeys) {
    open.emplace_back(first, std::min(kMostKeys, keys.size() - first));
  }
  while (!open.empty()) {
    const auto [first, count] = open.back();
    open.pop_back();
    const auto begin = keys.begin() + static_cast<ptrdiff_t>(first);
    const std::vector<std::string> some(begin, begin + static_cast<ptrdiff_t>(count));
    if (store.check(some)) {
      const auto found = store.multiGet(some);
      for (size_t i = 0; i < count; ++i)
        values[first + i] = std::string(found[i].begin(), found[i].end());
    } else if (count > 1) {
      open.emplace_back(first, count / 2);
      open.emplace_back(first + count / 2, count - count / 2);
    }
  }
  return values;
}

void store_set(c10d::Store& store, const std::string& key, const std::string& value) {
  store.set(key, bytes_of(value));
}

void meet(c10d::Store& store, const std::string& name, int64_t rank,
          const std::vector<int64_t>& ranks, std::chrono::milliseconds timeout) {
  const auto key = [&](const auto& what) { return cat("meet/", name, "/", what); };
  const auto size = static_cast<int64_t>(ranks.size());
  try {
    store_set(store, key(rank), "here");
    if (store.add(key("count"), 1) == size) store_set(store, key("all"), "here");
    store.wait({key("all")}, timeout);
    return;
  } catch (const std::exception& error) {
    std::vector<int64_t> missing;
    try {
      for (const int64_t peer : ranks) {
        if (!store.check({key(peer)})) missing.push_back(peer);
      }
    } catch (const std::exception&) {
      missing.clear();  // the store stopped answering, so the list is incomplete
    }
    if (missing.empty()) {
      throw Error(ErrorKind::kPeer,
                  cat("rank ", rank, ": the store of the job does not answer: ", first_line(error)),
                  "the launcher or rank 0, which serves the store, has ended: see its log");
    }
    throw MissingRanks(name, std::move(missing), size, timeout);
  }
}

}  // namespace am::runtime
