#include "am/checkpoint/collective_step.h"

#include <filesystem>
#include <optional>
#include <string>

#include "am/base/error.h"
#include "am/base/first_line.h"
#include "am/base/json.h"

namespace am::checkpoint {

namespace {

// Serialises an error as CBOR. JSON would reject messages with paths that are not valid UTF-8.
std::string to_bytes(const Error& error) {
  const auto bytes =
      Json::to_cbor({static_cast<int>(error.kind()), std::string(error.what()), error.hint()});
  return {bytes.begin(), bytes.end()};
}

Error error_from(const std::string& bytes) {
  const Json json = Json::from_cbor(bytes);
  return {kind_of(json[0].get<int>()), json[1].get<std::string>(), json[2].get<std::string>()};
}

}  // namespace

void collective_step(const runtime::Group& group, const std::function<void()>& clean,
                     const std::function<void()>& body) {
  std::optional<Error> own;
  try {
    body();
  } catch (const Error& error) {
    own = error;
  } catch (const std::filesystem::filesystem_error& error) {
    own = Error(ErrorKind::kIo, error.path1().string() + ": " + error.code().message());
  } catch (const std::exception& error) {
    own = Error(ErrorKind::kRuntime, first_line(error));
  }
  for (const std::string& told : group.all_gather_text(own ? to_bytes(*own) : "")) {
    if (told.empty()) continue;
    clean();
    throw own ? *own : error_from(told);
  }
}

}  // namespace am::checkpoint
