// A fake CUDA driver. It reports as many GPUs as the environment variable FAKE_GPUS says, or its
// cuInit fails with the error number in FAKE_CUDA_ERROR. Tests load this library as libcuda.so.1
// through LD_LIBRARY_PATH, to check messages on a GPU machine that lacks other libraries.
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
