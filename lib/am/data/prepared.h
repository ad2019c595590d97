// Tokens of text and conversations that `am-run prepare` has written, so that jobs need not
// tokenise their files at each start.
//
//   const Prepared done = prepare(spec);            // writes spec.prepared/text-0123456789abcdef
//   auto source = open_prepared_text(spec);         // in a job; null if nothing was prepared
//
// A folder has Megatron's files tokens.bin and tokens.idx, with a sequence per document or
// conversation; counted.bin and counted.idx (bytes, 1 for each token that the loss counts) for
// conversations; and prepared.json, which records what the tokens depend on: name, size and
// modification time of each file, a hash of the tokenizer and chat template, and the keys of [data]
// that matter. The folder's name ends with a hash of this record.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "am/data/examples.h"
#include "am/data/token_source.h"

namespace am::data {

struct Prepared {
  std::filesystem::path folder;
  int64_t documents = 0;  // number of documents, or of conversations
  int64_t tokens = 0;
  bool was_there = false;  // whether the folder had been written before
};

// Whether spec.kind is "text" or "chat", which jobs otherwise tokenise at each start.
bool can_prepare(const DataSpec& spec);

// Tokenises the files and writes the folder, unless it exists. The folder appears atomically.
// Requires can_prepare(spec) and spec.prepared. Throws Error(kIo), and the errors of
// open_token_source() and open_chat().
Prepared prepare(const DataSpec& spec);

// Return the prepared tokens of the data that `spec` describes; nullptr or nullopt if there are
// none, or if what they depend on has changed. Throw Error(kFormat) if the folder is damaged.
std::unique_ptr<TokenSource> open_prepared_text(const DataSpec& spec);
std::optional<Examples> read_prepared_chat(const DataSpec& spec);

}  // namespace am::data
