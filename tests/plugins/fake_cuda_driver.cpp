// A CUDA driver that reports FAKE_GPUS GPUs, or whose start fails with FAKE_CUDA_ERROR. As
// libcuda.so.1 in LD_LIBRARY_PATH, it simulates a GPU machine that lacks other libraries, so that a
// test can check the messages.
#include <cstdlib>

extern "C" {

int cuInit(unsigned int flags);
int cuDeviceGetCount(int* count);
int cuGetErrorString(int error, const char** text);

int cuInit(unsigned int /*flags*/) {
  const char* error = std::getenv("FAKE_CUDA_ERROR");
  return error == nullptr ? 0 : std::atoi(error);
}

int cuDeviceGetCount(int* count) {
  const char* gpus = std::getenv("FAKE_GPUS");
  *count = gpus == nullptr ? 0 : std::atoi(gpus);
  return 0;
}

int cuGetErrorString(int /*error*/, const char** text) {
  *text = "the fake driver's own words";
  return 0;
}
}
