// Runs the model of a session: loss and log probabilities of texts, and generation.
//
// All functions except sample() must be called on all ranks, and return the same result on all
// ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "am/data/tokenizer.h"
#include "am/inspect/session.h"
#include "am/values/parameter_view.h"

namespace am::values {

// Loads the model for forward passes. Unless `forced` is true, throws Error(kPlan) if the model
// does not fit into the memory of the ranks' machines. If `backward` is true, the model's
// gradients must fit too.
void prepare_model(Session& session, bool forced, bool backward = false);

// Returns the session's tokenizer. Throws Error(kPlan) if none is known.
const data::Tokenizer& tokenizer_of(Session& session);

// Returns the token ids of a text. Throws Error(kPlan), which names the token, if an id is too
// large for the model's vocabulary.
std::vector<int64_t> encode(Session& session, const std::string& text);

// Returns the largest number of tokens in one forward pass: max_position_embeddings of the model,
// but at most 2048. mean_loss() and log_probabilities() split longer texts into windows of this
// size, and attention does not cross windows.
int64_t window_length(Session& session);

// Returns the mean cross-entropy of ids[1..], in nats. Each id is predicted from the earlier ids of
// its window. Throws Error(kUsage) for fewer than two ids.
double mean_loss(Session& session, const std::vector<int64_t>& ids);

// Computes the gradients of mean_loss() and returns the loss. The gradients then appear in the
// states of the view (ParameterView::after_backward). Throws Error(kUsage) for fewer than two ids,
// or if the ids do not fit into one window.
double mean_loss_gradients(Session& session, const std::vector<int64_t>& ids);

// Runs a forward pass of the ids. Throws Error(kUsage) if there are no ids or more than
// window_length() ids.
void forward_window(Session& session, const std::vector<int64_t>& ids);

// Returns the natural logarithms of the probabilities of ids[1..]. Each id is predicted from the
// earlier ids of its window. Throws Error(kUsage) for fewer than two ids.
std::vector<double> log_probabilities(Session& session, const std::vector<int64_t>& ids);

struct GenerateOptions {
  int64_t tokens = 100;      // largest number of generated tokens
  double temperature = 0.8;  // divisor of the logits; 0: greedy decoding
  int64_t top_k = 0;         // number of most probable tokens to draw from; 0: all tokens
  // Draws from the smallest set of most probable tokens whose probabilities sum to at least top_p.
  double top_p = 1.0;
  int64_t seed = 0;
  std::vector<int64_t> end_tokens = {};           // ids after which nothing is generated
  std::function<void(int64_t id)> on_token = {};  // called for each new id; may be empty
};

struct Generated {
  std::vector<int64_t> ids;  // the new ids; the last id may be an end token
  bool interrupted = false;  // whether the user ended the generation
};

// Returns the ids of the tokens that end the model's texts: "eos_token_id" in the
// generation_config.json beside the model's config.json or, if missing there, in config.json. Empty
// if the session's tokenizer is "bytes". Collective.
std::vector<int64_t> end_tokens(Session& session);

// Returns the prompt for a message of the user: the message rendered with the chat template in the
// tokenizer's folder, up to the beginning of the assistant's answer. Throws Error(kFormat) if the
// folder has no template.
std::string chat_prompt(Session& session, const std::string& message);

// Generates ids that continue `prompt`. Throws Error(kUsage) if `prompt` is empty, or if the user
// interrupts before the first new token. A later interrupt ends the generation. Without an
// interrupt, the result depends only on model, prompt and options.
Generated generate(Session& session, const std::vector<int64_t>& prompt,
                   const GenerateOptions& options);

// Returns an id drawn from softmax(logits / temperature) over the `top_k` most probable ids,
// without ids that top_p excludes. For temperature 0, returns the most probable id. `logits_V`: one
// logit per id of the vocabulary. `uniform`: the random number for the draw, at least 0 and below
// 1.
int64_t sample(const at::Tensor& logits_V, const GenerateOptions& options, double uniform);

}  // namespace am::values
