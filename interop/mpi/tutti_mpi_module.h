/* For programs that mpirun starts but that link no MPI: such a program loads the module of the MPI that started it and
 * calls it through this table, over MPI_COMM_WORLD. All functions except the getters are collective; results are those
 * of tutti.h.
 *
 * Thread-safety: one thread at a time.
 */
#ifndef TUTTI_INTEROP_MPI_TUTTI_MPI_MODULE_H_
#define TUTTI_INTEROP_MPI_TUTTI_MPI_MODULE_H_

#include <stddef.h>

#include "tutti/tutti.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TUTTI_MPI_MODULE_VERSION 1

typedef struct {
  int version; /* TUTTI_MPI_MODULE_VERSION; if it differs, ignore all fields below */
  const char* name; /* "openmpi", "mpich" */
  tuttiResult_t (*init)(void);
  int (*rank)(void);
  int (*ranks)(void);
  tuttiResult_t (*broadcast)(void* data, size_t bytes, int root);
  tuttiResult_t (*commInit)(tuttiComm_t* comm, tuttiConfig_t* config); /* tuttiCommInitMPI over MPI_COMM_WORLD */
  tuttiResult_t (*finalize)(void);
} tuttiMpiModule_t;

/* The only symbol to look up in a loaded module. Never returns NULL. */
#define TUTTI_MPI_MODULE_SYMBOL "tuttiMpiModule"
TUTTI_API const tuttiMpiModule_t* tuttiMpiModule(void);

#ifdef __cplusplus
}
#endif
#endif /* TUTTI_INTEROP_MPI_TUTTI_MPI_MODULE_H_ */
