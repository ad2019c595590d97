#include "am/launch/nodes/store_table.h"

#include <utility>

#include "am/base/number.h"
#include "am/base/text.h"

namespace am::launch::store {

std::optional<size_t> Table::serve(int client, std::string_view bytes, std::string& answers) {
  size_t used = 0;
  while (used < bytes.size()) {
    Reader reader(bytes.substr(used));
    const Step step = serve_one(client, reader, answers);
    if (step == Step::kInvalid || reader.too_long()) return std::nullopt;
    if (step == Step::kIncomplete) break;
    ++served_;
    used += reader.position();
  }
  return used;
}

Table::Step Table::serve_one(int client, Reader& reader, std::string& answers) {
  const auto query = static_cast<Query>(*reader.number<uint8_t>());
  if (query == Query::kValidate) {
    const auto magic = reader.number<uint32_t>();
    if (!magic) return Step::kIncomplete;
    if (*magic != kMagic) return Step::kInvalid;
    known_.insert(client);
    return Step::kDone;
  }
  if (!known_.contains(client)) return Step::kInvalid;
  Step failed = Step::kIncomplete;
  switch (query) {
    case Query::kSet:
      return set_one(reader);
    case Query::kCompareSet:
      return compare_set(reader, answers);
    case Query::kAdd:
      return add(reader, answers);
    case Query::kAppend:
      return append(reader);
    case Query::kMultiSet:
      return multi_set(reader);
    case Query::kGet: {
      const auto key = reader.text();
      return key ? get({*key}, answers) : Step::kIncomplete;
    }
    case Query::kMultiGet: {
      const auto wanted = keys(reader, failed);
      return wanted ? get(*wanted, answers) : failed;
    }
    case Query::kCheck: {
      const auto wanted = keys(reader, failed);
      if (!wanted) return failed;
      bool all = true;
      for (const std::string& key : *wanted) all = all && values_.contains(key);
      store::append(answers, all ? CheckAnswer::kReady : CheckAnswer::kNotReady);
      return Step::kDone;
    }
    case Query::kWait: {
      const auto wanted = keys(reader, failed);
      if (!wanted) return failed;
      wait(client, *wanted, answers);
      return Step::kDone;
    }
    case Query::kCancelWait: {
      stop_waiting(client);
      store::append(answers, WaitAnswer::kCancelled);
      return Step::kDone;
    }
    case Query::kCountKeys:
      store::append(answers, static_cast<int64_t>(values_.size()));
      return Step::kDone;
    case Query::kDeleteKey: {
      const auto key = reader.text();
      if (!key) return Step::kIncomplete;
      store::append(answers, static_cast<int64_t>(values_.erase(*key)));
      return Step::kDone;
    }
    case Query::kPing: {
      const auto nonce = reader.number<uint32_t>();
      if (!nonce) return Step::kIncomplete;
      store::append(answers, *nonce);
      return Step::kDone;
    }
    default:
      return Step::kInvalid;
  }
}

void Table::forget(int client) {
  known_.erase(client);
  stop_waiting(client);
}

void Table::stop_waiting(int client) {
  const auto waits = missing_.find(client);
  if (waits == missing_.end()) return;
  for (const std::string& key : waits->second) {
    const auto others = waiters_.find(key);
    others->second.erase(client);
    if (others->second.empty()) waiters_.erase(others);
  }
  missing_.erase(waits);
}

const std::string* Table::find(const std::string& key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : &found->second;
}

void Table::set(const std::string& key, std::string value) {
  values_[key] = std::move(value);
  const auto waiting = waiters_.extract(key);
  if (waiting.empty()) return;
  for (const int client : waiting.mapped()) {
    auto& missing = missing_.at(client);
    missing.erase(key);
    if (!missing.empty()) continue;
    missing_.erase(client);
    wake_(client);
  }
}

Table::Step Table::set_one(Reader& reader) {
  const auto key = reader.text();
  auto value = key ? reader.text() : std::nullopt;
  if (!value) return Step::kIncomplete;
  set(*key, *std::move(value));
  return Step::kDone;
}

// Serves a compare_set request. Sets the key if its value equals `expected`; a missing key is set
// if `expected` is empty. The answer is the resulting value or, for a key still missing,
// `expected`.
Table::Step Table::compare_set(Reader& reader, std::string& answers) {
  const auto key = reader.text();
  const auto expected = key ? reader.text() : std::nullopt;
  const auto desired = expected ? reader.text() : std::nullopt;
  if (!desired) return Step::kIncomplete;
  const std::string* there = find(*key);
  if (there == nullptr ? expected->empty() : *there == *expected) set(*key, *desired);
  there = find(*key);
  append_text(answers, there == nullptr ? *expected : *there);
  return Step::kDone;
}

// Serves an add request. The sum is stored as decimal digits, as in c10d's server, because clients
// may also read the sum with a get request.
Table::Step Table::add(Reader& reader, std::string& answers) {
  const auto key = reader.text();
  const auto amount = key ? reader.number<int64_t>() : std::nullopt;
  if (!amount) return Step::kIncomplete;
  int64_t sum = *amount;
  if (const std::string* there = find(*key)) {
    const auto before = parse_integer(*there);
    if (!before || __builtin_add_overflow(sum, *before, &sum)) return Step::kInvalid;
  }
  set(*key, cat(sum));
  store::append(answers, sum);
  return Step::kDone;
}

Table::Step Table::append(Reader& reader) {
  const auto key = reader.text();
  const auto more = key ? reader.text() : std::nullopt;
  if (!more) return Step::kIncomplete;
  const std::string* there = find(*key);
  set(*key, there == nullptr ? *more : *there + *more);
  return Step::kDone;
}

Table::Step Table::multi_set(Reader& reader) {
  const auto count = reader.number<uint64_t>();
  if (!count) return Step::kIncomplete;
  if (*count > kMostKeys) return Step::kInvalid;
  std::vector<std::pair<std::string, std::string>> pairs;
  for (uint64_t i = 0; i < *count; ++i) {
    auto key = reader.text();
    auto value = key ? reader.text() : std::nullopt;
    if (!value) return Step::kIncomplete;
    pairs.emplace_back(*std::move(key), *std::move(value));
  }
  for (auto& [key, value] : pairs) set(key, std::move(value));
  return Step::kDone;
}

// Serves a request for the values of keys. A missing key makes the request invalid, because clients
// wait or check for a key before they request its value.
Table::Step Table::get(const std::vector<std::string>& keys, std::string& answers) const {
  for (const std::string& key : keys) {
    const std::string* value = find(key);
    if (value == nullptr) return Step::kInvalid;
    append_text(answers, *value);
  }
  return Step::kDone;
}

void Table::wait(int client, const std::vector<std::string>& keys, std::string& answers) {
  stop_waiting(client);  // a new wait replaces the client's earlier wait
  std::set<std::string> missing;
  for (const std::string& key : keys) {
    if (!values_.contains(key)) missing.insert(key);
  }
  if (missing.empty()) {
    store::append(answers, WaitAnswer::kReady);
    return;
  }
  for (const std::string& key : missing) waiters_[key].insert(client);
  missing_[client] = std::move(missing);
}

std::optional<std::vector<std::string>> Table::keys(Reader& reader, Step& failed) const {
  const auto count = reader.number<uint64_t>();
  if (!count) return std::nullopt;
  if (*count > kMostKeys) {
    failed = Step::kInvalid;
    return std::nullopt;
  }
  std::vector<std::string> keys;
  for (uint64_t i = 0; i < *count; ++i) {
    auto key = reader.text();
    if (!key) return std::nullopt;
    keys.push_back(*std::move(key));
  }
  return keys;
}

}  // namespace am::launch::store
