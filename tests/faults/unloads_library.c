/* Repeatedly loads the library that argv[1] names, leaves threads of it running, and unloads it. Exits with 0, or with
 * the number of the step that failed. */
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

#include "tutti/tutti.h"

/* ISO C has no conversion from void* to a function. */
#define FIND(function, library, name)                   \
  do {                                                  \
    void* found = dlsym(library, name);                 \
    if (found == NULL) return 2;                        \
    *(void**)(&(function)) = found;                     \
  } while (0)

static int UseAndUnload(const char* path) {
  tuttiResult_t (*create)(tuttiStream_t*);
  tuttiResult_t (*unique)(tuttiUniqueId*);
  tuttiResult_t (*join)(tuttiComm_t*, int, tuttiUniqueId, int, tuttiConfig_t*);
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) return 1;
  FIND(create, library, "tuttiStreamCreate");
  FIND(unique, library, "tuttiGetUniqueId");
  FIND(join, library, "tuttiCommInitRankConfig");

  tuttiStream_t stream = NULL;
  if (create(&stream) != tuttiSuccess) return 3;
  tuttiUniqueId id;
  if (unique(&id) != tuttiSuccess) return 4;
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  config.blocking = 0;
  config.initTimeoutMs = 50;
  tuttiComm_t comm = NULL;
  if (join(&comm, 2, id, 0, &config) != tuttiInProgress) return 5;
  return dlclose(library) == 0 ? 0 : 6;
}

int main(int argc, char** argv) {
  if (argc != 2) return 99;
  for (int round = 0; round < 20; ++round) {
    const int status = UseAndUnload(argv[1]);
    if (status != 0) return status;
    usleep(5000);
  }
  usleep(100000); /* the joins' timeouts come after the last dlclose() */
  return 0;
}
