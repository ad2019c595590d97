#include "am/data/tokenizer.h"

#include <catch2/catch.hpp>

#include "am/base/error.h"

using namespace am::data;

TEST_CASE("bytes: one token a byte, any byte") {
  const auto tokenizer = make_tokenizer("bytes");
  CHECK(tokenizer->vocab_size() == 256);
  CHECK(tokenizer->name() == "bytes");
  CHECK(tokenizer->encode("Hi") == std::vector<int64_t>{72, 105});
  CHECK(tokenizer->encode("").empty());
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  CHECK(tokenizer->decode(tokenizer->encode(all)) == all);
}

TEST_CASE("bytes: ids outside the vocabulary give nothing") {
  const auto tokenizer = make_tokenizer("bytes");
  CHECK(tokenizer->decode(std::vector<int64_t>{256, 72, -1, int64_t{1} << 40}) == "H");
}

TEST_CASE("a tokenizer that is no file is an error that names it") {
  CHECK_THROWS_WITH(make_tokenizer("byte"), Catch::Contains("byte"));
}
