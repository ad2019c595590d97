// Tests the status line of a job on a terminal.
#include "am/observe/status_line.h"

#include <catch2/catch.hpp>

#include "am/base/text.h"

namespace am::observe {
namespace {

std::string step_line(int step, double loss) {
  return cat(
      "step ", step, "/300 | loss ", loss,
      " | norm 1.204 | lr 1.00e-03 | 212 ms | 19.3k tok/s (9.7k/rank) | experts 0.50-2.00x | "
      "mem 412.50 MiB | eta 0:01:01");
}

// Returns the lines that a terminal shows after it receives `bytes`: \r returns to the beginning of
// the line, and ESC[K clears the rest of the line.
std::vector<std::string> screen(const std::string& bytes) {
  std::vector<std::string> lines = {""};
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] == '\n') {
      lines.emplace_back();
    } else if (bytes.compare(i, 4, "\r\x1b[K") == 0) {
      lines.back().clear();
      i += 3;
    } else {
      lines.back() += bytes[i];
    }
  }
  return lines;
}

}  // namespace

TEST_CASE("step lines are drawn in place, other lines scroll above") {
  StatusLine status({.unicode = true, .width = 100});
  std::string out = status.pass("mesh        dp_shard 2\nste");
  out += status.pass(step_line(1, 4.5).substr(3) + "\n");
  out += status.pass(step_line(2, 3.5) + "\ncheckpoint  step-2\n" + step_line(3, 2.5) + "\n");
  out += status.beside("restart 1 of 3\n");
  out += status.finish();
  const auto lines = screen(out);
  REQUIRE(lines.size() == 5);
  CHECK(lines[0] == "mesh        dp_shard 2");
  CHECK(lines[1] == "checkpoint  step-2");
  CHECK(lines[2] == "restart 1 of 3");
  CHECK(starts_with(lines[3], "step 3/300  loss 2.5 █▅▁  norm 1.204  "));
  CHECK(lines[4].empty());
  CHECK(status.finish().empty());
}

TEST_CASE("other lines are wrapped between words, under their text") {
  const std::string data =
      "data        text: 3 files of 12.1 MB through the tokenizer gpt2, 2 048 samples of 512";
  const std::string help = "help: set data.tokenizer to a tokenizer.json whose vocabulary fits";
  for (const auto& [line, indent] : {std::pair(data, 12), std::pair(help, 6)}) {
    StatusLine status({.width = 40});
    std::vector<std::string> lines = split(status.pass(line + "\n"), '\n');
    CHECK(lines.back().empty());
    lines.pop_back();
    REQUIRE(lines.size() > 1);
    std::string whole = lines.front();
    for (size_t i = 0; i < lines.size(); ++i) {
      INFO(lines[i]);
      CHECK(term::visible_width(lines[i]) <= 40);
      if (i == 0) continue;
      CHECK(static_cast<int>(lines[i].find_first_not_of(' ')) == indent);
      whole += cat(" ", trim(lines[i]));
    }
    CHECK(whole == line);
  }
}

TEST_CASE("the status line fits the window, and keeps step, loss and time left the longest") {
  const std::vector<double> losses(60, 4.0);
  for (int width = 40; width <= 200; ++width) {
    for (const bool unicode : {false, true}) {
      const std::string line =
          fitted_step_line(step_line(12, 4.8137), losses, {.unicode = unicode, .width = width});
      INFO(width << " " << line);
      CHECK(term::visible_width(line) < width);
      CHECK(starts_with(line, "step 12/300  loss 4.8137"));
      if (width >= 80) {
        for (const char* part : {"norm 1.204", "19.3k tok/s", "mem 41", "eta 1:01"}) {
          CHECK(line.find(part) != std::string::npos);
        }
      }
    }
  }
  CHECK(fitted_step_line("data        text: 3 files", losses, {}).empty());
}

}  // namespace am::observe
