
#include "am/base/number.h"
#include "am/base/text.h"
#include "am/inspect/facts.h"
#include "am/values/commands/functions.h"
#include "am/values/weight_dtype.h"

namespace am::values {
namespace {

struct Setting {
  const char* key;
  const char* legal;
  void (*apply)(Session& session, const std::string& value);
};

void set_digits(Session& session, const std::string& value) {
  const auto digits = parse_integer(value);
  if (!digits || *digits < 1 || *digits > 17) {
    throw Error(ErrorKind::kUsage, cat("digits `", value, "` is not a number from 1 to 17"));
  }
  session.set_digits(static_cast<int>(*digits));
}

void set_dtype(Session& session, const std::string& value) {
  values_of(session).set_compute_dtype(parse_weight_dtype(value));
}

void set_tokenizer(Session& session, const std::string& value) {
  const std::string name = value == "bytes" ? value : session.path(value).string();
  values_of(session).tokenizer(name);  // throws before the setting changes if `name` is invalid
  session.set_tokenizer(name);
}

constexpr Setting kSettings[] = {
    {"dtype",
     "float32 (fp32), bfloat16 (bf16) or float16 (fp16): compute dtype of a checkpoint's model",
     set_dtype},
    {"tokenizer", "bytes, or a tokenizer.json, tokenizer.model or tekken.json", set_tokenizer},
    {"digits", "1 to 17: significant digits of printed values", set_digits},
};

Result list_settings(Session& session) {
  const Json info = session.view().info();
  Rows rows({{"key", {}, RowKind::kText},
             {"value", {}, RowKind::kText},
             {"legal", "legal values", RowKind::kText}});
  for (const Setting& setting : kSettings) {
    const std::string key = setting.key;
    Json value = session.digits();
    if (key == "dtype") value = info.value("compute_dtype", Json("the plan's"));
    if (key == "tokenizer") value = name_or_null(session.tokenizer());
    rows.add({{"key", key}, {"value", value}, {"legal", setting.legal}});
  }
  Result result;
  rows.give(result, "settings", session);
  return result;
}

}  // namespace

Result run_set(Session& session, const Arguments& arguments) {
  if (arguments.words.empty()) return list_settings(session);
  if (arguments.words.size() == 1) {
    throw Error(ErrorKind::kUsage, cat("`set ", arguments.words[0], "` needs a value"),
                "`set` without a key shows the settings");
  }
  std::vector<std::string> keys;
  for (const Setting& setting : kSettings) {
    keys.emplace_back(setting.key);
    if (arguments.words[0] != setting.key) continue;
    setting.apply(session, arguments.words[1]);
    Result result;
    result.json = {{"key", arguments.words[0]}, {"value", arguments.words[1]}};
    return result;
  }
  const auto near = nearest(arguments.words[0], keys);
  throw Error(ErrorKind::kUsage, cat("there is no setting `", arguments.words[0], "`"),
              near ? cat("did you mean `", *near, "`?") : cat("settings: ", join(keys, ", ")));
}

}  // namespace am::values
