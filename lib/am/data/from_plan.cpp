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
  return spec;
}

SamplerOptions sampler_options(const config::Plan& plan) {
  SamplerOptions options;
  options.seq_len = plan.train.seq_len;
  options.seed = plan.train.seed;
  options.shuffle = plan.data.shuffle;
  return options;
}

}  // namespace am::data
