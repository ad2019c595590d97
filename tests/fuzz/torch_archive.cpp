// Input: a file of torch.save, which can contain DTensors. The sizes that it declares must be
// checked against the number of bytes that it contains.
#include "am/formats/torch_archive.h"

#include "am/formats/setting_value.h"
#include "am/stored/dtensor.h"
#include "am/stored/torch_entries.h"
#include "target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const auto archive =
        am::formats::TorchArchive::read({reinterpret_cast<const std::byte*>(data), size}, "fuzz");
    const am::stored::TorchEntries entries = am::stored::list_entries(archive, "fuzz");
    for (const am::stored::TorchEntry& entry : entries.tensors) {
      const auto tensor = am::stored::is_dtensor(entry.value)
                              ? am::stored::read_dtensor(archive, entry.value, "fuzz").local
                              : *archive.tensor(entry.value);
      if (tensor.data.empty()) continue;
      volatile auto last = tensor.data.back();
      static_cast<void>(last);
    }
    for (const am::stored::TorchEntry& entry : entries.values) {
      am::formats::setting_value(entry.value);
    }
  } catch (const am::Error&) {
    // Invalid input is refused with an error.
  }
  return 0;
}
