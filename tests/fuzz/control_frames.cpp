// Input: bytes that a job's control socket, or a client of the job, receives.
#include "am/control/frame.h"
#include "target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace am::control;
  FrameReader to_job(kLargestToJob, FrameReader::Begins::kWithMagic);
  FrameReader from_job(kLargestFromJob);
  ReplyReader replies;
  for (FrameReader* reader : {&to_job, &from_job}) {
    // The bytes arrive in two pieces, because a socket can split a frame anywhere.
    const size_t half = size / 2;
    if (!reader->add(am::fuzz::text_of(data, half))) continue;
    if (!reader->add(am::fuzz::text_of(data + half, size - half))) continue;
    while (const auto text = reader->next()) {
      const auto message = parse_message(*text);
      if (!message) continue;
      text_in(*message, "verb");
      try {
        replies.add(*message);
      } catch (const am::Error&) {
        // Invalid input is refused with an error.
      }
    }
  }
  return 0;
}
