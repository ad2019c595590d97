#include "am/launch/supervise/background_output.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <chrono>
#include <regex>
#include <string>
#include <thread>

using am::launch::BackgroundOutput;
using namespace std::chrono_literals;

namespace {

struct Pipe {
  Pipe() { REQUIRE(::pipe(fds.data()) == 0); }
  ~Pipe() {
    close_reader();
    ::close(fds[1]);
  }
  void close_reader() {
    if (fds[0] >= 0) ::close(fds[0]);
    fds[0] = -1;
  }
  // Reads until `size` bytes have arrived or the pipe has no more, and returns the bytes.
  std::string read(size_t size) const {
    std::string text(size, '\0');
    size_t have = 0;
    while (have < size) {
      const ssize_t count = ::read(fds[0], text.data() + have, size - have);
      if (count <= 0) break;
      have += static_cast<size_t>(count);
    }
    text.resize(have);
    return text;
  }
  std::array<int, 2> fds = {-1, -1};
};

// The output that a reader received, in numbers.
struct Heard {
  size_t shown = 0;   // x characters that arrived
  size_t missed = 0;  // bytes that the notes "[N bytes were not shown]" report
  size_t gaps = 0;    // notes; each gap has one
  std::string rest;   // text other than x characters and notes
};

Heard listen(std::string text) {
  Heard heard;
  const std::regex note(R"(\[(\d+) bytes were not shown\]\n)");
  for (std::smatch found; std::regex_search(text, found, note);
       text.erase(found.position(), found.length())) {
    heard.missed += std::stoul(found[1]);
    ++heard.gaps;
  }
  heard.shown = static_cast<size_t>(std::count(text.begin(), text.end(), 'x'));
  std::erase(text, 'x');
  heard.rest = text;
  return heard;
}

}  // namespace

TEST_CASE("text arrives whole and in order") {
  const Pipe pipe;
  BackgroundOutput output(pipe.fds[1]);
  output.write("one ");
  output.write("two\n");
  CHECK(output.flush(5s));
  CHECK(pipe.read(8) == "one two\n");
}

TEST_CASE("a reader that pauses holds up nobody, and hears what it missed") {
  const bool nonblocking = GENERATE(false, true);
  const bool thread_wakes = GENERATE(false, true);  // whether the writer thread has time to write
  const Pipe pipe;
  if (nonblocking) ::fcntl(pipe.fds[1], F_SETFL, O_NONBLOCK);
  ::fcntl(pipe.fds[1], F_SETPIPE_SZ, 4096);
  BackgroundOutput output(pipe.fds[1], 8192);
  const std::string kilobyte(1024, 'x');
  for (int i = 0; i < 100; ++i) {  // more than the pipe and the buffer can store
    if (thread_wakes && i == 50) std::this_thread::sleep_for(20ms);
    output.write(kilobyte);
  }
  CHECK_FALSE(output.flush(20ms));
  const size_t at_most = 4096 + 2 * 8192;
  std::string seen;
  while (!output.flush(1ms)) seen += pipe.read(1024);
  ::fcntl(pipe.fds[0], F_SETFL, O_NONBLOCK);
  seen += pipe.read(at_most);
  output.write("again\n");
  CHECK(output.flush(5s));
  seen += pipe.read(at_most);
  // The writer thread wrote once or twice during the 100 calls, so there are one or two gaps, each
  // with a note. The output and the gaps together account for every byte.
  CHECK(seen.size() < at_most + 200);
  const Heard heard = listen(seen);
  CHECK(heard.gaps >= 1);
  CHECK(heard.gaps <= 2);
  CHECK(heard.shown + heard.missed == 100 * 1024);
  CHECK(heard.rest == "again\n");
}

TEST_CASE("a reader that has gone is no error and raises no signal") {
  Pipe pipe;
  BackgroundOutput output(pipe.fds[1]);
  pipe.close_reader();
  output.write("to nobody\n");
  CHECK(output.flush(5s));
  output.write("again\n");
  CHECK(output.flush(5s));
}

TEST_CASE("the object may go while its write is stuck") {
  const Pipe pipe;
  ::fcntl(pipe.fds[1], F_SETPIPE_SZ, 4096);
  {
    BackgroundOutput output(pipe.fds[1]);
    output.write(std::string(100000, 'x'));
    CHECK_FALSE(output.flush(20ms));
  }
  CHECK(pipe.read(100000).size() == 100000);
}
