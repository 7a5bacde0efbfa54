/* A profiler plug-in for the tests, compiled once for each version of NCCL's interface (PROFILER_VERSION). It adds a line
 * to the file TEST_PROFILER_TOLD for each call that it gets, with numbers that it gives to events in turn; TEST_PROFILER_MASK
 * is the mask of kinds that it wants, TEST_PROFILER_INIT what init returns.
 */
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

typedef void (*Logger)(int level, unsigned long flags, const char* file, int line, const char* format, ...);

struct event {
  long number;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static long events = 0;

static void tell(const char* format, ...) {
  const char* path = getenv("TEST_PROFILER_TOLD");
  FILE* file = path == NULL ? NULL : fopen(path, "a");
  if (file == NULL) return;
  va_list arguments;
  va_start(arguments, format);
  char line[512];
  vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  fprintf(file, "%s\n", line);
  fclose(file);
}

static long number_of(const void* event) { return event == NULL ? 0 : ((const struct event*)event)->number; }

/* An event may be a parent after it has ended, so none is freed. */
static struct event* new_event(void) {
  static struct event all[1000];
  pthread_mutex_lock(&mutex);
  const long number = ++events;
  pthread_mutex_unlock(&mutex);
  if (number >= (long)(sizeof all / sizeof *all)) abort();
  all[number].number = number;
  return &all[number];
}

static int begin(void** context, int* mask) {
  const char* wanted = getenv("TEST_PROFILER_MASK");
  const char* result = getenv("TEST_PROFILER_INIT");
  *mask = wanted == NULL ? 0 : atoi(wanted);
  *context = malloc(1);
  return result == NULL ? 0 : atoi(result);
}

static int stop(void* handle) {
  tell("stop %ld", number_of(handle));
  return 0;
}

static int record(void* handle, int state, void* arguments) {
  (void)arguments;
  tell("state %d of %ld", state, number_of(handle));
  return 0;
}

static int end(void* context) {
  tell("end");
  free(context);
  return 0;
}

#if PROFILER_VERSION >= 5

struct description {
  uint64_t type;
  void* parent;
  int rank;
  union {
    struct {
      bool captured;
      int depth;
    } group_call;
    struct {
      const char* function;
      size_t count;
      const char* type;
      int root;
      void* stream;
      bool captured;
    } collective_call;
    struct {
      const char* function;
      size_t count;
      const char* type;
      void* stream;
      bool captured;
    } message_call;
    struct {
      uint64_t number;
      const char* function;
      const void* send;
      void* receive;
      size_t count;
      int root;
      const char* type;
      uint8_t channels, warps;
      const char* algorithm;
      const char* protocol;
      void* group;
    } collective;
    struct {
      const char* function;
      void* buffer;
      const char* type;
      size_t count;
      int peer;
      uint8_t channels;
      void* group;
    } message;
  } u;
};

static int start(void* context, void** handle, struct description* d) {
  struct event* event = new_event();
  (void)context;
  *handle = event;
  switch (d->type) {
    case 1: tell("%ld group", event->number); break;
    case 2:
      tell("%ld collective %s #%lu in %ld, group %ld: rank %d count %zu %s root %d channels %d %s/%s", event->number,
           d->u.collective.function, (unsigned long)d->u.collective.number, number_of(d->parent),
           number_of(d->u.collective.group), d->rank, d->u.collective.count, d->u.collective.type, d->u.collective.root,
           d->u.collective.channels, d->u.collective.algorithm, d->u.collective.protocol);
      break;
    case 4:
      tell("%ld message %s in %ld, group %ld: rank %d count %zu %s peer %d", event->number, d->u.message.function,
           number_of(d->parent), number_of(d->u.message.group), d->rank, d->u.message.count, d->u.message.type,
           d->u.message.peer);
      break;
    case 256: tell("%ld group call depth %d", event->number, d->u.group_call.depth); break;
    case 512:
      tell("%ld call of %s in %ld: count %zu %s root %d", event->number, d->u.collective_call.function,
           number_of(d->parent), d->u.collective_call.count, d->u.collective_call.type, d->u.collective_call.root);
      break;
    case 1024:
      tell("%ld call of %s in %ld: count %zu %s", event->number, d->u.message_call.function, number_of(d->parent),
           d->u.message_call.count, d->u.message_call.type);
      break;
    default: tell("%ld kind %lu", event->number, (unsigned long)d->type);
  }
  return 0;
}

static int init(void** context, uint64_t communicator, int* mask, const char* name, int nodes, int nranks, int rank,
                Logger log) {
  log(3, 1, __FILE__, __LINE__, "the test's profiler is rank %d", rank);
  tell("init %s %s nodes %d nranks %d rank %d", communicator != 0 ? "known" : "0", name, nodes, nranks, rank);
  return begin(context, mask);
}

#else

struct description {
  uint8_t type;
  void* parent;
  int rank;
  union {
    struct {
#if PROFILER_VERSION < 4
      const char* name;
      uint64_t communicator;
#endif
      uint64_t number;
#if PROFILER_VERSION == 1
      uint8_t function;
#else
      const char* function;
#endif
      const void* send;
      void* receive;
      size_t count;
      int root;
#if PROFILER_VERSION == 1
      uint8_t type;
      uint32_t op;
#else
      const char* type;
#endif
#if PROFILER_VERSION < 3
      size_t traffic;
#endif
      uint8_t channels, warps;
#if PROFILER_VERSION == 1
      uint8_t algorithm, protocol;
      int collnet, nvls;
#else
      const char* algorithm;
      const char* protocol;
#endif
    } collective;
    struct {
#if PROFILER_VERSION < 4
      const char* name;
      uint64_t communicator;
#endif
#if PROFILER_VERSION == 1
      uint8_t function;
      void* buffer;
      uint8_t type;
#else
      const char* function;
      void* buffer;
      const char* type;
#endif
      size_t count;
      int peer;
    } message;
  } u;
};

#if PROFILER_VERSION == 1
#define FORM "%d"
#else
#define FORM "%s"
#endif

static int start(void* context, void** handle, struct description* d) {
  struct event* event = new_event();
  (void)context;
  *handle = event;
  if (d->type == 1) {
    tell("%ld group", event->number);
  } else if (d->type == 2) {
    tell("%ld collective " FORM " #%lu in %ld: rank %d count %zu " FORM " root %d channels %d " FORM "/" FORM,
         event->number, d->u.collective.function, (unsigned long)d->u.collective.number, number_of(d->parent), d->rank,
         d->u.collective.count, d->u.collective.type, d->u.collective.root, d->u.collective.channels,
         d->u.collective.algorithm, d->u.collective.protocol);
#if PROFILER_VERSION < 4
    tell("of %s %s", d->u.collective.name, d->u.collective.communicator != 0 ? "known" : "0");
#endif
#if PROFILER_VERSION < 3
    tell("traffic %zu", d->u.collective.traffic);
#endif
  } else if (d->type == 4) {
    tell("%ld message " FORM " in %ld: rank %d count %zu " FORM " peer %d", event->number, d->u.message.function,
         number_of(d->parent), d->rank, d->u.message.count, d->u.message.type, d->u.message.peer);
  } else {
    tell("%ld kind %d", event->number, d->type);
  }
  return 0;
}

#if PROFILER_VERSION == 4
static int init(void** context, int* mask, const char* name, uint64_t communicator, int nodes, int nranks, int rank,
                Logger log) {
  log(3, 1, __FILE__, __LINE__, "the test's profiler is rank %d", rank);
  tell("init %s %s nodes %d nranks %d rank %d", communicator != 0 ? "known" : "0", name, nodes, nranks, rank);
  return begin(context, mask);
}
#else
static int init(void** context, int* mask) {
  tell("init");
  return begin(context, mask);
}
#endif
#endif

#define JOIN2(a, b) a##b
#define JOIN(a, b) JOIN2(a, b)

struct {
  const char* name;
#if PROFILER_VERSION >= 5
  int (*init)(void**, uint64_t, int*, const char*, int, int, int, Logger);
#elif PROFILER_VERSION == 4
  int (*init)(void**, int*, const char*, uint64_t, int, int, int, Logger);
#else
  int (*init)(void**, int*);
#endif
  int (*start)(void*, void**, struct description*);
  int (*stop)(void*);
  int (*record)(void*, int, void*);
  int (*end)(void*);
} JOIN(ncclProfiler_v, PROFILER_VERSION) __attribute__((visibility("default"))) = {"Test", init, start,
                                                                                  stop,   record, end};
