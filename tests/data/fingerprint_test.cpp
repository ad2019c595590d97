#include "am/data/fingerprint.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <numeric>

#include "support/temporary_folder.h"

using namespace am;
using namespace am::data;

namespace {

template <typename T>
std::string fingerprint_of(const TemporaryFolder& folder, const std::vector<int>& tokens,
                           const std::string& dtype) {
  const std::vector<T> values(tokens.begin(), tokens.end());
  std::ofstream(folder / "t.bin", std::ios::binary)
      .write(reinterpret_cast<const char*>(values.data()),
             static_cast<std::streamsize>(values.size() * sizeof(T)));
  DataSpec spec;
  spec.kind = "tokens";
  spec.paths = {folder / "t.bin"};
  spec.token_dtype = dtype;
  spec.vocab_size = 65536;
  return fingerprint(*open_token_source(spec));
}

std::vector<int> counting(size_t size) {
  std::vector<int> tokens(size);
  std::iota(tokens.begin(), tokens.end(), 0);
  return tokens;
}

}  // namespace

TEST_CASE("tokens have the same fingerprint however they are stored") {
  const TemporaryFolder folder;
  for (const size_t size : {1, 5, 31, 32, 33, 64, 1000, 50000}) {
    INFO(size);
    const auto tokens = counting(size);
    const std::string narrow = fingerprint_of<uint16_t>(folder, tokens, "uint16");
    CHECK(narrow.size() == 16);
    CHECK(fingerprint_of<uint32_t>(folder, tokens, "uint32") == narrow);
    CHECK(fingerprint_of<uint16_t>(folder, counting(size + 1), "uint16") != narrow);
  }
}

TEST_CASE("other tokens have another fingerprint: all of a short file, the ends of a long one") {
  const TemporaryFolder folder;
  const auto with = [&](size_t size, size_t place) {
    auto tokens = counting(size);
    tokens[place] ^= 1;
    return fingerprint_of<uint16_t>(folder, tokens, "uint16");
  };
  const std::string small = fingerprint_of<uint16_t>(folder, counting(1000), "uint16");
  for (size_t place = 0; place < 1000; ++place) CHECK(with(1000, place) != small);
  const std::string large = fingerprint_of<uint16_t>(folder, counting(50000), "uint16");
  CHECK(with(50000, 0) != large);
  CHECK(with(50000, 49999) != large);
}
