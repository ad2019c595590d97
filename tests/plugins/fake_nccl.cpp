// A fake NCCL library that reports only its version, 2.27.3.
extern "C" int ncclGetVersion(int* version) {
  *version = 22703;
  return 0;
}
