#include "am/checkpoint/collective_step.h"

#include <filesystem>
#include <optional>
#include <string>

#include "am/base/error.h"
#include "am/base/first_line.h"

namespace am::checkpoint {

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
  const auto messages = group.all_gather_text(own ? own->what() : "");
  for (const auto& message : messages) {
    if (message.empty()) continue;
    clean();
    if (own) throw *own;
    throw Error(ErrorKind::kIo, message);
  }
}

}  // namespace am::checkpoint
