#include "am/control/frame.h"

#include <catch2/catch.hpp>
#include <string>

#include "am/base/error.h"
#include "am/base/text.h"

namespace am::control {
namespace {

std::string length_bytes(uint32_t length) {
  std::string bytes;
  for (int i = 0; i < 4; ++i) bytes.push_back(static_cast<char>((length >> (8 * i)) & 0xff));
  return bytes;
}

TEST_CASE("frames come whole out of bytes that come one by one") {
  FrameReader reader(100, FrameReader::Begins::kWithMagic);
  const std::string stream = cat(kMagic, to_frame("{}"), to_frame(""), to_frame("[1]"));
  std::vector<std::string> frames;
  for (const char byte : stream) {
    REQUIRE(reader.add({&byte, 1}));
    while (auto text = reader.next()) frames.push_back(*text);
  }
  CHECK(frames == std::vector<std::string>{"{}", "", "[1]"});
}

TEST_CASE("what begins with another byte is no frame, at that byte") {
  for (const std::string_view wrong :
       {std::string_view("GET / HTTP/1.1\r\n"), std::string_view("\x16\x03\x01"),
        std::string_view("SSH-2.0"), std::string_view("AMRPC\0\0\2", 8)}) {
    FrameReader reader(100, FrameReader::Begins::kWithMagic);
    CHECK_FALSE(reader.add(wrong));
    CHECK_FALSE(reader.add(kMagic));  // still invalid after correct bytes
  }
  FrameReader reader(100, FrameReader::Begins::kWithMagic);
  CHECK(reader.add("AMR"));
  CHECK_FALSE(reader.add("X"));
}

TEST_CASE("a length that is too long breaks the stream, wherever it stands") {
  FrameReader first(100);
  CHECK_FALSE(first.add(length_bytes(101)));
  FrameReader most(100);
  CHECK(most.add(length_bytes(100)));
  CHECK_FALSE(most.next());
  FrameReader second(100);
  CHECK(second.add(to_frame("a") + length_bytes(0xffffffff)));
  CHECK(second.next() == "a");
  CHECK_FALSE(second.next());
  CHECK_FALSE(second.add({}));
}

TEST_CASE("a reply that is too long for a frame comes in parts") {
  const auto send = [](const Json& reply) {
    FrameReader reader(kLargestFromJob);
    ReplyReader whole;
    std::optional<Json> got;
    size_t frames = 0;
    for (const std::string& frame : reply_frames(7, reply)) {
      CHECK(frame.size() <= kLargestFromJob + 4);
      REQUIRE(reader.add(frame));
      const auto message = parse_message(*reader.next());
      REQUIRE(message);
      CHECK(message->at("id") == 7);
      CHECK_FALSE(got);
      got = whole.add(*message);
      ++frames;
    }
    REQUIRE(got);
    return std::pair(*got, frames);
  };
  const Json small = {{"text", "\"é\n"}};
  CHECK(send(small) == std::pair(small, size_t{1}));
  std::string text;
  while (text.size() < 3 * kLargestFromJob / 2) text += "\"\\é 0.125\n";
  const Json large = {{"text", text}};
  const auto [got, frames] = send(large);
  CHECK(got == large);
  CHECK(frames > 2);
}

TEST_CASE("a reply beyond all measure is an error that says so") {
  const Json reply = {{"text", std::string(9 << 20, 'x')}};
  const auto frames = reply_frames(1, reply, 1 << 20);
  REQUIRE(frames.size() == 1);
  CHECK(frames[0].find("the limit for a job's answer is 1048576") != std::string::npos);
  CHECK(reply_frames(1, reply).size() > 1);
}

TEST_CASE("parts that are missing, empty or no parts are errors") {
  for (const char* message :
       {R"({"id":1})", R"({"id":1,"part":1,"last":true,"reply":{}})",
        R"({"id":1,"part":0,"last":true})", R"({"id":1,"part":0,"last":true,"piece":"{"})",
        R"({"id":1,"part":"0","last":true,"reply":{}})"}) {
    ReplyReader reader;
    CHECK_THROWS_AS(reader.add(*parse_message(message)), Error);
  }
}

TEST_CASE("messages of strangers are objects of some depth, or nothing") {
  CHECK(parse_message("{\"id\": 1}"));
  for (const std::string& wrong :
       {std::string("[]"), std::string("{"), std::string(), std::string("\0\0", 2),
        cat("{\"a\":", std::string(1000, '['), std::string(1000, ']'), "}")}) {
    CHECK_FALSE(parse_message(wrong));
  }
}

}  // namespace
}  // namespace am::control
