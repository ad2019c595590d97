// Turns conversations into examples: renders them with the model's chat template, tokenises the
// text, and marks the tokens that the loss counts.
//
//   const ConversationReader reader(*tokenizer, &chat_template, {.loss_on = LossOn::kAssistant});
//   const Example example = reader.read(Json::parse(line), "chat.jsonl:1");
//
// A line, or a row of a Parquet file, is an object with one of these sets of keys:
//
//   messages            [{"role": "user", "content": ".."}, ..]; optionally "tools"
//   prompt, completion  two texts or two lists of messages; optionally "tools"
//   input_ids, labels   token ids; and for each token, the id again, or -100 if the loss does not
//                       count the token. Without labels or with LossOn::kAll, all tokens count.
//
// With LossOn::kAssistant, the loss counts the tokens that overlap with text that the assistant
// generates. If the template has {% generation %} blocks, this is the text in the blocks.
// Otherwise, it is the text that each message of the assistant adds after the generation prompt.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "am/base/json.h"
#include "am/chat/chat_template.h"
#include "am/data/examples.h"
#include "am/data/tokenizer.h"
#include "am/data/tokenizer/trie.h"

namespace am::data {

struct ConversationOptions {
  LossOn loss_on = LossOn::kAssistant;
  // Pairs of a key that read() expects and its name in the file, for example {"messages",
  // "conversations"}.
  std::vector<std::pair<std::string, std::string>> columns = {};
  std::optional<int64_t> end_token = {};  // appended to a completion if there is no template
  // Whether special tokens in messages, prompts and completions are tokenised as ordinary text.
  bool split_special_tokens = false;
};

class ConversationReader {
 public:
  // If `chat_template` is null, read() accepts only lines with token ids, and lines whose prompt
  // and completion are texts. The tokenizer and the template must outlive the object.
  ConversationReader(const Tokenizer& tokenizer, const chat::ChatTemplate* chat_template,
                     ConversationOptions options);

  // Returns the names in the file of all keys that read() may read.
  std::vector<std::string> keys() const;
  // Converts a line, parsed as JSON, to an example. `where` names the line in error messages.
  // Throws Error(kFormat) if the line has none of the sets of keys described above, or has wrong
  // values for them; also throws the errors of the template.
  Example read(const Json& line, const std::string& where) const;

 private:
  using Span = std::pair<size_t, size_t>;  // bytes [first, second) of a text

  std::string key_of(std::string_view name) const;
  const Json* column(const Json& line, std::string_view name) const;
  Example of_ids(const Json& ids, const Json* labels, const std::string& where) const;
  Example of_texts(const std::string& prompt, const std::string& completion) const;
  Example of_messages(const Json& messages, const Json* tools, const std::string& where) const;
  std::vector<Span> generated_spans(const chat::ChatRequest& request, const chat::Rendered& whole,
                                    const std::string& where) const;

  const Tokenizer& tokenizer_;
  const chat::ChatTemplate* template_;
  ConversationOptions options_;
  Trie guarded_tokens_;  // special tokens to treat as text; empty unless split_special_tokens
};

}  // namespace am::data
