// Opens data of the kind "chat": files of conversations (conversation.h). A file contains JSON
// Lines, a JSON array or a Parquet table. The token ids of all conversations stay in memory.
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "am/data/examples.h"
#include "am/data/samples.h"
#include "am/data/tokenizer.h"

namespace am::data {

// Reads and tokenises the conversations of `files` on spec.threads threads, and returns them as
// examples.
Examples read_chat(const DataSpec& spec, const Tokenizer& tokenizer,
                   const std::vector<std::filesystem::path>& files);
// Implements open_samples() for the kind "chat".
std::unique_ptr<SampleSource> open_chat(const DataSpec& spec, const SampleOptions& options);
// Implements open_samples() for the kind "synthetic_chat": examples with random lengths and random
// token ids. The loss counts about a third of the labels.
std::unique_ptr<SampleSource> make_synthetic_chat(const DataSpec& spec,
                                                  const SampleOptions& options);

}  // namespace am::data
