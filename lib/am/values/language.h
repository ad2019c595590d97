// The model of a session at work: how likely a text is, and what it says next.
//
// Every function is collective; all ranks get the same answer.
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

// The model in memory, ready to run, unless it takes more than there is, and is not forced; of a
// backward pass with room for its gradients. Throws Error(kPlan).
void prepare_model(Session& session, bool forced, bool backward = false);

// What cuts texts in this session. Throws Error(kPlan) where nothing says what does.
const data::Tokenizer& tokenizer_of(Session& session);

// Ids of a text by the session's tokenizer. Throws Error(kPlan) that names the first token which is
// not below the model's vocabulary.
std::vector<int64_t> encode(Session& session, const std::string& text);

// Positions that one forward pass covers: the model's max_position_embeddings, at most 2048. Longer
// texts are cut into windows of this many tokens, and a token sees only those of its window before
// it.
int64_t window_length(Session& session);

// Mean cross-entropy of ids[1..], each given those before it; at least two ids (Error(kUsage)
// otherwise).
double mean_loss(Session& session, const std::vector<int64_t>& ids);

// Its gradients, those of mean_loss's value, of a text that fits into a window (Error(kUsage)
// otherwise); they stay with the model, where ParameterView::after_backward says so. Returns the
// loss.
double mean_loss_gradients(Session& session, const std::vector<int64_t>& ids);

// Natural logarithms of the probabilities of ids[1..]: one fewer than ids.
std::vector<double> log_probabilities(Session& session, const std::vector<int64_t>& ids);

struct GenerateOptions {
  int64_t tokens = 100;
  double temperature = 0.8;  // 0: always the likeliest token
  int64_t top_k = 0;         // 0: all tokens
  int64_t seed = 0;
};

// The ids that follow `prompt`, which must not be empty. The same options give the same ids.
std::vector<int64_t> generate(Session& session, const std::vector<int64_t>& prompt,
                              const GenerateOptions& options);

// One draw from softmax(logits / temperature) over the `top_k` likeliest; `uniform` is in [0, 1).
int64_t sample(const at::Tensor& logits_V, const GenerateOptions& options, double uniform);

}  // namespace am::values
