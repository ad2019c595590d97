#include "am/parallel/ep/expert_parallel.h"

#include <memory>

#include "am/parallel/ep/all_to_all_dispatcher.h"

namespace am::parallel::ep {

void apply_expert_parallel(nn::Decoder& decoder, const runtime::DeviceMesh& mesh) {
  const runtime::Group& group = mesh.group("ep");
  if (group.size() == 1) return;
  const auto dispatcher = std::make_shared<const AllToAllDispatcher>(group);
  for (nn::DecoderLayer& layer : decoder.layers()) {
    if (layer.experts) layer.experts->dispatcher = dispatcher;
  }
}

}  // namespace am::parallel::ep
