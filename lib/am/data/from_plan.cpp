#include "am/data/from_plan.h"

#include <string>
#include <variant>

#include "am/data/tokenizer.h"

namespace am::data {

namespace {

std::string tokenizer_name(const config::Plan& plan) {
  const std::string& name = plan.data.tokenizer;
  return name == "bytes" ? name : plan.resolve(name).string();
}

}  // namespace

std::optional<int64_t> eod_token_id(const config::Plan& plan) {
  if (!plan.data.eod_token) return std::nullopt;
  if (const auto* id = std::get_if<int64_t>(&*plan.data.eod_token)) return *id;
  const auto tokenizer = make_tokenizer(tokenizer_name(plan));
  return tokenizer->required_token_id(std::get<std::string>(*plan.data.eod_token));
}

DataSpec data_spec(const config::Plan& plan, int64_t vocab_size) {
  DataSpec spec;
  spec.kind = plan.data.kind;
  for (const std::string& path : plan.data.path) spec.paths.push_back(plan.resolve(path));
  spec.tokenizer = tokenizer_name(plan);
  spec.token_dtype = plan.data.token_dtype;
  spec.vocab_size = vocab_size;
  spec.seed = plan.train.seed;
  spec.eod_token = eod_token_id(plan);
  spec.loss_on = plan.data.loss_on == "all"    ? LossOn::kAll
                 : plan.data.loss_on == "last" ? LossOn::kLast
                                               : LossOn::kAssistant;
  spec.max_length = plan.data.max_length;
  spec.drops_long = plan.data.on_long == "drop";
  spec.packs = plan.data.packing;
  spec.columns = plan.data.columns;
  return spec;
}

BatchReader open_batches(const config::Plan& plan, int64_t vocab_size) {
  const DataSpec spec = data_spec(plan, vocab_size);
  SampleOptions samples = {.seq_len = plan.train.seq_len};
  if (plan.data.reset_position_ids) samples.document_end = spec.eod_token;
  return {open_samples(spec, samples),
          plan.train.seq_len,
          {.seed = plan.train.seed, .shuffle = plan.data.shuffle}};
}

}  // namespace am::data
