// Defines the keys of the plan file's sections [data] and [validation].
#include "am/config/field_builder.h"
#include "am/config/strategy_codec.h"
#include "am/config/table_codec.h"

namespace am::config {
namespace {

// Codec of data.columns, for example { messages = "conversations" }.
struct ColumnsCodec {
  using Pairs = std::vector<std::pair<std::string, std::string>>;

  static const std::vector<std::string>& keys() {
    static const std::vector<std::string> all = {"messages",   "tools",     "prompt",
                                                 "completion", "input_ids", "labels"};
    return all;
  }
  std::optional<Pairs> read(const Input& input) const {
    auto pairs = input.value.is_table() ? read_text_table(input) : std::nullopt;
    if (!input.value.is_table()) input.wrong_type("a table", "{ messages = \"conversations\" }");
    for (const auto& [key, name] : pairs.value_or(Pairs{})) {
      if (std::find(keys().begin(), keys().end(), key) != keys().end()) continue;
      input.out_of_range(cat(" has the key \"", key, "\""), cat("legal: ", join(keys(), ", ")));
      return std::nullopt;
    }
    return pairs;
  }
  Json write(const Pairs& pairs) const {
    Json table = Json::object();
    for (const auto& [key, name] : pairs) table[key] = name;
    return table;
  }
  Json schema() const {
    Json properties = Json::object();
    for (const std::string& key : keys()) properties[key] = {{"type", "string"}};
    return {{"type", "object"}, {"properties", properties}, {"additionalProperties", false}};
  }
  std::string type() const { return "table of key = name"; }
};

Choice data_kinds() {
  return Choice{{"synthetic", "text", "tokens", "megatron", "chat", "synthetic_chat"}};
}

Choice kinds_of_files() {
  Choice kinds = data_kinds();
  std::erase_if(kinds.names,
                [](const std::string& kind) { return starts_with(kind, "synthetic"); });
  return kinds;
}

// Adds the keys `path` and `kind` of a data source or of a validation set.
template <typename T>
void add_files(TableOf<T>& table) {
  table.add("path", &T::path, Texts{"path or array of paths"}, "Files, folders or globs.",
            /*required=*/true);
  table.add("kind", &T::kind, Optional<Choice>{kinds_of_files()},
            "Kind of the files. Absent: data.kind.");
}

void add_data(std::vector<FieldSpec>& out) {
  FieldBuilder data(
      "data", [](auto& plan) -> auto& { return plan.data; }, out);
  using S = DataSection;
  const Choice kinds = data_kinds();
  data.add("kind", &S::kind, kinds,
           "synthetic needs no files; chat: conversations as JSON Lines or Parquet, with the chat "
           "template of the tokenizer's folder; synthetic_chat: random examples, for tests; text: "
           "UTF-8 files, or .jsonl or Parquet with a \"text\" in each row, through the tokenizer; "
           "tokens: headerless little-endian integers, or shards of llm.c and nanogpt; megatron: a "
           ".bin and .idx pair.");
  data.add("path", &S::path, Texts{"path or array of paths"},
           "Files, folders or globs. Required unless kind is synthetic, or there are sources. With "
           "kind megatron the value may also be a Megatron blend, which is converted to sources: "
           "alternating weights and prefixes, or a .json file with such a list.")
      .is_path = is_any_path;
  TableOf<DataSourceSection> source;
  using Source = DataSourceSection;
  add_files(source);
  source.add("weight", &Source::weight, Number{0.0, 1e100},
             "Share of the samples, relative to the weights of the other sources.");
  source.add("epochs", &Source::epochs, Integer{0, 1 << 20},
             "Passes through the source, after which the other sources go on without it. 0: no "
             "limit.");
  data.add("source", &S::sources, Tables<DataSourceSection>{source},
           "A mixture of sources, as [[data.source]], instead of path. The order of the samples "
           "does not depend on the layout.")
      .is_path = is_any_path;
  data.add("shuffle", &S::shuffle, Boolean{},
           "Shuffle the samples of each epoch, in an order that depends only on train.seed.");
  data.add("tokenizer", &S::tokenizer, Text{Text::Empty::kRefused, "\"auto\", \"bytes\" or a path"},
           "auto: the tokenizer in the model's folder; bytes: one token per byte; or a "
           "tokenizer.json, tekken.json, a SentencePiece model, a file of tiktoken, or a folder "
           "that contains one of them.")
      .is_path = [](std::string_view text) { return text != "auto" && text != "bytes"; };
  data.add(
          "prepared", &S::prepared, Text{Text::Empty::kAllowed, "\"none\" or a path"},
          "Folder to which am-run prepare writes tokens. Jobs read tokens from it if they belong "
          "to the same files and tokenizer. \"none\": no folder. Empty: prepared/ beside the plan.")
      .is_path = [](std::string_view text) { return !text.empty() && text != "none"; };
  data.add("token_dtype", &S::token_dtype, Choice{{"uint16", "uint32"}},
           "Integer type of headerless files of kind tokens.");
  data.add("split_special_tokens", &S::split_special_tokens, Boolean{},
           "Treat special tokens that occur in texts and in the content of messages as text like "
           "any other. Those of the chat template stay tokens.");
  data.add("reset_position_ids", &S::reset_position_ids, Boolean{},
           "Treat sequences as packed documents: position ids restart after each eod_token, and "
           "attention stays inside a document.");
  data.add("eod_token", &S::eod_token, Optional<TokenCodec>{},
           "The token that ends a document: its id, or its name in the tokenizer, for example "
           "\"<|endoftext|>\". With kind text it is added after each file and each line of a "
           ".jsonl; with kind chat after a completion, if there is no template.");
  data.add("loss_on", &S::loss_on, Choice{{"assistant", "last", "all"}},
           "Tokens of a conversation that the loss counts. assistant: all that the assistant "
           "generates; last: only its last message, or the completion; all: every token.");
  data.add("max_length", &S::max_length, Integer{0, int64_t{1} << 31},
           "Longest example of kind chat, in tokens. 0: what fits into a row of train.seq_len.");
  data.add("on_long", &S::on_long, Choice{{"truncate", "drop"}},
           "Treatment of examples longer than max_length. truncate: their ends are cut off; drop: "
           "they are left out.");
  data.add("packing", &S::packing, Boolean{},
           "Put several whole examples of kind chat into a row; attention stays inside an example. "
           "false: one example per row.");
  data.add("columns", &S::columns, ColumnsCodec{},
           "Table key = name, for files of kind chat in which keys have other names. The keys are "
           "messages, tools, prompt, completion, input_ids and labels.");
}

void add_validation(std::vector<FieldSpec>& out) {
  FieldBuilder validation(
      "validation", [](auto& plan) -> auto& { return plan.validation; }, out);
  using S = ValidationSection;
  validation
      .add("every", &S::every, Integer{},
           "Optimizer steps between two validations; the last step has one too. 0: no validation.")
      .also = {"val_check_interval", "eval_interval", "val_every_steps"};
  validation
      .add("steps", &S::steps, Integer{0, 1 << 20},
           "Number of global batches, from the start of the data, over which each validation loss "
           "is averaged; at most one pass. 0: all data.")
      .also = {"eval_iters", "limit_val_batches"};
  validation
      .add("patience", &S::patience, Integer{},
           "Training ends after this number of validations in a row without a new lowest loss. 0: "
           "it does not.")
      .also = {"early_stopping_patience"};
  validation
      .add("path", &S::path, Texts{"path or array of paths"},
           "Files, folders or globs, read as those of [data] are. Required unless data.kind is "
           "synthetic, or there are sets.")
      .is_path = is_any_path;
  TableOf<ValidationSetSection> set;
  set.add("name", &ValidationSetSection::name, Text{}, "Name of the set's loss.",
          /*required=*/true);
  add_files(set);
  validation
      .add("set", &S::sets, Tables<ValidationSetSection>{set},
           "Further validation data with losses of their own, as [[validation.set]]. Without "
           "`path`, validation_loss is the mean over the labels of all sets.")
      .is_path = is_any_path;
}

}  // namespace

void add_data_fields(std::vector<FieldSpec>& out) {
  add_data(out);
  add_validation(out);
}

}  // namespace am::config
