/* Tutti's side of docs/coming_from.md: what the lines there take for granted. */
#include <stddef.h>
#include <stdio.h>
#include <tutti/tutti.h>

int main(void) {
  enum { n = 4 };
  float in[n] = {1, 2, 3, 4}, out[n] = {0}, x[n] = {1, 1, 1, 1};
  int rank = -1, color = 0, key = 0;
  tuttiComm_t comm = NULL, part = NULL;
  tuttiStream_t stream = NULL;
  if (tuttiStreamCreate(&stream) != tuttiSuccess) return 1;
  /* The last line destroys comm. */
  // THE BLOCK
  if (rank < 0 || part == NULL || out[3] != 2 * in[3] || x[0] != 4) return 1;
  tuttiCommDestroy(part);
  tuttiStreamDestroy(stream);
  return 0;
}
