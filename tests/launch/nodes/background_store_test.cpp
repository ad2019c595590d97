// A store behind a thread of its own: nobody waits for it.
#include "am/launch/nodes/background_store.h"

#include <catch2/catch.hpp>
#include <condition_variable>
#include <map>
#include <mutex>
#include <stdexcept>

#include "am/base/error.h"
#include "launch/supervise/job_support.h"

using namespace am;
using namespace am::launch;
using namespace launch_test;

namespace {

// In memory. Can be made to keep every call waiting, as a launcher that was stopped does.
class MapStore : public KeyValueStore {
 public:
  void set(const std::string& key, const std::string& value) override {
    std::unique_lock lock(mutex_);
    wait(lock);
    values_[key] = value;
  }
  std::optional<std::string> get(const std::string& key) override {
    std::unique_lock lock(mutex_);
    wait(lock);
    if (broken_) throw std::runtime_error("connection closed");
    const auto found = values_.find(key);
    return found == values_.end() ? std::nullopt : std::optional(found->second);
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
  bool stopped_ = false;
  bool broken_ = false;
};

// What the store says when it is asked again and again.
std::string answer(BackgroundStore& store, const std::string& key) {
  std::optional<std::string> found;
  REQUIRE(soon([&] { return (found = store.get(key)).has_value(); }));
  return *found;
}

// The error of a lost store; empty when it is none after twenty seconds.
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
  // At most one answer was under way.
  int more = 0;
  for (int i = 0; i < 20; ++i) more += store.get("a") ? 1 : 0;
  CHECK(more <= 1);
  inner->stop(false);
  CHECK(answer(store, "a") == "1");
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
    CHECK_THAT(loss(store), Catch::StartsWith("no answer for"));  // for good
    inner->stop(true);
  }
  inner->stop(false);  // the thread that was left behind ends
  CHECK(soon([&] { return inner.use_count() == 1; }));
}

TEST_CASE("a store that fails is lost, with its words") {
  const auto inner = std::make_shared<MapStore>();
  BackgroundStore store(inner, "heartbeat");
  inner->break_down();
  CHECK(loss(store) == "connection closed");
  CHECK_THROWS_AS(store.set("a", "1"), Error);
}
