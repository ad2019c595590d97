#include "am/data/from_plan.h"

namespace am::data {

DataSpec data_spec(const config::Plan& plan, int64_t vocab_size) {
  DataSpec spec;
  spec.kind = plan.data.kind;
  for (const std::string& path : plan.data.path) spec.paths.push_back(plan.resolve(path));
  spec.tokenizer = plan.data.tokenizer == "bytes" ? plan.data.tokenizer
                                                  : plan.resolve(plan.data.tokenizer).string();
  spec.token_dtype = plan.data.token_dtype;
  spec.vocab_size = vocab_size;
  spec.seed = plan.train.seed;
  spec.eod_token = plan.data.eod_token;
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
