// Tests the folders of tokens that `am-run prepare` writes.
#include "am/data/prepared.h"

#include <catch2/catch.hpp>
#include <chrono>
#include <set>

#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/text.h"
#include "am/data/mapped_tokens.h"
#include "am/data/samples.h"
#include "support/folders.h"
#include "support/temporary_folder.h"

namespace am::data {
namespace {

namespace fs = std::filesystem;

struct Corpus {
  Corpus() {
    write_file_atomically(folder / "a.jsonl", "{\"text\": \"one\"}\n{\"text\": \"\"}\n");
    write_file_atomically(folder / "b.txt", "three");
    spec.kind = "text";
    spec.paths = {folder / "a.jsonl", folder / "b.txt"};
    spec.vocab_size = 256;
    spec.eod_token = 0;
    spec.prepared = folder / "prepared";
  }

  std::vector<int64_t> tokens() const {
    const auto source = open_token_source(spec);
    std::vector<int64_t> all(static_cast<size_t>(source->size()));
    source->read(0, all);
    return all;
  }

  TemporaryFolder folder;
  DataSpec spec;
};

}  // namespace

TEST_CASE("prepared text has the tokens of the files") {
  Corpus corpus;
  const std::vector<int64_t> tokens = corpus.tokens();
  CHECK(tokens == std::vector<int64_t>{'o', 'n', 'e', 0, 0, 't', 'h', 'r', 'e', 'e', 0});
  CHECK(open_prepared_text(corpus.spec) == nullptr);
  corpus.spec.threads = 3;
  const Prepared done = prepare(corpus.spec);
  CHECK(done.documents == 3);
  CHECK(done.tokens == 11);
  CHECK_FALSE(done.was_there);
  CHECK(prepare(corpus.spec).was_there);
  CHECK(corpus.tokens() == tokens);
  const auto prepared = open_prepared_text(corpus.spec);
  REQUIRE(prepared != nullptr);
  CHECK_THAT(prepared->description(), Catch::Contains("3 documents, 11 tokens (bytes; from "));
  CHECK(megatron_lengths(done.folder / "tokens.idx") == std::vector<int32_t>{4, 1, 6});
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(done.folder)) {
    names.insert(entry.path().filename().string());
  }
  CHECK(names == std::set<std::string>{"prepared.json", "tokens.bin", "tokens.idx"});
}

TEST_CASE("tokens of other files or of another tokenizer are not used") {
  Corpus corpus;
  prepare(corpus.spec);
  REQUIRE(open_prepared_text(corpus.spec) != nullptr);
  const fs::path file = corpus.folder / "b.txt";
  SECTION("a file has changed") { write_file_atomically(file, "threes"); }
  SECTION("a file was written again") {
    fs::last_write_time(file, fs::last_write_time(file) + std::chrono::seconds(1));
  }
  SECTION("documents end otherwise") { corpus.spec.eod_token.reset(); }
  SECTION("a file is missing") { corpus.spec.paths.pop_back(); }
  SECTION("another tokenizer") {
    corpus.spec.tokenizer = cat(test::kDataFolder, "/tokenizers/gpt2.json");
    corpus.spec.vocab_size = 100'000;
  }
  CHECK(open_prepared_text(corpus.spec) == nullptr);
}

TEST_CASE("a damaged folder is an error") {
  Corpus corpus;
  const fs::path folder = prepare(corpus.spec).folder;
  SECTION("prepared.json") { write_file_atomically(folder / "prepared.json", "{}"); }
  SECTION("tokens.bin") { fs::resize_file(folder / "tokens.bin", 4); }
  CHECK_THROWS_AS(open_prepared_text(corpus.spec), Error);
}

TEST_CASE("a failure leaves nothing behind") {
  Corpus corpus;
  write_file_atomically(corpus.folder / "a.jsonl", "{\"text\": 1}\n");
  CHECK_THROWS_WITH(prepare(corpus.spec), Catch::Contains("a.jsonl:1: "));
  CHECK(fs::is_empty(corpus.spec.prepared));
}

TEST_CASE("prepared conversations have the same rows") {
  const TemporaryFolder folder;
  write_file_atomically(folder / "a.jsonl",
                        "{\"prompt\": \"ab\", \"completion\": \"c\"}\n"
                        "{\"prompt\": \"d\", \"completion\": \"ef\"}\n");
  DataSpec spec;
  spec.kind = "chat";
  spec.paths = {folder / "a.jsonl"};
  spec.vocab_size = 256;
  spec.prepared = folder / "prepared";
  const auto before = open_samples(spec, {.seq_len = 8});
  const Prepared done = prepare(spec);
  CHECK(done.documents == 2);
  CHECK(done.tokens == 6);
  REQUIRE(read_prepared_chat(spec));
  CHECK(read_prepared_chat(spec)->size() == 2);
  const auto after = open_samples(spec, {.seq_len = 8});
  CHECK(after->fingerprint() == before->fingerprint());
  CHECK(after->counted_labels(0) == before->counted_labels(0));
  spec.loss_on = LossOn::kAll;
  CHECK_FALSE(read_prepared_chat(spec));
}

}  // namespace am::data
