/* Tutti alongside MPI: makes a communicator of the ranks of an MPI communicator. One library per MPI, built if that MPI
 * is installed (libtutti_mpi_openmpi.so, libtutti_mpi_mpich.so); libtutti itself links no MPI.
 *
 * Thread-safety: as MPI_Bcast on `mpi`; the level of MPI_Init_thread decides.
 */
#ifndef TUTTI_INTEROP_MPI_TUTTI_MPI_H_
#define TUTTI_INTEROP_MPI_TUTTI_MPI_H_

#include <mpi.h>

#include "tutti/tutti.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Collective over `mpi`, an intra-communicator: ranks and order are those of `mpi`. `config` may be NULL. MPI only
 * transfers the unique id; Tutti does not use it afterwards, and `mpi` may be freed. Fails with tuttiSystemError if MPI
 * fails, and with the same error on every rank if rank 0 cannot make a rendezvous. */
TUTTI_API tuttiResult_t tuttiCommInitMPI(tuttiComm_t* comm, MPI_Comm mpi, tuttiConfig_t* config);

#ifdef __cplusplus
}
#endif
#endif /* TUTTI_INTEROP_MPI_TUTTI_MPI_H_ */
