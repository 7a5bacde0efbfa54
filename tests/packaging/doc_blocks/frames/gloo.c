/* Tutti's side of the program for Gloo in docs/coming_from.md. */
#include <stddef.h>
#include <tutti/tutti.h>

int main(void) {
  float in[4] = {1, 2, 3, 4}, out[4] = {0};
  const size_t n = 4;
  tuttiComm_t comm = NULL;
  if (tuttiCommInitEnv(&comm, NULL) != tuttiSuccess) return 1;
  // THE BLOCK
  tuttiCommDestroy(comm);
  return out[3] == 2 * in[3] ? 0 : 1;
}
