#include "am/values/language.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/json.h"
#include "am/base/number.h"
#include "am/base/random.h"
#include "am/base/text.h"
#include "am/chat/chat_template.h"
#include "am/inspect/render.h"
#include "am/nn/key_value_cache.h"

namespace am::values {
namespace {

constexpr int64_t kLongestWindow = 2048;  // tokens

// Returns the ids as a batch of one sequence, [1, ids.size()], on the model's device.
at::Tensor as_batch(const parallel::ParallelModel& model, std::span<const int64_t> ids) {
  at::Tensor tensor =
      at::empty({1, static_cast<int64_t>(ids.size())}, at::TensorOptions(at::kLong));
  std::copy(ids.begin(), ids.end(), tensor.data_ptr<int64_t>());
  return tensor.to(model.mesh().device());
}

// Returns the ids as a batch of one sequence, padded to the length that the layout requires: under
// sequence parallelism, a multiple of the tp size. The padding follows the text, so causal
// attention makes the outputs for the text independent of the padding.
at::Tensor as_padded_batch(Session& session, const parallel::ParallelModel& model,
                           std::span<const int64_t> ids) {
  const int64_t multiple = values_of(session).length_multiple();
  const auto length = static_cast<int64_t>(ids.size());
  std::vector<int64_t> padded(ids.begin(), ids.end());
  padded.resize(static_cast<size_t>(ceil_div(length, multiple) * multiple), ids.back());
  return as_batch(model, padded);
}

// Returns one key/value cache per pipeline stage of this rank, for texts of up to `capacity`
// tokens. Returns an empty vector if the layout shards sequences.
std::vector<std::unique_ptr<nn::KeyValueCache>> caches_of(Session& session,
                                                          const parallel::ParallelModel& model,
                                                          int64_t capacity) {
  std::vector<std::unique_ptr<nn::KeyValueCache>> caches;
  if (values_of(session).length_multiple() > 1 || model.layout().mesh.sizes().cp > 1) return caches;
  for (const auto& [number, stage] : model.stages()) {
    caches.push_back(std::make_unique<nn::KeyValueCache>(stage->decoder(), capacity));
  }
  return caches;
}

// Returns the logits of `ids` without the padding: [1, ids.size() - kept, size of the vocabulary or
// of this rank's slice of it]. The key/value caches already contain the first `kept` ids, for which
// no logits are computed.
at::Tensor logits_of(Session& session, parallel::ParallelModel& model, std::span<const int64_t> ids,
                     size_t kept = 0) {
  const at::Tensor logits =
      model.whole_sequences(model.forward(as_padded_batch(session, model, ids)));
  return logits.narrow(1, 0, static_cast<int64_t>(ids.size() - kept)).contiguous();
}

void require_two(const std::vector<int64_t>& ids) {
  if (ids.size() >= 2) return;
  throw Error(ErrorKind::kUsage,
              cat("the text has ", ids.size(), ids.size() == 1 ? " token" : " tokens",
                  "; at least two are needed, because the first token is not predicted"));
}

// Runs forward passes, then calls after_forward(). Also calls after_forward() if the user
// interrupts the forward passes (Error(kUsage)), because all ranks detect the interrupt at the same
// point. Other errors end the session.
void run_forward(Session& session, const std::function<void(parallel::ParallelModel&)>& body) {
  const at::NoGradGuard no_grad;
  parallel::ParallelModel& model = values_of(session).runnable();
  try {
    body(model);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kUsage) values_of(session).after_forward();
    throw;
  }
  values_of(session).after_forward();
}

using VisitWindow = std::function<void(const parallel::ParallelModel& model,
                                       const at::Tensor& logits, const at::Tensor& labels)>;

// Divides `ids` into windows, and calls `visit` with the logits and labels of each window in turn.
// Together, the windows predict every id except the first exactly once.
void for_each_window(Session& session, const std::vector<int64_t>& ids, const VisitWindow& visit) {
  require_two(ids);
  const auto window = static_cast<size_t>(window_length(session));
  const std::span<const int64_t> all(ids);
  run_forward(session, [&](parallel::ParallelModel& model) {
    for (size_t first = 0; first + 1 < ids.size(); first += window) {
      session.check_interrupt();
      const size_t count = std::min(window, ids.size() - 1 - first);
      const at::Tensor logits = logits_of(session, model, all.subspan(first, count));
      visit(model, logits, as_batch(model, all.subspan(first + 1, count)));
    }
  });
}

// Returns a pseudorandom number in [0, 1) that depends only on seed and position.
double uniform(int64_t seed, int64_t position) {
  const auto words = philox4x32(static_cast<uint64_t>(seed), static_cast<uint64_t>(position), 0);
  const uint64_t bits = (static_cast<uint64_t>(words[0]) << 32) | words[1];
  return static_cast<double>(bits >> 11) * 0x1.0p-53;
}

// Micro-batches of one step. Every micro-batch contains the same text, on all ranks. Only the first
// micro-batch of the first data-parallel rank has labels: the sum of the gradients over all ranks
// therefore counts the text once.
class OneText : public parallel::MicroBatches {
 public:
  OneText(const parallel::ParallelModel& model, at::Tensor ids_BT, at::Tensor labels_BT)
      : ids_BT_(std::move(ids_BT)),
        labels_BT_(std::move(labels_BT)),
        count_(model.pipeline()->micro_batches()),
        has_labels_(model.mesh().group("dp").index() == 0) {}

  int64_t count() const override { return count_; }
  parallel::MicroBatch read(int64_t m) override {
    const bool own = has_labels_ && m == 0;
    return {ids_BT_, own ? labels_BT_ : at::full_like(labels_BT_, parallel::kIgnoreIndex)};
  }

 private:
  at::Tensor ids_BT_;
  at::Tensor labels_BT_;
  int64_t count_;
  bool has_labels_;
};

}  // namespace

void prepare_model(Session& session, bool forced, bool backward) {
  ParameterView& view = values_of(session);
  int64_t bytes = view.runnable_bytes();
  if (backward) bytes += view.gradient_bytes();
  session.require_memory(bytes, backward ? "the model with its gradients" : "the model to run",
                         forced);
  view.runnable(session.between());
}

const data::Tokenizer& tokenizer_of(Session& session) {
  const DefaultTokenizer tokenizer = session.tokenizer();
  if (!tokenizer.name.empty()) return values_of(session).tokenizer(tokenizer.name);
  throw Error(ErrorKind::kPlan, tokenizer.problem,
              "`set tokenizer PATH` selects a tokenizer's file; `set tokenizer bytes` makes each "
              "byte a token");
}

std::vector<int64_t> encode(Session& session, const std::string& text) {
  const data::Tokenizer& tokenizer = tokenizer_of(session);
  std::vector<int64_t> ids = tokenizer.encode(text);
  const int64_t vocabulary = values_of(session).runnable().config().vocab_size;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < vocabulary) continue;
    const std::string token = tokenizer.token_bytes(ids[i]);
    throw Error(
        ErrorKind::kPlan,
        cat("token ", i, " of the text, ", inspect::quoted_text(token, session.style()),
            ", has the id ", ids[i], ", but the model's vocabulary ends at ", vocabulary - 1),
        cat("the tokenizer is `", tokenizer.name(),
            "`; choose the model's own with `set tokenizer PATH`"));
  }
  return ids;
}

int64_t window_length(Session& session) {
  const int64_t longest = values_of(session).runnable().config().max_position_embeddings;
  return longest > 0 ? std::min(longest, kLongestWindow) : kLongestWindow;
}

double mean_loss(Session& session, const std::vector<int64_t>& ids) {
  double sum = 0.0;
  for_each_window(
      session, ids,
      [&](const parallel::ParallelModel& model, const at::Tensor& logits,
          const at::Tensor& labels) { sum += model.loss_sum(logits, labels).item<double>(); });
  return sum / static_cast<double>(ids.size() - 1);
}

double mean_loss_gradients(Session& session, const std::vector<int64_t>& ids) {
  require_two(ids);
  const auto predictions = static_cast<int64_t>(ids.size()) - 1;
  if (predictions > window_length(session)) {
    throw Error(ErrorKind::kUsage,
                cat("the text has ", ids.size(),
                    " tokens, but gradients are computed over one window of at most ",
                    window_length(session), " predicted tokens"),
                "shorten the text");
  }
  ParameterView& view = values_of(session);
  parallel::ParallelModel& model = view.runnable();
  session.check_interrupt();
  const std::span<const int64_t> all(ids);
  const at::Tensor ids_BT =
      as_padded_batch(session, model, all.first(static_cast<size_t>(predictions)));
  const at::Tensor labels = as_batch(model, all.subspan(1));
  at::Tensor labels_BT = at::full_like(ids_BT, parallel::kIgnoreIndex);
  labels_BT.narrow(1, 0, predictions).copy_(labels);
  model.zero_grad();
  OneText batches(model, ids_BT, labels_BT);
  const at::Tensor sum = model.forward_backward(
      batches, {.divisor = static_cast<double>(predictions), .seed = 0, .step = 0});
  view.after_forward();
  view.after_backward("of the text");
  at::Tensor own = sum.cpu();  // equal on all ranks of a tp group; only the first rank adds it
  if (model.mesh().group("tp").index() != 0) own.zero_();
  return view.gather(own).sum().item<double>() / static_cast<double>(predictions);
}

void forward_window(Session& session, const std::vector<int64_t>& ids) {
  const int64_t window = window_length(session);
  if (ids.empty() || std::ssize(ids) > window) {
    throw Error(ErrorKind::kUsage,
                cat("the text has ", ids.size(), " tokens; 1 to ", window, " are possible here"));
  }
  run_forward(session, [&](parallel::ParallelModel& model) {
    session.check_interrupt();
    logits_of(session, model, ids);
  });
}

std::vector<double> log_probabilities(Session& session, const std::vector<int64_t>& ids) {
  std::vector<double> result;
  for_each_window(
      session, ids,
      [&](const parallel::ParallelModel& model, const at::Tensor& logits,
          const at::Tensor& labels) {
        const at::Tensor all = at::log_softmax(model.full_logits(logits).to(at::kFloat), -1);
        const at::Tensor taken =
            all.gather(-1, labels.unsqueeze(-1)).reshape({-1}).to(at::kDouble).cpu().contiguous();
        const double* values = taken.const_data_ptr<double>();
        result.insert(result.end(), values, values + taken.numel());
      });
  return result;
}

int64_t sample(const at::Tensor& logits_V, const GenerateOptions& options, double uniform) {
  const at::Tensor logits = logits_V.cpu().to(at::kDouble);
  if (options.temperature == 0.0) return logits.argmax().item<int64_t>();
  const int64_t size = logits.size(0);
  const int64_t kept = options.top_k > 0 ? std::min(options.top_k, size) : size;
  const auto [values, ids] = logits.topk(kept);  // in descending order
  const at::Tensor cumulative = at::softmax(values / options.temperature, 0).cumsum(0).contiguous();
  const double* begin = cumulative.const_data_ptr<double>();
  const double* end = begin + kept;
  if (options.top_p < 1.0) {  // keeps the first ids whose probabilities sum to at least top_p
    end = std::min(std::lower_bound(begin, end, options.top_p) + 1, end);
    uniform *= *(end - 1);
  }
  const double* chosen = std::upper_bound(begin, end, uniform);
  return ids[std::min(chosen, end - 1) - begin].item<int64_t>();
}

std::vector<int64_t> end_tokens(Session& session) {
  constexpr size_t kMost = 8;
  std::vector<int64_t> ids(kMost, -1);
  if (session.tokenizer().name == "bytes") return {};
  const model::ModelConfig& config = values_of(session).runnable().config();
  const std::filesystem::path file = folder_of(config.file) / "generation_config.json";
  std::error_code ignored;
  Json json;
  if (std::filesystem::exists(file, ignored))
    json = parse_json_object(read_file(file), file.string());
  if (!json.contains("eos_token_id")) json = parse_json_object(config.text, config.file);
  const Json found = json.value("eos_token_id", Json());
  const Json list = found.is_array() ? found : Json::array({found});
  size_t count = 0;
  for (const Json& each : list) {
    if (each.is_number_integer() && count < kMost) ids[count++] = each.get<int64_t>();
  }
  // All ranks use rank 0's ids, because other ranks may lack the files.
  ids = session.view().gather_numbers(ids).front();
  std::erase(ids, -1);
  return ids;
}

std::string chat_prompt(Session& session, const std::string& message) {
  const auto chat_template =
      chat::ChatTemplate::from_folder(folder_of(tokenizer_of(session).name()));
  const Json user = {{"role", "user"}, {"content", message}};
  chat::ChatRequest request;
  request.messages = Json::array({user});
  request.add_generation_prompt = true;
  return chat_template.render(request).text;
}

Generated generate(Session& session, const std::vector<int64_t>& prompt,
                   const GenerateOptions& options) {
  if (prompt.empty()) {
    throw Error(ErrorKind::kUsage, "the prompt has no token",
                "generation starts from at least one token");
  }
  const auto window = static_cast<size_t>(window_length(session));
  const size_t longest = std::min(window, prompt.size() + static_cast<size_t>(options.tokens));
  std::vector<int64_t> ids = prompt;
  Generated out;
  run_forward(session, [&](parallel::ParallelModel& model) {
    const auto caches = caches_of(session, model, static_cast<int64_t>(longest));
    size_t kept = 0;
    const auto keep = [&](size_t length) {
      if (!caches.empty()) kept = length;
      for (const auto& cache : caches) cache->keep(static_cast<int64_t>(length));
    };
    const nn::Decoder& any = model.stages().begin()->second->decoder();
    for (int64_t i = 0; i < options.tokens; ++i) {
      if (i == 0) session.check_interrupt();
      out.interrupted = i > 0 && session.any_interrupted();
      if (out.interrupted) break;
      const size_t seen = std::min(window, ids.size());
      const auto length = static_cast<int64_t>(seen);
      // Empties the caches if the cached keys are no longer valid. Once the text is longer than the
      // window, each new token shifts the window and so the positions of all tokens. Some RoPE
      // scalings depend on the length.
      if (ids.size() > window || !any.turns_alike(length, length - 1)) keep(0);
      const at::Tensor logits =
          logits_of(session, model, std::span<const int64_t>(ids).last(seen), kept);
      keep(seen);
      const at::Tensor last = model.full_logits(logits.narrow(1, logits.size(1) - 1, 1));
      const int64_t own = sample(last.reshape({-1}), options, uniform(options.seed, i));
      // All ranks use the id that rank 0 drew. Otherwise, ranks with different rounding errors
      // could continue with different ids.
      ids.push_back(session.view().gather_numbers({own}).front().front());
      if (options.on_token) options.on_token(ids.back());
      const auto& ends = options.end_tokens;
      if (std::find(ends.begin(), ends.end(), ids.back()) != ends.end()) break;
    }
  });
  out.ids.assign(ids.begin() + static_cast<std::ptrdiff_t>(prompt.size()), ids.end());
  return out;
}

}  // namespace am::values
