#include "am/formats/safetensors.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstring>

#include "am/base/error.h"
#include "am/base/text.h"
#include "support/folders.h"

using namespace am;
using namespace am::formats;
namespace fs = std::filesystem;

namespace {

fs::path scratch_file() {
  return fs::temp_directory_path() / cat("am_safetensors_test_", ::getpid());
}

// Returns the bytes of a safetensors file with this header and `data_size` bytes of data.
std::string file_bytes(const std::string& header, size_t data_size) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>(header.size() >> (8 * i) & 0xFF);
  return bytes + header + std::string(data_size, '\x01');
}

SafetensorsFile open_bytes(const std::string& bytes) {
  const fs::path path = scratch_file();
  write_file_atomically(path, bytes);
  return SafetensorsFile::open(path);
}

// Returns the error message for a file of these bytes, without the file name. Returns "accepted" if
// the file is valid.
std::string problem(const std::string& bytes) {
  try {
    open_bytes(bytes);
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::kFormat);
    const std::string prefix = scratch_file().string() + ": not a valid safetensors file: ";
    const std::string what = error.what();
    REQUIRE(starts_with(what, prefix));
    return what.substr(prefix.size());
  }
  return "accepted";
}

std::string entry(const char* name, const char* dtype, const char* shape, const char* offsets) {
  return cat('"', name, "\":{\"dtype\":\"", dtype, "\",\"shape\":", shape,
             ",\"data_offsets\":", offsets, "}");
}

std::span<const std::byte> as_bytes(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

}  // namespace

TEST_CASE("what is written is read back") {
  const fs::path path = scratch_file();
  {
    SafetensorsWriter writer(path,
                             {{"b", "F32", {2, 3}}, {"a", "BF16", {}}, {"none", "I64", {0, 7}}},
                             {{"format", "pt"}});
    writer.write(as_bytes(std::string(10, 'x')));
    writer.write(as_bytes(std::string(14, 'y')));
    writer.write(as_bytes("zz"));
    writer.close();
  }
  const SafetensorsFile file = SafetensorsFile::open(path);
  REQUIRE(file.entries().size() == 3);
  CHECK(file.entries()[0].name == "b");
  CHECK(file.entries()[0].shape == Shape{2, 3});
  CHECK(file.metadata().at("format") == "pt");
  const SafetensorsEntry* a = file.find("a");
  REQUIRE(a != nullptr);
  CHECK(a->dtype == "BF16");
  CHECK(a->shape.empty());
  CHECK(std::memcmp(file.data(*a).data(), "zz", 2) == 0);
  CHECK(file.data(*file.find("none")).empty());
  CHECK(file.find("c") == nullptr);
  // The data begins at a file offset that is a multiple of 8.
  CHECK((file.data(file.entries()[0]).data() - file.file()->bytes().data()) % 8 == 0);
  fs::remove(path);
}

TEST_CASE("a writer whose bytes do not match its header says so") {
  const fs::path path = scratch_file();
  SafetensorsWriter writer(path, {{"a", "F32", {2}}}, {});
  CHECK_THROWS_AS(writer.write(as_bytes("123456789")), Error);
  writer.write(as_bytes("1234"));
  CHECK_THROWS_AS(writer.close(), Error);
  using Items = std::vector<SafetensorsItem>;
  CHECK_THROWS_AS(SafetensorsWriter(path, Items{{"a", "F32", {}}, {"a", "F32", {}}}, {}), Error);
  CHECK_THROWS_AS(SafetensorsWriter(path, Items{{"a", "FLOAT", {}}}, {}), Error);
  fs::remove(path);
}

TEST_CASE("dtypes of less than a byte are refused by name") {
  const struct {
    const char* dtype;
    const char* offsets;
    size_t size;
  } packed[] = {{"F4", "[0,4]", 4}, {"F6_E2M3", "[0,6]", 6}, {"F6_E3M2", "[0,6]", 6}};
  for (const auto& each : packed) {
    try {
      open_bytes(file_bytes("{" + entry("w", each.dtype, "[8]", each.offsets) + "}", each.size));
      FAIL(each.dtype);
    } catch (const Error& error) {
      const std::string what = error.what();
      CHECK(what.find(cat("tensor \"w\" is ", each.dtype,
                          ", a packed format of less than one byte")) != std::string::npos);
      CHECK(error.hint().find("cut off") == std::string::npos);
    }
  }
}

TEST_CASE("headers that lie are told apart, each by one clear message") {
  CHECK(problem("") == "truncated: 0 bytes cannot hold the header's length");
  CHECK(problem("1234567") == "truncated: 7 bytes cannot hold the header's length");
  CHECK(problem(std::string(8, '\xff') + "{}").find("claim a header of 18446744073709551615") !=
        std::string::npos);
  CHECK(problem(file_bytes("{}      ", 0).substr(0, 12)) ==
        "truncated: the header has 8 bytes, but only 4 bytes follow its length");
  CHECK(problem(file_bytes("{]", 0)).find("the header is not JSON") == 0);
  CHECK(problem(file_bytes("[1]", 0)) == "the header is not a JSON object");
  CHECK(problem(file_bytes("{\"__metadata__\":{\"a\":1}}", 0)).find("__metadata__") == 0);
  CHECK(problem(file_bytes("{\"__metadata__\":3}", 0)).find("__metadata__") == 0);
  CHECK(problem(file_bytes("{\"a\":3}", 0)) == "tensor \"a\": its entry is not a JSON object");
  CHECK(problem(file_bytes("{\"a\":{\"dtype\":\"F32\",\"shape\":[]}}", 4)) ==
        "tensor \"a\": its entry has no \"data_offsets\"");

  const auto one = [](const char* dtype, const char* shape, const char* offsets, size_t size) {
    return problem(file_bytes("{" + entry("a", dtype, shape, offsets) + "}", size));
  };
  CHECK(one("F32", "[2]", "[0,8]", 8) == "accepted");
  CHECK(one("F33", "[2]", "[0,8]", 8) == "tensor \"a\": unknown dtype \"F33\"");
  for (const char* narrow : {"F8_E4M3", "F8_E5M2", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ"}) {
    CHECK(one(narrow, "[8]", "[0,8]", 8) == "accepted");
  }
  CHECK(one("F32", "2", "[0,8]", 8) == "tensor \"a\": its shape is not an array");
  CHECK(one("F32", "[-2]", "[0,8]", 8).find("shape holds -2") != std::string::npos);
  CHECK(one("F32", "[2.0]", "[0,8]", 8).find("shape holds 2.0") != std::string::npos);
  CHECK(one("F32", "[[2]]", "[0,8]", 8).find("shape holds an array") != std::string::npos);
  CHECK(one("F32", "[2]", "[0]", 8) == "tensor \"a\": data_offsets is not a pair");
  CHECK(one("F32", "[2]", "[8,0]", 8).find("ends before it begins") != std::string::npos);
  CHECK(one("F32", "[3]", "[0,8]", 8).find("F32 of shape [3] takes 12") != std::string::npos);
  CHECK(one("F32", "[4611686018427387904,4]", "[0,0]", 0).find("more than 2^64 bytes") !=
        std::string::npos);
  CHECK(one("F32", "[2]", "[0,8]", 7).find("truncated: its data ends at byte 8") !=
        std::string::npos);
  CHECK(one("F32", "[2]", "[4,12]", 12).find("4 bytes before its data") != std::string::npos);
  CHECK(one("F32", "[2]", "[0,8]", 9) == "1 bytes after the last tensor belong to no tensor");
  CHECK(one("F32", "[2]", "[0,18446744073709551616]", 8).find("not a whole number") !=
        std::string::npos);
}

TEST_CASE("tensors that overlap or appear twice are refused") {
  const std::string a = entry("a", "U8", "[4]", "[0,4]");
  CHECK(problem(file_bytes(cat("{", a, ",", entry("b", "U8", "[4]", "[2,6]"), "}"), 6)) ==
        "tensor \"b\": its data overlaps another tensor's");
  CHECK(problem(file_bytes(cat("{", a, ",", entry("a", "U8", "[4]", "[4,8]"), "}"), 8)) ==
        "tensor \"a\": the header names it twice");
}

TEST_CASE("fields that stand twice or hold another kind of value are refused") {
  const auto entry_of = [](const std::string& fields) {
    return problem(file_bytes(cat("{\"a\":{", fields, "}}"), 4));
  };
  const std::string whole = R"("dtype":"F32","shape":[1],"data_offsets":[0,4])";
  CHECK(entry_of(whole) == "accepted");
  CHECK(entry_of(whole + R"(,"more":{"any":[1,"x",null]})") == "accepted");
  CHECK(entry_of(whole + R"(,"dtype":"U8")") == "tensor \"a\": its entry has \"dtype\" twice");
  CHECK(entry_of(whole + R"(,"shape":[4])") == "tensor \"a\": its entry has \"shape\" twice");
  CHECK(entry_of(R"("dtype":4)") == "tensor \"a\": its dtype is not text");
  CHECK(entry_of(R"("dtype":["F32"])") == "tensor \"a\": its dtype is not text");
  CHECK(entry_of(R"("shape":{"0":1})") == "tensor \"a\": its shape is not an array");
  CHECK(entry_of(R"("data_offsets":{"0":1})") == "tensor \"a\": data_offsets is not a pair");
  CHECK(entry_of(R"("data_offsets":[0,4,8])") == "tensor \"a\": data_offsets is not a pair");
  CHECK(entry_of(R"("data_offsets":[0,"4"])").find("data_offsets holds \"4\"") !=
        std::string::npos);
  CHECK(entry_of(R"("shape":[true])").find("shape holds true") != std::string::npos);
  CHECK(problem(file_bytes(R"({"__metadata__":{"a":"b"},"__metadata__":{}})", 0)) ==
        "tensor \"__metadata__\": the header names it twice");
  CHECK(problem(file_bytes(R"({"__metadata__":{"a":{}}})", 0)) ==
        "__metadata__: the value of \"a\" is not text");
  CHECK(problem(file_bytes("3", 0)) == "the header is not a JSON object");
}

TEST_CASE("a tensor of more dims than any operator takes is refused") {
  const auto of_dims = [](int dims) {
    std::string shape = "[1";
    for (int i = 1; i < dims; ++i) shape += ",1";
    return problem(file_bytes("{" + entry("a", "U8", (shape + "]").c_str(), "[0,1]") + "}", 1));
  };
  CHECK(of_dims(64) == "accepted");
  CHECK(of_dims(65) == "tensor \"a\": its shape has more than 64 dims");
  CHECK(of_dims(100'000) == "tensor \"a\": its shape has more than 64 dims");
}

TEST_CASE("a header of brackets alone neither crashes nor takes long") {
  CHECK(problem(file_bytes(std::string(1 << 20, '['), 0)) == "the header is nested too deeply");
  CHECK(problem(file_bytes(cat("{\"a\":", std::string(1 << 20, '[')), 0)) ==
        "tensor \"a\": its entry is not a JSON object");
  CHECK(problem(file_bytes(cat("{\"a\":{\"b\":", std::string(1 << 20, '[')), 0)) ==
        "the header is nested too deeply");
}

TEST_CASE("every flipped byte and every truncation is an error or a valid file") {
  const std::string good =
      file_bytes(cat("{\"__metadata__\":{\"format\":\"pt\"},", entry("a", "F32", "[2,2]", "[0,16]"),
                     ",", entry("b", "BF16", "[3]", "[16,22]"), "}"),
                 22);
  const auto survives = [](const std::string& bytes) {
    try {
      const SafetensorsFile file = open_bytes(bytes);
      for (const SafetensorsEntry& each : file.entries()) {
        const auto data = file.data(each);
        if (!data.empty()) REQUIRE(&data.back() <= &file.file()->bytes().back());
      }
      return true;
    } catch (const Error& error) {
      REQUIRE(error.kind() == ErrorKind::kFormat);
      return false;
    }
  };
  REQUIRE(survives(good));
  for (size_t length = 0; length < good.size(); ++length) {
    CHECK_FALSE(survives(good.substr(0, length)));
  }
  const size_t data_begin = good.size() - 22;
  for (size_t i = 0; i < data_begin; ++i) {
    for (const int flip : {0x01, 0x02, 0x10, 0x20, 0x80, 0xFF}) {
      std::string bytes = good;
      bytes[i] = static_cast<char>(bytes[i] ^ flip);
      survives(bytes);
    }
  }
  fs::remove(scratch_file());
}

TEST_CASE("a missing file is an input error, not a format error") {
  try {
    SafetensorsFile::open("/no/such/model.safetensors");
    FAIL("opened");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::kIo);
    CHECK(std::string(error.what()).find("/no/such/model.safetensors") == 0);
  }
}

TEST_CASE("files that safetensors' own writer made are read") {
  const fs::path path = fs::path(am::test::kDataFolder) / "hf/llama/model.safetensors";
  const SafetensorsFile file = SafetensorsFile::open(path);
  CHECK(file.entries().size() > 10);
  CHECK(file.find("model.embed_tokens.weight") != nullptr);
}
