#include "am/data/chat_files.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/in_order.h"
#include "am/base/json.h"
#include "am/base/random.h"
#include "am/base/text.h"
#include "am/chat/chat_template.h"
#include "am/data/conversation.h"
#include "am/data/data_file.h"
#include "am/data/examples.h"
#include "am/data/json_lines.h"
#include "am/data/paths.h"
#include "am/data/prepared.h"
#include "am/data/progress.h"
#include "am/data/tokenizer.h"

namespace am::data {
namespace {

namespace fs = std::filesystem;

ExampleOptions example_options(const DataSpec& spec, const SampleOptions& options) {
  return {options.seq_len, spec.max_length, spec.drops_long, spec.packs};
}

// Returns the chat template in the tokenizer's folder; nullopt if there is none.
std::optional<chat::ChatTemplate> template_beside(const std::string& tokenizer) {
  if (tokenizer == "bytes") return std::nullopt;
  return chat::ChatTemplate::find_in(folder_of(tokenizer));
}

// Converts conversations to examples. Throws Error(kPlan) for a token id outside [0, vocab_size).
std::vector<Example> read_examples(const ConversationReader& reader, const JsonObjects& objects,
                                   int64_t vocab_size) {
  std::vector<Example> examples;
  objects.for_each([&](const Json& object, const std::string& where) {
    examples.push_back(reader.read(object, where));
    for (const int64_t id : examples.back().ids) {
      if (id >= 0 && id < vocab_size) continue;
      throw Error(
          ErrorKind::kPlan,
          cat(where, ": the token id ", id,
              " is outside the model's vocabulary, which has the ids 0 to ", vocab_size - 1),
          "use the tokenizer that belongs to the model");
    }
  });
  return examples;
}

}  // namespace

Examples read_chat(const DataSpec& spec, const Tokenizer& tokenizer,
                   const std::vector<fs::path>& files) {
  const auto chat_template = template_beside(spec.tokenizer);
  const ConversationReader reader(
      tokenizer, chat_template ? &*chat_template : nullptr,
      {spec.loss_on, spec.columns, spec.eod_token, spec.splits_special});
  const std::vector<std::string> keys = reader.keys();
  Examples examples;
  FileProgress progress("tokenising", files, spec.log);
  InOrder<std::vector<Example>> work(spec.threads, [&](const std::vector<Example>& some) {
    for (const Example& example : some) examples.add(example);
  });
  for (const fs::path& path : files) {
    const auto file = std::make_shared<const DataFile>(path, "JSON Lines");
    constexpr int64_t kBytesOfTask = 1 << 18;
    int64_t bytes = 0;
    for_each_objects(*file, keys, kBytesOfTask, [&](JsonObjects objects) {
      bytes = objects.file_bytes;
      work.add([&reader, &spec, file, objects = std::move(objects)] {
        return read_examples(reader, objects, spec.vocab_size);
      });
      progress.set(bytes);
    });
    progress.finish_file(bytes);
  }
  work.finish();
  return examples;
}

std::unique_ptr<SampleSource> open_chat(const DataSpec& spec, const SampleOptions& options) {
  const std::vector<fs::path> files = expand_paths(spec.paths);
  auto examples = read_prepared_chat(spec);
  const std::string what =
      cat("chat: ", files_text(files.front(), files.size()), " (",
          tokenizer_file(spec.tokenizer).string(), examples ? "; prepared" : "", ")");
  if (!examples) examples = read_chat(spec, *make_tokenizer(spec.tokenizer), files);
  return pack_examples(*std::move(examples), example_options(spec, options), what);
}

std::unique_ptr<SampleSource> make_synthetic_chat(const DataSpec& spec,
                                                  const SampleOptions& options) {
  constexpr int64_t kRows = 64;  // approximate number of rows (of seq_len tokens)
  const auto word = [&](int64_t example, int64_t i) {
    return philox4x32(static_cast<uint64_t>(spec.seed), static_cast<uint64_t>(example),
                      static_cast<uint64_t>(i));
  };
  Examples examples;
  for (int64_t e = 0; examples.tokens() < kRows * options.seq_len; ++e) {
    Example example;
    const int64_t length = 2 + word(e, -1)[0] % std::max<int64_t>(options.seq_len, 1);
    for (int64_t i = 0; i < length; ++i) {
      const auto random = word(e, i);
      example.ids.push_back(random[0] % spec.vocab_size);
      example.counted.push_back(i + 1 == length || random[1] % 3 == 0);
    }
    examples.add(example);
  }
  return pack_examples(std::move(examples), example_options(spec, options), "synthetic chat");
}

}  // namespace am::data
