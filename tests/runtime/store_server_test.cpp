// Tests the launcher's store server with c10d's client: the server answers requests like c10d's own
// server.
#include "am/launch/nodes/store_server.h"

#include <catch2/catch.hpp>
#include <future>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "am/base/text.h"

namespace am::runtime {
namespace {

using std::chrono::milliseconds;

c10::intrusive_ptr<c10d::Store> connect(int port) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(port);
  options.waitWorkers = false;
  options.timeout = std::chrono::seconds(10);
  return c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
}

// Runs a fixed sequence of requests on a store, and returns the results as text.
std::string transcript(c10d::Store& a, c10d::Store& b) {
  std::string said;
  const auto say = [&](const auto& what) { said += cat(what, "\n"); };
  a.set("x", "1");
  say(b.get_to_str("x"));
  say(a.add("count", 3));
  say(b.add("count", -5));
  say(a.get_to_str("count"));
  say(b.check({"x", "count"}));
  say(b.check({"x", "none"}));
  say(a.compareSet("c", "", "first"));
  say(b.compareSet("c", "wrong", "second"));
  say(b.compareSet("c", "first", "third"));
  say(a.compareSet("absent", "expected", "value"));
  say(a.check({"absent"}));
  a.append("log", {'a', 'b'});
  a.append("log", {'c'});
  say(b.get_to_str("log"));
  a.multiSet({"m1", "m2"}, {{'o', 'n', 'e'}, {}});
  for (const auto& value : b.multiGet({"m1", "m2"})) {
    say(cat("<", std::string(value.begin(), value.end()), ">"));
  }
  say(a.getNumKeys());
  say(a.deleteKey("x"));
  say(a.deleteKey("x"));
  say(b.check({"x"}));
  const std::vector<uint8_t> large(1 << 20, 7);
  b.set("large", large);
  say(a.get("large") == large);
  return said;
}

}  // namespace

TEST_CASE("the launcher's store answers as c10d's own") {
  const launch::StoreServer server(0, launch::BindScope::kThisMachine);
  const auto a = connect(server.port());
  const auto b = connect(server.port());
  c10d::TCPStoreOptions options;
  options.isServer = true;
  options.waitWorkers = false;
  options.port = 0;
  const auto reference = c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
  const auto second = connect(reference->getPort());
  CHECK(transcript(*a, *b) == transcript(*reference, *second));
  CHECK(server.get("count") == "-2");
}

TEST_CASE("a rank that waits is woken by another rank and by the launcher") {
  launch::StoreServer server(0, launch::BindScope::kNetwork);
  const auto a = connect(server.port());
  const auto b = connect(server.port());
  auto waits = std::async(std::launch::async, [&] { return a->get_to_str("late"); });
  b->set("late", "here");
  CHECK(waits.get() == "here");
  waits = std::async(std::launch::async, [&] { return a->get_to_str("later"); });
  server.set("later", "there");
  CHECK(waits.get() == "there");
}

TEST_CASE("a wait that runs out of time leaves a connection that can be used") {
  const launch::StoreServer server(0, launch::BindScope::kThisMachine);
  const auto store = connect(server.port());
  CHECK_THROWS(store->wait({"never"}, milliseconds(100)));
  store->set("never", "after all");
  CHECK(store->get_to_str("never") == "after all");
  store->wait({"never"}, milliseconds(100));
}

}  // namespace am::runtime
