// Tokens of text and conversations that `am-run prepare` has written. With these tokens, a job does
// not tokenise its files at each start.
//
//   const Prepared done = prepare(spec);            // writes spec.prepared/text-0123456789abcdef
//   auto source = open_prepared_text(spec);         // in a job; null if nothing was prepared
//
// A prepared folder contains Megatron's files tokens.bin and tokens.idx, with one sequence per
// document or conversation. For conversations, it also contains counted.bin and counted.idx: one
// byte per token, 1 if the loss counts the token, otherwise 0. The file prepared.json records
// everything on which the tokens depend: name, size and modification time of each data file, a hash
// of the tokenizer and chat template, and the keys of [data] that affect the tokens. The folder's
// name ends with a hash of this record.
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
  int64_t documents = 0;  // number of documents or conversations
  int64_t tokens = 0;
  bool was_there = false;  // whether the folder had been written before
};

// Whether the data can be prepared: spec.kind is "text" or "chat".
bool can_prepare(const DataSpec& spec);

// Tokenises the files and writes the prepared folder. If the folder exists already, only reads its
// counts. The folder appears atomically, by a rename. Requires can_prepare(spec), and a
// spec.prepared that is not empty. Throws Error(kIo), and the errors of open_token_source() and
// open_chat().
Prepared prepare(const DataSpec& spec);

// Return the prepared tokens of the data that `spec` describes. Return nullptr or nullopt if the
// data have not been prepared, or if the files, the tokenizer or keys of [data] have changed since.
// Throw Error(kFormat) if the prepared folder is damaged.
std::unique_ptr<TokenSource> open_prepared_text(const DataSpec& spec);
std::optional<Examples> read_prepared_chat(const DataSpec& spec);

}  // namespace am::data
