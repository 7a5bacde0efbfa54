// The program of a processor (processor.h): libcuda.so.1's path is its argument, and descriptor 3 leads to the process
// that it serves.
#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>

int main(int argc, char** argv) {
  constexpr int kControl = 3;
  close_range(kControl + 1, ~0U, 0);  // of the process that started it
  if (argc != 2) return 2;
  void* const library = dlopen(argv[1], RTLD_NOW);
  if (library == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  auto* const serve = reinterpret_cast<void (*)(int)>(dlsym(library, "fakeGpuServe"));
  if (serve == nullptr) return 1;
  serve(kControl);
}
