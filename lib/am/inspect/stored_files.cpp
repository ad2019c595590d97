#include "am/inspect/stored_files.h"

#include "am/base/error.h"
#include "am/base/text.h"

namespace am::inspect {

const stored::TensorSource& require_files(const Session& session, std::string_view command) {
  const stored::TensorSource* source = session.view().source();
  if (source == nullptr) {
    throw Error(ErrorKind::kUsage,
                cat(command, " needs a checkpoint on disk, not a plan or a running job"),
                "open the folder of weights or the run's checkpoint");
  }
  return *source;
}

}  // namespace am::inspect
