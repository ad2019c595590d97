#include "am/data/token_source.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <fstream>
#include <numeric>

#include "am/base/error.h"
#include "am/base/map_guard.h"
#include "am/base/text.h"
#include "am/data/batch.h"
#include "support/temporary_folder.h"

using namespace am;
using namespace am::data;
namespace fs = std::filesystem;

namespace {

void write_bytes(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

template <typename T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

DataSpec spec_of(const std::string& kind, std::vector<fs::path> paths, int64_t vocab_size = 65536) {
  DataSpec spec;
  spec.kind = kind;
  spec.paths = std::move(paths);
  spec.vocab_size = vocab_size;
  return spec;
}

std::vector<int64_t> tokens_of(const TokenSource& source, int64_t first, int64_t count) {
  std::vector<int64_t> tokens(static_cast<size_t>(count));
  source.read(first, tokens);
  return tokens;
}

std::vector<int64_t> all_tokens(const DataSpec& spec) {
  const auto source = open_token_source(spec);
  return tokens_of(*source, 0, source->size());
}

// Opens a source and reads it completely. Returns the kind and the text of the error.
std::pair<ErrorKind, std::string> failure(const DataSpec& spec) {
  try {
    all_tokens(spec);
  } catch (const Error& error) {
    return {error.kind(), error.what()};
  }
  FAIL("no error");
  return {};
}

// Returns Megatron's index for sequences of these lengths.
std::string megatron_index(uint8_t type, int64_t width, const std::vector<int32_t>& lengths) {
  std::vector<int64_t> offsets;
  int64_t offset = 0;
  for (const int32_t length : lengths) {
    offsets.push_back(offset);
    offset += length * width;
  }
  const std::vector<uint64_t> counts = {lengths.size(), 1};
  return std::string("MMIDIDX\0\0", 9) + bytes_of(std::vector<uint64_t>{1}) +
         static_cast<char>(type) + bytes_of(counts) + bytes_of(lengths) + bytes_of(offsets) +
         bytes_of(std::vector<int64_t>{0});
}

}  // namespace

TEST_CASE("tokens whose file becomes smaller are an error with its name", "[data]") {
  guard_mapped_files();
  const TemporaryFolder folder;
  const auto path = folder / "tokens.bin";
  write_bytes(path, bytes_of(std::vector<uint16_t>(100'000, 7)));
  const auto source = open_token_source(spec_of("tokens", {path}));
  CHECK(tokens_of(*source, 99'990, 10) == std::vector<int64_t>(10, 7));
  fs::resize_file(path, 4096);
  CHECK(tokens_of(*source, 0, 10) == std::vector<int64_t>(10, 7));
  CHECK_THROWS_WITH(tokens_of(*source, 99'990, 10),
                    Catch::Contains(path.string()) && Catch::Contains("became smaller"));
}

TEST_CASE("text by bytes") {
  const TemporaryFolder folder;
  write_bytes(folder / "a.txt", "Hi\n");
  write_bytes(folder / "b.txt", "\xff\x00z");
  CHECK(all_tokens(spec_of("text", {folder / "a.txt"}, 256)) == std::vector<int64_t>{72, 105, 10});
  CHECK(all_tokens(spec_of("text", {folder / "b.txt", folder / "a.txt"}, 256)).front() == 255);
  CHECK(all_tokens(spec_of("text", {folder.path()}, 256)).size() == 4);
}

TEST_CASE("tokens of both types, in several files") {
  const TemporaryFolder folder;
  write_bytes(folder / "a.bin", bytes_of<uint16_t>({1, 2, 65535}));
  write_bytes(folder / "b.bin", bytes_of<uint16_t>({4}));
  write_bytes(folder / "c.bin", bytes_of<uint16_t>({5, 6}));
  const auto source =
      open_token_source(spec_of("tokens", {folder / "a.bin", folder / "b.bin", folder / "c.bin"}));
  CHECK(source->size() == 6);
  CHECK(tokens_of(*source, 0, 6) == std::vector<int64_t>{1, 2, 65535, 4, 5, 6});
  CHECK(tokens_of(*source, 2, 3) == std::vector<int64_t>{65535, 4, 5});
  CHECK(tokens_of(*source, 3, 1) == std::vector<int64_t>{4});
  CHECK(tokens_of(*source, 5, 1) == std::vector<int64_t>{6});
  CHECK(tokens_of(*source, 6, 0).empty());
  CHECK_THROWS_AS(tokens_of(*source, 5, 2), Error);
  CHECK_THROWS_AS(tokens_of(*source, -1, 1), Error);
  CHECK_THAT(source->description(), Catch::Contains("a.bin and 2 more, 6 tokens"));

  DataSpec wide = spec_of("tokens", {folder / "w.bin"}, 4000000000);
  wide.token_dtype = "uint32";
  write_bytes(folder / "w.bin", bytes_of<uint32_t>({7, 3999999999}));
  CHECK(all_tokens(wide) == std::vector<int64_t>{7, 3999999999});
}

TEST_CASE("shards have the token type in their header") {
  const TemporaryFolder folder;
  const auto shard = [&](const std::string& name, std::vector<int32_t> first,
                         const std::string& tokens) {
    first.resize(256);
    write_bytes(folder / name, bytes_of(first) + tokens);
    return folder / name;
  };
  const std::string narrow = bytes_of<uint16_t>({1, 2, 65535});
  const std::string wide = bytes_of<uint32_t>({7, 3999999999});
  const std::vector<fs::path> paths = {
      shard("llm_c.bin", {20240520, 1, 3}, narrow), shard("llama3.bin", {20240801, 7, 2}, wide),
      shard("a.bin", {278895051, 1, 3, 2}, narrow), shard("b.bin", {278895051, 1, 2, 4}, wide)};
  CHECK(all_tokens(spec_of("tokens", paths, 4000000000)) ==
        std::vector<int64_t>{1, 2, 65535, 7, 3999999999, 1, 2, 65535, 7, 3999999999});
  const auto cut = shard("cut.bin", {278895051, 1, 3, 4}, wide);
  const auto [kind, text] = failure(spec_of("tokens", {cut}));
  CHECK(kind == ErrorKind::kFormat);
  CHECK(text.find("announces 3 tokens of 4 bytes, but 8 bytes follow") != std::string::npos);
}

TEST_CASE("a token beyond the vocabulary is named when it is read") {
  const TemporaryFolder folder;
  write_bytes(folder / "a.bin", bytes_of<uint16_t>({1, 2}));
  write_bytes(folder / "b.bin", bytes_of<uint16_t>({3, 4, 100}));
  const auto source =
      open_token_source(spec_of("tokens", {folder / "a.bin", folder / "b.bin"}, 100));
  CHECK(tokens_of(*source, 1, 3) == std::vector<int64_t>{2, 3, 4});
  CHECK_THROWS_WITH(
      tokens_of(*source, 3, 2),
      (folder / "b.bin").string() + ": token 2 is 100, but the model's vocab_size is 100");
}

TEST_CASE("Megatron's pair, by any of its names") {
  const TemporaryFolder folder;
  write_bytes(folder / "m.bin", bytes_of<int32_t>({1, 2, 3, 4, 5, 99}));  // 99 is not in m.idx
  write_bytes(folder / "m.idx", megatron_index(4, 4, {2, 3}));
  for (const char* name : {"m", "m.bin", "m.idx", "*.bin"}) {
    CHECK(all_tokens(spec_of("megatron", {folder / name})) == std::vector<int64_t>{1, 2, 3, 4, 5});
  }
  write_bytes(folder / "u.bin", bytes_of<uint16_t>({65000, 9}));
  write_bytes(folder / "u.idx", megatron_index(8, 2, {2}));
  CHECK(all_tokens(spec_of("megatron", {folder / "u"})) == std::vector<int64_t>{65000, 9});
  CHECK(all_tokens(spec_of("megatron", {folder.path()})).size() == 7);
}

TEST_CASE("a wrong Megatron pair is a clear error") {
  const TemporaryFolder folder;
  const DataSpec spec = spec_of("megatron", {folder / "m"});
  CHECK(failure(spec).first == ErrorKind::kIo);
  write_bytes(folder / "m.bin", bytes_of<int32_t>({1, 2, 3}));
  const auto message_with = [&](const std::string& index) {
    write_bytes(folder / "m.idx", index);
    const auto [kind, text] = failure(spec);
    CHECK(kind == ErrorKind::kFormat);
    return text;
  };
  const std::string good = megatron_index(4, 4, {2, 1});
  CHECK_THAT(message_with("nonsense"), Catch::EndsWith("not an index file of a Megatron dataset"));
  CHECK_THAT(message_with(good.substr(0, 50)), Catch::Contains("truncated"));
  for (const int code : {2, 7}) {  // int8 and float32
    CHECK_THAT(
        message_with(megatron_index(code, 4, {2, 1})),
        Catch::Contains(am::cat("data type ", code, " cannot hold tokens; legal: 1 (uint8)")));
  }
  CHECK_THAT(message_with(megatron_index(4, 4, {2, 9})), Catch::Contains("lists 11"));
  CHECK_THAT(message_with(megatron_index(4, 4, {})), Catch::Contains("no tokens"));
  CHECK_THAT(message_with(megatron_index(4, 8, {2, 1})),
             Catch::Contains("sequence 1 does not begin where"));
  CHECK_THAT(message_with(megatron_index(4, 4, {-1})), Catch::Contains("negative"));
  std::string version = good;
  version[9] = 2;
  CHECK_THAT(message_with(version), Catch::Contains("version 2"));
  std::string many = good;
  std::memset(many.data() + 18, 0xff, 8);
  CHECK_THAT(message_with(many), Catch::Contains("truncated"));
}

TEST_CASE("data that cannot be used is a clear error") {
  const TemporaryFolder folder;
  write_bytes(folder / "empty", "");
  write_bytes(folder / "odd.bin", "abc");
  const auto missing = failure(spec_of("tokens", {folder / "missing.bin"}));
  CHECK(missing.first == ErrorKind::kIo);
  CHECK_THAT(missing.second, Catch::Contains("missing.bin"));
  CHECK_THAT(failure(spec_of("tokens", {folder / "empty"})).second,
             Catch::EndsWith("the file is empty"));
  CHECK_THAT(failure(spec_of("text", {folder / "empty"})).second,
             Catch::EndsWith("the file is empty"));
  const auto odd = failure(spec_of("tokens", {folder / "odd.bin"}));
  CHECK(odd.first == ErrorKind::kFormat);
  CHECK_THAT(odd.second, Catch::Contains("3 bytes are not a whole number of tokens of 2 bytes"));
  CHECK_THAT(failure(spec_of("text", {})).second, Catch::Contains("needs data.path"));
  CHECK_THAT(failure(spec_of("parquet", {"x"})).second,
             Catch::Contains("\"parquet\" is not known"));
  DataSpec dtype = spec_of("tokens", {folder / "odd.bin"});
  dtype.token_dtype = "int8";
  CHECK_THAT(failure(dtype).second, Catch::Contains("\"int8\" is not known"));
  CHECK_THAT(failure(spec_of("synthetic", {}, 0)).second, Catch::Contains("needs a vocab_size"));
  write_bytes(folder / "text", "abc\xff");
  const auto vocabulary = failure(spec_of("text", {folder / "text"}, 128));
  CHECK(vocabulary.first == ErrorKind::kPlan);
  CHECK_THAT(vocabulary.second, Catch::Contains("gives the id 255") && Catch::Contains("is 128"));
}

TEST_CASE("synthetic tokens are a function of seed and position, within the vocabulary") {
  for (const int64_t vocab : {1, 2, 300, 512, 1000, 128256}) {
    DataSpec spec = spec_of("synthetic", {}, vocab);
    const auto source = open_token_source(spec);
    const auto all = tokens_of(*source, 0, 5000);
    CHECK(*std::min_element(all.begin(), all.end()) >= 0);
    CHECK(*std::max_element(all.begin(), all.end()) < vocab);
    CHECK(tokens_of(*source, 100, 200) ==
          std::vector<int64_t>(all.begin() + 100, all.begin() + 300));
    spec.seed = 1;
    if (vocab > 2) CHECK(tokens_of(*open_token_source(spec), 0, 5000) != all);
    // Large vocabularies are used over their full range.
    if (vocab > 2) CHECK(*std::max_element(all.begin(), all.end()) > vocab * 9 / 10 - 2);
  }
}

TEST_CASE("synthetic tokens can be learnt: two tokens tell the third") {
  const auto source = open_token_source(spec_of("synthetic", {}, 512));
  const auto all = tokens_of(*source, 0, 64 * 20);
  for (size_t i = 2; i < all.size(); ++i) {
    if (i % 64 < 2) continue;
    CHECK((all[i] - 2 * all[i - 1] + all[i - 2]) % 512 == 0);
  }
}

TEST_CASE("a batch holds inputs and labels one further") {
  const TemporaryFolder folder;
  std::vector<uint16_t> tokens(41);
  std::iota(tokens.begin(), tokens.end(), uint16_t{0});
  write_bytes(folder / "t.bin", bytes_of(tokens));
  const DataSpec spec = spec_of("tokens", {folder / "t.bin"});
  std::vector<DataSource> sources;
  sources.push_back({open_samples(spec, {.seq_len = 4})});
  CHECK(sources.front().samples->size() == 10);
  const BatchReader reader(std::move(sources), 4, {.shuffle = false});
  const Batch batch = reader.read_batch(5, 2);
  CHECK(batch.rows == 2);
  CHECK(batch.seq_len == 4);
  CHECK(batch.inputs == std::vector<int64_t>{20, 21, 22, 23, 24, 25, 26, 27});
  CHECK(batch.labels == std::vector<int64_t>{21, 22, 23, 24, 25, 26, 27, 28});
  CHECK(batch.positions == std::vector<int64_t>{0, 1, 2, 3, 0, 1, 2, 3});
  CHECK(reader.counted_labels(5, 2) == 8);
  // Position 10 wraps around to sample 0.
  CHECK(reader.read_batch(10, 1).inputs == std::vector<int64_t>{0, 1, 2, 3});
  BatchLayout layout;
  layout.micro_batch_size = 1;
  layout.dp_size = 2;
  layout.dp_index = 1;
  CHECK(reader.read_micro_batch(0, 1, layout).inputs == std::vector<int64_t>{12, 13, 14, 15});
  CHECK(reader.read_micro_batch(4, 1, layout).inputs == std::vector<int64_t>{28, 29, 30, 31});
}

TEST_CASE("positions start again after each document's last token") {
  const TemporaryFolder folder;
  write_bytes(folder / "t.bin", bytes_of(std::vector<uint16_t>{4, 9, 1, 2, 9, 7, 7, 9, 9, 7, 0}));
  const auto samples =
      open_samples(spec_of("tokens", {folder / "t.bin"}), {.seq_len = 5, .document_end = 9});
  SampleRow row(5);
  samples->read(0, row);
  CHECK(row.positions == std::vector<int64_t>{0, 1, 0, 1, 2});
  samples->read(1, row);
  CHECK(row.positions == std::vector<int64_t>{0, 1, 2, 0, 0});
}

TEST_CASE("data shorter than one sample names the data") {
  const TemporaryFolder folder;
  write_bytes(folder / "t.txt", "short");
  try {
    open_samples(spec_of("text", {folder / "t.txt"}, 256), {.seq_len = 5});
    FAIL("read");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::kPlan);
    CHECK_THAT(error.what(), Catch::Contains("the data has 5 tokens") && Catch::Contains("t.txt"));
  }
}

TEST_CASE("documents of text end with the token that the plan names") {
  const TemporaryFolder folder;
  write_bytes(folder / "a.txt", "ab");
  write_bytes(folder / "b.jsonl",
              "{\"text\": \"c\\nd\", \"id\": 1}\n\n{\"text\": \"\"}\n{\"text\": \"e\"}");
  DataSpec spec = spec_of("text", {folder.path()}, 300);
  CHECK(all_tokens(spec) == std::vector<int64_t>{'a', 'b', 'c', '\n', 'd', 'e'});
  CHECK(open_token_source(spec)->description().find("4 documents without a separator") !=
        std::string::npos);
  spec.eod_token = 299;
  CHECK(all_tokens(spec) ==
        std::vector<int64_t>{'a', 'b', 299, 'c', '\n', 'd', 299, 299, 'e', 299});
  spec.eod_token = 300;
  CHECK(failure(spec).first == ErrorKind::kPlan);
}

TEST_CASE("a document of 2 GiB is refused before it is tokenized") {
  const TemporaryFolder folder;
  const fs::path path = folder / "large.txt";
  write_bytes(path, "some text ");
  fs::resize_file(path, uint64_t{1} << 31);  // sparse
  const auto [kind, text] = failure(spec_of("text", {path}));
  CHECK(kind == ErrorKind::kFormat);
  CHECK_THAT(text, Catch::Contains("large.txt: the document has 2147483648 bytes"));
}

TEST_CASE("a line of a .jsonl without a text is an error that names it") {
  const TemporaryFolder folder;
  const auto failure_of = [&](const std::string& lines) {
    write_bytes(folder / "a.jsonl", lines);
    return failure(spec_of("text", {folder / "a.jsonl"}, 256)).second;
  };
  CHECK(failure_of("{\"text\": \"a\"}\n{\"messages\": []}\n")
            .find("a.jsonl:2: \"text\" is missing") != std::string::npos);
  CHECK(failure_of("{\"text\": 3}\n").find("a.jsonl:1:") != std::string::npos);
  CHECK(failure_of("plain\n").find("a.jsonl:1: the line is not JSON") != std::string::npos);
}

TEST_CASE("files of another format are not read as text") {
  const TemporaryFolder folder;
  const std::vector<std::pair<std::string, std::string>> formats = {
      {std::string("\x1f\x8b\x08\0", 4), "gzip"},
      {"ARROW1..", "Arrow"},
      {"PAR1....", "Parquet file has no footer"},
      {"\x93NUMPY\x01", "NumPy"},
      {std::string("\xfd"
                   "7zXZ\0",
                   6),
       "xz"},
      {"\x28\xb5\x2f\xfd...", "Zstandard"},
      {"PK\x03\x04..", "zip"},
      {"\xff\xfeH", "UTF-16"}};
  for (const auto& [bytes, name] : formats) {
    write_bytes(folder / "data", bytes);
    const auto [kind, text] = failure(spec_of("text", {folder / "data"}, 256));
    CHECK(kind == ErrorKind::kFormat);
    CHECK(text.find(name) != std::string::npos);
  }
}

TEST_CASE("token files with a header, or with wider integers, are refused") {
  const TemporaryFolder folder;
  write_bytes(folder / "a.npy", "\x93NUMPY\x01" + std::string(121, 'x'));
  CHECK(failure(spec_of("tokens", {folder / "a.npy"})).second.find("NumPy") != std::string::npos);

  std::vector<uint32_t> wide(64);
  std::iota(wide.begin(), wide.end(), 7);
  write_bytes(folder / "wide.bin", bytes_of(wide));
  const auto [kind, text] = failure(spec_of("tokens", {folder / "wide.bin"}));
  CHECK(kind == ErrorKind::kFormat);
  CHECK(text.find("every second token is 0") != std::string::npos);
  DataSpec right = spec_of("tokens", {folder / "wide.bin"});
  right.token_dtype = "uint32";
  CHECK(all_tokens(right).back() == 70);
  // Two bytes do not identify a format: 0x8b1f, gzip's signature, is also a valid token.
  write_bytes(folder / "narrow.bin", bytes_of(std::vector<uint16_t>{0x8b1f, 0x0008, 1, 2}));
  CHECK(all_tokens(spec_of("tokens", {folder / "narrow.bin"})).front() == 0x8b1f);
  write_bytes(folder / "zeros.bin", bytes_of(std::vector<uint16_t>(64)));
  CHECK(all_tokens(spec_of("tokens", {folder / "zeros.bin"})).size() == 64);
}
