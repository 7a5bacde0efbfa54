/* Uses an installed Tutti: two ranks of this process add their vectors. */
#include <stdio.h>
#include <tutti/tutti.h>

#define RANKS 2
#define COUNT 1000

static int Failed(const char* what, tuttiResult_t result) {
  fprintf(stderr, "%s: %s: %s\n", what, tuttiGetErrorString(result), tuttiGetLastError(NULL));
  return 1;
}

int main(void) {
  static float input[RANKS][COUNT], output[RANKS][COUNT];
  tuttiComm_t comms[RANKS];
  tuttiResult_t result;
  int version = 0, rank, i;
  if (tuttiGetVersion(&version) != tuttiSuccess || version != TUTTI_VERSION_CODE) {
    fprintf(stderr, "the library is version %d, its header %d\n", version, TUTTI_VERSION_CODE);
    return 1;
  }
  if ((result = tuttiCommInitAll(comms, RANKS, NULL)) != tuttiSuccess) return Failed("tuttiCommInitAll", result);
  tuttiGroupStart();
  for (rank = 0; rank < RANKS; ++rank) {
    for (i = 0; i < COUNT; ++i) input[rank][i] = (float)(rank + i);
    result = tuttiAllReduce(input[rank], output[rank], COUNT, tuttiFloat, tuttiSum, comms[rank], NULL);
    if (result != tuttiSuccess) return Failed("tuttiAllReduce", result);
  }
  if ((result = tuttiGroupEnd()) != tuttiSuccess) return Failed("tuttiGroupEnd", result);
  for (rank = 0; rank < RANKS; ++rank) {
    for (i = 0; i < COUNT; ++i) {
      if (output[rank][i] != (float)(2 * i + 1)) {
        fprintf(stderr, "rank %d, element %d: %g instead of %d\n", rank, i, (double)output[rank][i], 2 * i + 1);
        return 1;
      }
    }
    tuttiCommDestroy(comms[rank]);
  }
  printf("%d ranks agree on %d sums\n", RANKS, COUNT);
  return 0;
}
