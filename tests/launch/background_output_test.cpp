#include "am/launch/background_output.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <chrono>
#include <string>

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
  // Until so many bytes came.
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
  const Pipe pipe;
  if (nonblocking) ::fcntl(pipe.fds[1], F_SETFL, O_NONBLOCK);
  ::fcntl(pipe.fds[1], F_SETPIPE_SZ, 4096);
  BackgroundOutput output(pipe.fds[1], 8192);
  const std::string kilobyte(1024, 'x');
  for (int i = 0; i < 100; ++i) output.write(kilobyte);  // more than pipe and buffer hold
  CHECK_FALSE(output.flush(20ms));
  const size_t at_most = 4096 + 2 * 8192;
  std::string seen;
  while (!output.flush(1ms)) seen += pipe.read(1024);
  ::fcntl(pipe.fds[0], F_SETFL, O_NONBLOCK);
  seen += pipe.read(at_most);
  output.write("again\n");
  CHECK(output.flush(5s));
  seen += pipe.read(at_most);
  CHECK(seen.size() < at_most + 100);
  const size_t note = seen.find('[');
  REQUIRE(note != std::string::npos);
  CHECK(seen.substr(note) ==
        "[" + std::to_string(100 * 1024 - note) + " bytes were not shown]\nagain\n");
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
