#include "am/runtime/store.h"

#include <resolv.h>
#include <unistd.h>

#include <future>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
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

// c10d asks the name service what the other end of a connection is called, for its messages. When a
// whole job does so at once, questions are lost, and each is waited for 5 s, twice. Here, for this
// thread: 1 s.
void expect_little_of_name_service() {
  ::res_init();
  _res.retrans = 1;
  _res.retry = 1;
}

// A client's connection. c10d waits without end for the greeting of whoever listens there, which
// may be another program: so it waits in a thread of its own, which is left behind.
c10::intrusive_ptr<c10d::Store> connect_client(const std::string& host,
                                               const c10d::TCPStoreOptions& options) {
  using Result = c10::intrusive_ptr<c10d::Store>;
  auto task = std::make_shared<std::packaged_task<Result()>>([host, options]() -> Result {
    expect_little_of_name_service();
    return c10::make_intrusive<c10d::TCPStore>(host, options);
  });
  auto result = task->get_future();
  std::thread([task] { (*task)(); }).detach();
  // c10d keeps to the timeout while it tries to connect.
  if (result.wait_for(options.timeout + std::chrono::seconds(1)) != std::future_status::ready) {
    throw std::runtime_error("who listens there does not answer: another program has the port");
  }
  return result.get();
}

// c10d's client says late, and not in words, why it does not come to be connected.
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

c10::intrusive_ptr<c10d::Store> connect_store(const launch::RankEnvironment& here,
                                              std::chrono::milliseconds timeout,
                                              const launch::Waiting& waiting) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(here.master_port);
  options.isServer = here.rank == 0 && !here.agent_store;
  options.waitWorkers = false;  // `meet` waits, and knows who is missing
  options.timeout = timeout;
  const std::string address = cat(here.master_addr, ":", here.master_port);
  try {
    c10::intrusive_ptr<c10d::Store> store;
    if (options.isServer) {
      store = c10::make_intrusive<c10d::TCPStore>(here.master_addr, options);
    } else {
      await_server(here, timeout, waiting);
      store = connect_client(here.master_addr, options);
    }
    return c10::make_intrusive<c10d::PrefixStore>(launch::attempt_prefix(here.restart_count),
                                                  std::move(store));
  } catch (const std::exception& error) {
    if (is_in_use(error)) {
      throw Error(
          ErrorKind::kPeer,
          cat("rank ", here.rank, ": cannot serve the job at ", address, ": the port is in use"),
          "another job may have it: set MASTER_PORT to a free port, the same for all ranks");
    }
    throw Error(
        ErrorKind::kPeer,
        cat("rank ", here.rank, ": cannot join the job at ", address, ": ", first_line(error)),
        "check MASTER_ADDR and MASTER_PORT, and that rank 0 was started");
  }
}

std::optional<std::string> store_get(c10d::Store& store, const std::string& key) {
  if (!store.check({key})) return std::nullopt;
  const std::vector<uint8_t> value = store.get(key);
  return std::string(value.begin(), value.end());
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
      missing.clear();  // the store went away meanwhile
    }
    if (missing.empty()) {
      throw Error(ErrorKind::kPeer,
                  cat("rank ", rank, ": the store of the job does not answer: ", first_line(error)),
                  "whoever serves it, the launcher or rank 0, went away; look at its log");
    }
    throw MissingRanks(name, std::move(missing), size, timeout);
  }
}

}  // namespace am::runtime
