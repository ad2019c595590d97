// Input: messages that four clients send, in pieces, to the store through which ranks find each
// other. Each piece begins with one byte. The byte's low two bits select the client, and the high
// six bits are the number of message bytes that follow.
#include <array>

#include "am/launch/nodes/store_table.h"
#include "target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::array<std::string, 4> received;
  am::launch::store::Table table([](int /*client*/) {});
  for (size_t at = 0; at < size;) {
    const int client = data[at] % 4;
    const size_t length = std::min<size_t>(data[at] / 4, size - at - 1);
    std::string& in = received[static_cast<size_t>(client)];
    in += am::fuzz::text_of(data + at + 1, length);
    at += 1 + length;
    std::string answers;
    const auto used = table.serve(client, in, answers);
    in.erase(0, used.value_or(in.size()));
    if (!used) table.forget(client);
  }
  return 0;
}
