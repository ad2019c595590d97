// Defines the commands `loss`, `logprob` and `generate`.
#include "am/values/language.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>

#include "am/base/text.h"
#include "am/base/units.h"
#include "am/data/text_stream.h"
#include "am/inspect/render.h"
#include "am/inspect/text_argument.h"
#include "am/term/printable.h"
#include "am/term/table.h"
#include "am/values/commands/functions.h"

namespace am::values {
namespace {

Json file_or_null(const inspect::TextArgument& argument) {
  return argument.file.empty() ? Json(nullptr) : Json(argument.file);
}

}  // namespace

Result run_loss(Session& session, const Arguments& arguments) {
  const inspect::TextArgument argument = text_or_file(session, arguments);
  prepare_model(session, arguments.has("--force"));
  const std::vector<int64_t> ids = encode(session, argument.text);
  const double loss = mean_loss(session, ids);
  Result result;
  result.json = {{"loss", loss},
                 {"tokens", ids.size()},
                 {"predictions", ids.size() - 1},
                 {"perplexity", std::exp(loss)},
                 {"file", file_or_null(argument)}};
  result.text =
      cat("loss ", format_fixed(loss, 4), "  perplexity ", format_general(std::exp(loss), 4),
          "  over ", format_count(static_cast<int64_t>(ids.size()) - 1), " predictions of ",
          format_count(static_cast<int64_t>(ids.size())), " tokens of ",
          argument.file.empty() ? "the text" : term::printable(argument.file), "\n");
  return result;
}

Result run_logprob(Session& session, const Arguments& arguments) {
  const inspect::TextArgument argument = text_or_file(session, arguments);
  prepare_model(session, arguments.has("--force"));
  const std::vector<int64_t> ids = encode(session, argument.text);
  const std::vector<double> logs = log_probabilities(session, ids);
  const double total = std::accumulate(logs.begin(), logs.end(), 0.0);
  Json list = Json::array({nullptr});
  term::Table table({{"id", term::Align::kRight}, {"token"}, {"log p", term::Align::kRight}});
  for (size_t i = 0; i < ids.size(); ++i) {
    if (i > 0) list.push_back(logs[i - 1]);
    const std::string token = tokenizer_of(session).token_bytes(ids[i]);
    table.add({std::to_string(ids[i]), inspect::quoted_text(token, session.style()),
               i == 0 ? std::string("-") : format_fixed(logs[i - 1], 4)});
  }
  table.add_rule();
  table.add({"", "total", format_fixed(total, 4)});
  Result result;
  result.json = {
      {"tokens", ids}, {"logprobs", list}, {"total", total}, {"file", file_or_null(argument)}};
  result.text = table.text(session.style());
  return result;
}

Result run_generate(Session& session, const Arguments& arguments) {
  GenerateOptions options;
  options.tokens = arguments.integer("--tokens", options.tokens, 1, 1'000'000);
  options.temperature = arguments.number("--temperature", options.temperature, 0.0, 100.0);
  options.top_k = arguments.integer("--top-k", options.top_k, 0);
  options.top_p = arguments.number("--top-p", options.top_p, 0.0, 1.0);
  options.seed = arguments.integer("--seed", options.seed, 0);
  prepare_model(session, arguments.has("--force"));
  const bool chat = arguments.has("--chat");
  const std::string prompt = chat ? chat_prompt(session, arguments.text()) : arguments.text();
  if (!arguments.has("--past-end")) options.end_tokens = end_tokens(session);
  const auto& ends = options.end_tokens;
  const auto is_end = [&](int64_t id) {
    return std::find(ends.begin(), ends.end(), id) != ends.end();
  };
  const term::Style& style = session.style();
  std::string head = style.paint(term::Role::kBold, inspect::printable_text(prompt, style));
  // Without colours, a mark separates the prompt from the generated text.
  if (!style.color) head += style.unicode ? "▸" : "|";
  const auto* print = session.live_text();
  data::TextStream stream(tokenizer_of(session));
  bool has_printed = false;
  if (print != nullptr) {
    options.on_token = [&](int64_t id) {
      if (!std::exchange(has_printed, true)) (*print)(head);
      if (!is_end(id)) (*print)(inspect::printable_text(stream.add(id), style));
    };
  }
  const Generated generated = generate(session, encode(session, prompt), options);
  const std::vector<int64_t>& ids = generated.ids;
  const bool ended = is_end(ids.back());
  const std::string text =
      tokenizer_of(session).decode(std::span(ids).first(ids.size() - (ended ? 1 : 0)));
  const std::string tail = generated.interrupted ? "\ninterrupted\n" : "\n";
  Result result;
  result.json = {{"prompt", prompt},
                 {"text", text},
                 {"tokens", ids},
                 {"ended", ended},
                 {"interrupted", generated.interrupted}};
  result.text = cat(head, inspect::printable_text(text, style), tail);
  if (print != nullptr) {
    (*print)(inspect::printable_text(stream.finish(), style) + tail);
    result.printed = true;
  }
  return result;
}

}  // namespace am::values
