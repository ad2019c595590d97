// Runs a target without libFuzzer, on every seed and on reproducible mutations of the seeds.
//
//   fuzz_NAME FOLDER [MUTATIONS]      the files in FOLDER are the seeds; 500 mutations by default
//
// An input that takes longer than ten seconds ends the program by SIGALRM.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "target.h"

namespace {

using Bytes = std::string;

constexpr std::array<const char*, 14> kTokens = {
    "0", "-1", "1000000000", "1000000000000", "9223372036854775807", "1e309", "nan", "true",
    "[", "{",  "\"",         "\xff\xfe",      "\n[mesh]\n",          "1.5"};

Bytes read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class Mutator {
 public:
  explicit Mutator(unsigned seed) : random_(seed) {}

  Bytes operator()(Bytes bytes, const Bytes& other) {
    const size_t times = 1 + below(3);
    for (size_t i = 0; i < times; ++i) {
      const size_t at = below(bytes.size() + 1);
      switch (below(6)) {
        case 0:  // replace a byte
          if (at < bytes.size()) bytes[at] = static_cast<char>(below(256));
          break;
        case 1:  // remove a part
          bytes.erase(at, below(16));
          break;
        case 2:  // truncate
          bytes.resize(at);
          break;
        case 3:
          bytes.insert(at, kTokens[below(kTokens.size())]);
          break;
        case 4:  // replace a number
          replace_number(bytes, at);
          break;
        case 5:  // insert a part of another seed
          bytes.insert(at, other.substr(below(other.size() + 1), below(64)));
          break;
      }
    }
    return bytes;
  }
  size_t below(size_t limit) { return limit == 0 ? 0 : random_() % limit; }

 private:
  void replace_number(Bytes& bytes, size_t at) {
    const size_t start = bytes.find_first_of("0123456789", at);
    if (start == Bytes::npos) return;
    const size_t end = std::min(bytes.find_first_not_of("0123456789", start), bytes.size());
    bytes.replace(start, end - start, kTokens[below(8)]);
  }

  std::mt19937 random_;
};

void run(const Bytes& bytes) {
  ::alarm(10);
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  ::alarm(0);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::cerr << "usage: " << argv[0] << " FOLDER [MUTATIONS]\n";
    return 2;
  }
  const size_t mutations = argc > 2 ? std::strtoul(argv[2], nullptr, 10) : 500;
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(argv[1])) {
    files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  if (files.empty()) {
    std::cerr << argv[1] << ": no seeds\n";
    return 2;
  }
  std::vector<Bytes> seeds;
  for (const auto& file : files) seeds.push_back(read(file));
  for (const Bytes& seed : seeds) run(seed);
  Mutator mutate(1);
  for (size_t i = 0; i < mutations; ++i) {
    run(mutate(seeds[i % seeds.size()], seeds[mutate.below(seeds.size())]));
  }
  std::cout << seeds.size() << " seeds, " << mutations << " mutations\n";
  return 0;
}
