/* A tuner plug-in for the tests, compiled once for each version of NCCL's interface (TUNER_VERSION). It does what the
 * environment says:
 *   TEST_TUNER_CHOICE=ALGORITHM,PROTOCOL,CHANNELS  NCCL's numbers; -1: leaves it
 *   TEST_TUNER_INIT, TEST_TUNER_RESULT             what init and the choice return
 *   TEST_TUNER_TABLE                               "nan", "none": what it makes of the whole table of costs
 *   TEST_TUNER_TOLD                                a file to which it adds a line for each call
 */
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void (*Logger)(int level, unsigned long flags, const char* file, int line, const char* format, ...);

static int number_of(const char* name) {
  const char* text = getenv(name);
  return text == NULL ? 0 : atoi(text);
}

static void tell(const char* line) {
  const char* path = getenv("TEST_TUNER_TOLD");
  FILE* file = path == NULL ? NULL : fopen(path, "a");
  if (file == NULL) return;
  fprintf(file, "%s\n", line);
  fclose(file);
}

static int choice(int which) {
  int parts[3] = {-1, -1, 0};
  const char* text = getenv("TEST_TUNER_CHOICE");
  if (text != NULL) sscanf(text, "%d,%d,%d", &parts[0], &parts[1], &parts[2]);
  return parts[which];
}

static int begin(Logger log, void** context, size_t nranks, size_t nodes) {
  char line[256];
  snprintf(line, sizeof line, "init %zu ranks %zu nodes", nranks, nodes);
  tell(line);
  log(3, 64, __FILE__, __LINE__, "the test's tuner has %zu ranks", nranks);
  *context = malloc(1);
  return number_of("TEST_TUNER_INIT");
}

static int end(void* context) {
  free(context);
  tell("end");
  return 0;
}

#if TUNER_VERSION > 2
static int answer_by_table(int function, size_t bytes, float** costs, int algorithms, int protocols, int* channels) {
  float* table = (float*)costs;
  const char* whole = getenv("TEST_TUNER_TABLE");
  const int algorithm = choice(0), protocol = choice(1);
  char line[512];
  int used = snprintf(line, sizeof line, "function %d bytes %zu:", function, bytes);
  for (int i = 0; i < algorithms * protocols; ++i) {
    if (table[i] >= 0) used += snprintf(line + used, sizeof line - (size_t)used, " %d/%d", i / protocols, i % protocols);
    if (whole != NULL) table[i] = strcmp(whole, "nan") == 0 ? (float)NAN : -1.0F;
  }
  tell(line);
  /* As NCCL's example does, whether or not there is such a plan. */
  if (algorithm >= 0 && protocol >= 0) table[algorithm * protocols + protocol] = 0;
  *channels = choice(2);
  return number_of("TEST_TUNER_RESULT");
}
#endif

#if TUNER_VERSION == 2

static int init(size_t nranks, size_t nodes, Logger log, void** context) { return begin(log, context, nranks, nodes); }
static int choose(void* context, int function, size_t bytes, int collnet, int nvls, int operations, int* algorithm,
                  int* protocol, int* channels) {
  char line[128];
  (void)context;
  snprintf(line, sizeof line, "function %d bytes %zu: collnet %d nvls %d operations %d", function, bytes, collnet, nvls,
           operations);
  tell(line);
  *algorithm = choice(0);
  *protocol = choice(1);
  *channels = choice(2);
  return number_of("TEST_TUNER_RESULT");
}
struct {
  const char* name;
  int (*init)(size_t, size_t, Logger, void**);
  int (*choose)(void*, int, size_t, int, int, int, int*, int*, int*);
  int (*end)(void*);
} ncclTunerPlugin_v2 __attribute__((visibility("default"))) = {"Test", init, choose, end};

#elif TUNER_VERSION == 3

static int init(size_t nranks, size_t nodes, Logger log, void** context) { return begin(log, context, nranks, nodes); }
static int choose(void* context, int function, size_t bytes, int operations, float** costs, int algorithms,
                  int protocols, int* channels) {
  (void)context;
  (void)operations;
  return answer_by_table(function, bytes, costs, algorithms, protocols, channels);
}
struct {
  const char* name;
  int (*init)(size_t, size_t, Logger, void**);
  int (*choose)(void*, int, size_t, int, float**, int, int, int*);
  int (*end)(void*);
} ncclTunerPlugin_v3 __attribute__((visibility("default"))) = {"Test", init, choose, end};

#else

static int choose(void* context, int function, size_t bytes, int operations, float** costs, int algorithms,
                  int protocols, int registered, int* channels) {
  (void)context;
  (void)operations;
  (void)registered;
  return answer_by_table(function, bytes, costs, algorithms, protocols, channels);
}
#if TUNER_VERSION == 4
static int init(size_t nranks, size_t nodes, Logger log, void** context) { return begin(log, context, nranks, nodes); }
struct {
  const char* name;
  int (*init)(size_t, size_t, Logger, void**);
  int (*choose)(void*, int, size_t, int, float**, int, int, int, int*);
  int (*end)(void*);
} ncclTunerPlugin_v4 __attribute__((visibility("default"))) = {"Test", init, choose, end};
#else
static int init(void** context, uint64_t communicator, size_t nranks, size_t nodes, Logger log, int* domains,
                double* constants) {
  char line[128];
  snprintf(line, sizeof line, "communicator %s, %d domains of %d to %d", communicator != 0 ? "known" : "0", domains[0],
           domains[1], domains[2]);
  tell(line);
  constants[0] = 1;
  return begin(log, context, nranks, nodes);
}
struct {
  const char* name;
  int (*init)(void**, uint64_t, size_t, size_t, Logger, int*, double*);
  int (*choose)(void*, int, size_t, int, float**, int, int, int, int*);
  int (*end)(void*);
} ncclTunerPlugin_v5 __attribute__((visibility("default"))) = {"Test", init, choose, end};
#endif
#endif
