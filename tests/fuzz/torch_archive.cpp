// Any bytes as what torch.save writes; what it says of its tensors is believed no further than the
// bytes go.
#include "am/formats/torch_archive.h"

#include "target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const auto archive =
        am::formats::TorchArchive::read({reinterpret_cast<const std::byte*>(data), size}, "fuzz");
    const auto look = [&](const am::formats::PickleValue& value) {
      const auto tensor = archive.tensor(value);
      if (tensor && !tensor->data.empty()) {
        volatile auto last = tensor->data.back();
        static_cast<void>(last);
      }
    };
    look(archive.root());
    for (const auto& item : archive.root().items()) look(item);
  } catch (const am::Error&) {
    // Refused, with a reason.
  }
  return 0;
}
