// A library with a table of a version that is too old.
extern "C" __attribute__((visibility("default"))) int ncclNetPlugin_v6;
int ncclNetPlugin_v6 = 6;
