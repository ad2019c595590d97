// Tests the launcher's store with the launchers of other nodes and with unknown clients. Tests with
// the clients of c10d are in tests/runtime/store_server_test.cpp.
#include "am/launch/nodes/store_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <thread>
#include <vector>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/launch/nodes/store_table.h"
#include "am/launch/nodes/stores.h"
#include "launch/open_file_limit.h"
#include "launch/supervise/job_support.h"

namespace am::launch {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

int connect_to(int port, int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0);
  return fd;
}

std::string greeting() {
  std::string bytes;
  store::append(bytes, store::Query::kValidate);
  store::append(bytes, store::kMagic);
  return bytes;
}

std::string set_message(const std::string& key, const std::string& value) {
  std::string bytes;
  store::append(bytes, store::Query::kSet);
  store::append_text(bytes, key);
  store::append_text(bytes, value);
  return bytes;
}

}  // namespace

TEST_CASE("two launchers on one store read each other's words") {
  const auto server = std::make_shared<StoreServer>(0, BindScope::kThisMachine);
  ServedStore here(server);
  RemoteStore there("127.0.0.1", server->port(), seconds(5));
  CHECK_FALSE(there.get("abort"));
  here.set("abort", "1");
  CHECK(there.get("abort") == "1");
  const std::string long_text(300'000, 'x');
  there.set("report", long_text);
  CHECK(there.get("report") == long_text);
  CHECK(here.get("report") == long_text);
  there.set("empty", "");
  CHECK(there.get("empty") == "");
}

TEST_CASE("a store whose server is gone says so") {
  auto server = std::make_unique<StoreServer>(0, BindScope::kThisMachine);
  const int port = server->port();
  RemoteStore store("127.0.0.1", port, seconds(5));
  store.set("a", "1");
  CHECK(store.get("a") == "1");
  server.reset();
  CHECK_THROWS_WITH(store.get("a"), Catch::StartsWith("the launchers' store is gone: "));
  CHECK_THROWS_WITH(RemoteStore("127.0.0.1", port, milliseconds(300)),
                    Catch::StartsWith(cat("cannot reach node 0's launcher at 127.0.0.1:", port)));
}

TEST_CASE("a client that waits a second time waits for the new keys alone") {
  int woken = 0;
  store::Table table([&](int) { ++woken; });
  const auto wait = [](const std::string& key) {
    std::string bytes;
    store::append(bytes, store::Query::kWait);
    store::append(bytes, uint64_t{1});
    store::append_text(bytes, key);
    return bytes;
  };
  std::string answers;
  REQUIRE(table.serve(1, greeting() + wait("first") + wait("second"), answers));
  table.set("second", "");
  CHECK(woken == 1);
  table.set("first", "");
  CHECK(woken == 1);
  table.forget(1);
}

TEST_CASE("a sum beyond 64 bits is no client's") {
  store::Table table([](int) {});
  std::string bytes;
  store::append(bytes, store::Query::kAdd);
  store::append_text(bytes, "sum");
  store::append(bytes, int64_t{1});
  std::string answers;
  table.set("sum", "9223372036854775806");
  REQUIRE(table.serve(1, greeting() + bytes, answers));
  CHECK(*table.find("sum") == "9223372036854775807");
  CHECK_FALSE(table.serve(1, bytes, answers));
  CHECK(*table.find("sum") == "9223372036854775807");
}

TEST_CASE("a port in use is named") {
  const StoreServer server(0, BindScope::kThisMachine);
  CHECK_THROWS_WITH(StoreServer(server.port(), BindScope::kThisMachine),
                    cat("port ", server.port(), " of this machine is in use"));
  CHECK_THROWS_AS(StoreServer(server.port(), BindScope::kNetwork), Error);
}

TEST_CASE("a store does not wait for another program that has the port") {
  const int silent = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  REQUIRE(::bind(silent, reinterpret_cast<const sockaddr*>(&address), size) == 0);
  REQUIRE(::listen(silent, 1) == 0);
  REQUIRE(::getsockname(silent, reinterpret_cast<sockaddr*>(&address), &size) == 0);
  CHECK_THROWS_WITH(RemoteStore("127.0.0.1", ntohs(address.sin_port), milliseconds(300)),
                    Catch::EndsWith(kNoGreeting));
  ::close(silent);
}

TEST_CASE("a store on this machine alone is not on the network") {
  const StoreServer server(0, BindScope::kThisMachine);
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(server.port()));
  REQUIRE(::inet_pton(AF_INET, "127.0.0.2", &address.sin_addr) == 1);
  CHECK(::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0);
  ::close(fd);
}

TEST_CASE("a stranger is cut off and the others are served on") {
  StoreServer server(0, BindScope::kThisMachine);
  RemoteStore store("127.0.0.1", server.port(), seconds(5));
  std::string too_long = greeting();
  store::append(too_long, store::Query::kSet);
  store::append(too_long, uint64_t{1} << 60);
  std::string unknown = greeting();
  store::append(unknown, uint8_t{200});
  for (const std::string& bytes :
       {std::string("GET / HTTP/1.1\r\n\r\n"), set_message("/a", "1"), too_long, unknown}) {
    const int fd = connect_to(server.port());
    REQUIRE(::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
            static_cast<ssize_t>(bytes.size()));
    char byte;
    CHECK(::recv(fd, &byte, 1, 0) <= 0);
    ::close(fd);
  }
  store.set("b", "2");
  CHECK(store.get("b") == "2");
  CHECK_FALSE(server.get("a"));
}

TEST_CASE("a store without a free descriptor says so once and sleeps until one is free") {
  constexpr int kClients = 8;
  std::atomic<int> told = 0;
  std::string words;
  const StoreServer server(0, BindScope::kThisMachine, [&](const std::string& message) {
    if (told++ == 0) words = message;
  });
  std::vector<int> clients;
  for (int i = 0; i < kClients; ++i) {
    clients.push_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  }
  launch_test::FewDescriptors descriptors(3);
  for (const int fd : clients) connect_to(server.port(), fd);
  const bool crowded = launch_test::soon([&] { return told == 1; });
  const StoreLoad before = server.load();
  std::this_thread::sleep_for(milliseconds(600));
  const StoreLoad after = server.load();
  ::close(clients.back());  // this client has not been accepted yet
  clients.pop_back();
  ::close(clients.front());  // this client was served: both ends free a descriptor
  clients.erase(clients.begin());
  const bool refilled = launch_test::soon([&] { return server.load().connections == 5; });
  descriptors.give_back(kClients);
  REQUIRE(crowded);
  CHECK_THAT(words, Catch::StartsWith("the job's store cannot accept another connection: Too many "
                                      "open files; 3 are open, and this process may have ") &&
                        Catch::EndsWith("raise the limit: ulimit -n"));
  CHECK(after.processor_seconds - before.processor_seconds < 0.2);
  CHECK(after.connections == 3);
  CHECK(refilled);
  CHECK(launch_test::soon([&] { return server.load().connections == kClients - 2; }));
  CHECK(told == 1);
  for (const int fd : clients) ::close(fd);
}

TEST_CASE("a store counts what it serves") {
  const auto server = std::make_shared<StoreServer>(0, BindScope::kThisMachine);
  RemoteStore store("127.0.0.1", server->port(), seconds(5));
  const StoreLoad before = server->load();
  store.set("key", std::string(1000, 'x'));
  CHECK(store.get("key")->size() == 1000);
  const StoreLoad after = server->load();
  CHECK(after.requests - before.requests == 3);  // the requests are set, check and get
  CHECK(after.bytes_sent - before.bytes_sent == 1 + 8 + 1000);
  CHECK(after.processor_seconds > 0.0);
}

TEST_CASE("a message may come byte by byte") {
  std::vector<int> woken;
  store::Table table([&](int client) { woken.push_back(client); });
  const std::string bytes = greeting() + set_message("/key", "value");
  std::string waiting;
  std::string answers;
  for (const char byte : bytes) {
    waiting += byte;
    const auto used = table.serve(3, waiting, answers);
    REQUIRE(used);
    waiting.erase(0, *used);
  }
  CHECK(waiting.empty());
  CHECK(answers.empty());
  REQUIRE(table.find("/key") != nullptr);
  CHECK(*table.find("/key") == "value");
}

// A process that the launcher forks has copies of all connections until the process calls exec.
TEST_CASE("a connection that was closed while another process has a copy is gone") {
  StoreServer server(0, BindScope::kThisMachine);
  const int client = connect_to(server.port());
  REQUIRE(launch_test::soon([&] { return server.load().connections == 1; }));
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // the child ends with the test, even if the test fails
    ::close(client);
    ::pause();
    ::_exit(0);
  }
  ::close(client);
  CHECK(launch_test::soon([&] { return server.load().connections == 0; }));
  std::this_thread::sleep_for(milliseconds(50));
  RemoteStore other("127.0.0.1", server.port(), seconds(5));
  other.set("key", "value");
  CHECK(launch_test::soon([&] { return server.get("key") == "value"; }));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

TEST_CASE("a client that went away while it waited is not woken") {
  std::vector<int> woken;
  store::Table table([&](int client) { woken.push_back(client); });
  std::string wait = greeting();
  store::append(wait, store::Query::kWait);
  store::append(wait, uint64_t{2});
  store::append_text(wait, "/a");
  store::append_text(wait, "/b");
  std::string answers;
  for (const int client : {1, 2}) REQUIRE(table.serve(client, wait, answers) == wait.size());
  CHECK(answers.empty());
  table.forget(1);
  table.set("/a", "");
  CHECK(woken.empty());
  table.set("/b", "");
  CHECK(woken == std::vector<int>{2});
}

}  // namespace am::launch
