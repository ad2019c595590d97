// Tests BackgroundStore, which accesses a store on a background thread, so that callers never wait
// for the store.
#include "am/launch/nodes/background_store.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <condition_variable>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "am/base/error.h"
#include "launch/supervise/job_support.h"

using namespace am;
using namespace am::launch;
using namespace launch_test;

namespace {

// A store in memory. stop(true) blocks set() and get(), as if the launcher that serves the store
// were suspended. break_down() makes get() fail.
class MapStore : public KeyValueStore {
 public:
  void set(const std::string& key, const std::string& value) override {
    std::unique_lock lock(mutex_);
    wait(lock);
    sets_.push_back(key);
    values_[key] = value;
  }
  std::optional<std::string> get(const std::string& key) override {
    std::unique_lock lock(mutex_);
    wait(lock);
    ++gets_;
    if (broken_) throw std::runtime_error("connection closed");
    const auto found = values_.find(key);
    return found == values_.end() ? std::nullopt : std::optional(found->second);
  }

  int64_t gets() {
    const std::lock_guard lock(mutex_);
    return gets_;
  }
  std::vector<std::string> sets() {
    const std::lock_guard lock(mutex_);
    return sets_;
  }
  void stop(bool stopped) {
    const std::lock_guard lock(mutex_);
    stopped_ = stopped;
    changed_.notify_all();
  }
  void break_down() {
    const std::lock_guard lock(mutex_);
    broken_ = true;
  }
  std::string value(const std::string& key) {
    const std::lock_guard lock(mutex_);
    return values_[key];
  }

 private:
  void wait(std::unique_lock<std::mutex>& lock) {
    changed_.wait(lock, [this] { return !stopped_; });
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> values_;
  std::vector<std::string> sets_;  // keys of the set() calls
  int64_t gets_ = 0;
  bool stopped_ = false;
  bool broken_ = false;
};

// Polls the store until get() returns a value of the key. Returns this value.
std::string answer(BackgroundStore& store, const std::string& key) {
  std::optional<std::string> found;
  REQUIRE(soon([&] { return (found = store.get(key)).has_value(); }));
  return *found;
}

// Polls the store until get() reports that the store is lost. Returns the error message, or ""
// after twenty seconds without an error.
std::string loss(BackgroundStore& store) {
  std::string words;
  soon([&] {
    try {
      store.get("key");
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::kPeer);
      words = error.what();
    }
    return !words.empty();
  });
  return words;
}

}  // namespace

TEST_CASE("what is set is found, and all of it is written before the end") {
  const auto inner = std::make_shared<MapStore>();
  {
    BackgroundStore store(inner, "heartbeat");
    store.set("a", "1");
    CHECK(answer(store, "a") == "1");
    store.set("a", "2");
    CHECK(soon([&] { return store.get("a") == "2"; }));
    for (int i = 0; i < 100; ++i) store.set("last", std::to_string(i));
  }
  CHECK(inner->value("last") == "99");
}

TEST_CASE("each answer is given once") {
  const auto inner = std::make_shared<MapStore>();
  inner->set("a", "1");
  BackgroundStore store(inner, "heartbeat");
  CHECK(answer(store, "a") == "1");
  inner->stop(true);
  // At most one answer was pending when the store blocked.
  int more = 0;
  for (int i = 0; i < 20; ++i) more += store.get("a") ? 1 : 0;
  CHECK(more <= 1);
  inner->stop(false);
  CHECK(answer(store, "a") == "1");
}

TEST_CASE("a key whose answer is given is not asked for again") {
  const auto inner = std::make_shared<MapStore>();
  inner->set("a", "1");
  BackgroundStore store(inner, "heartbeat");
  CHECK(answer(store, "a") == "1");
  store.set("b", "2");  // served after all queued requests, including gets of "a"
  REQUIRE(soon([&] { return inner->value("b") == "2"; }));
  CHECK(inner->gets() == 1);
}

TEST_CASE("the heartbeat goes before what waits to be written") {
  const auto inner = std::make_shared<MapStore>();
  BackgroundStore store(inner, "heartbeat");
  REQUIRE(soon([&] { return inner->value("heartbeat") == "1"; }));
  inner->stop(true);
  for (int i = 0; i < 100; ++i) store.set(cat("key-", i), "1");
  std::this_thread::sleep_for(std::chrono::milliseconds(700));  // the next heartbeat is due
  inner->stop(false);
  REQUIRE(soon([&] { return inner->value("key-99") == "1"; }));
  const std::vector<std::string> sets = inner->sets();
  const auto second = std::find(sets.begin() + 1, sets.end(), "heartbeat");
  // At most one key is written before the heartbeat: the one whose call was in progress.
  CHECK(second - sets.begin() <= 2);
}

TEST_CASE("the heartbeat rises though nobody calls") {
  const auto inner = std::make_shared<MapStore>();
  const BackgroundStore store(inner, "heartbeat");
  CHECK(soon([&] { return inner->value("heartbeat") == "1"; }));
  CHECK(soon([&] { return inner->value("heartbeat") == "3"; }));
}

TEST_CASE("a store that does not answer keeps nobody waiting, and is lost after a while") {
  const auto inner = std::make_shared<MapStore>();
  {
    BackgroundStore store(inner, "heartbeat", std::chrono::milliseconds(300));
    inner->set("a", "1");
    CHECK(answer(store, "a") == "1");
    inner->stop(true);
    CHECK_THAT(loss(store), Catch::StartsWith("no answer for"));
    inner->stop(false);
    CHECK_THAT(loss(store), Catch::StartsWith("no answer for"));  // a lost store stays lost
    inner->stop(true);
  }
  inner->stop(false);  // unblocks the abandoned thread, which then ends
  CHECK(soon([&] { return inner.use_count() == 1; }));
}

TEST_CASE("a store that fails is lost, with its words") {
  const auto inner = std::make_shared<MapStore>();
  BackgroundStore store(inner, "heartbeat");
  inner->break_down();
  CHECK(loss(store) == "connection closed");
  CHECK_THROWS_AS(store.set("a", "1"), Error);
}
