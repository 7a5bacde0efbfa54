// The part of MPI 5.0's standard ABI that this library uses: types, values and functions as the standard's chapter
// "Application Binary Interface" and its annex A fix them, for every MPI that has libmpi_abi.so. Few systems have an MPI
// whose mpi.h says the same; with this file, the library for that ABI is built everywhere.
#pragma once

#include <cstdint>

#define MPI_VERSION 5
#define MPI_SUBVERSION 0
#define MPI_ABI_VERSION 1
#define MPI_ABI_SUBVERSION 0

extern "C" {

using MPI_Aint = std::intptr_t;
using MPI_Offset = std::int64_t;
using MPI_Count = std::int64_t;

using MPI_Comm = struct MPI_ABI_Comm*;
using MPI_Datatype = struct MPI_ABI_Datatype*;
using MPI_Group = struct MPI_ABI_Group*;
using MPI_Op = struct MPI_ABI_Op*;
using MPI_Request = struct MPI_ABI_Request*;

struct MPI_Status;

#define MPI_SUM ((MPI_Op)0x21)
#define MPI_MIN ((MPI_Op)0x22)
#define MPI_MAX ((MPI_Op)0x23)
#define MPI_PROD ((MPI_Op)0x24)

#define MPI_COMM_NULL ((MPI_Comm)0x100)
#define MPI_COMM_WORLD ((MPI_Comm)0x101)
#define MPI_COMM_SELF ((MPI_Comm)0x102)

#define MPI_DATATYPE_NULL ((MPI_Datatype)0x200)
#define MPI_AINT ((MPI_Datatype)0x201)
#define MPI_COUNT ((MPI_Datatype)0x202)
#define MPI_OFFSET ((MPI_Datatype)0x203)
#define MPI_PACKED ((MPI_Datatype)0x207)
#define MPI_SHORT ((MPI_Datatype)0x208)
#define MPI_INT ((MPI_Datatype)0x209)
#define MPI_LONG ((MPI_Datatype)0x20a)
#define MPI_LONG_LONG ((MPI_Datatype)0x20b)
#define MPI_UNSIGNED_SHORT ((MPI_Datatype)0x20c)
#define MPI_UNSIGNED ((MPI_Datatype)0x20d)
#define MPI_UNSIGNED_LONG ((MPI_Datatype)0x20e)
#define MPI_UNSIGNED_LONG_LONG ((MPI_Datatype)0x20f)
#define MPI_FLOAT ((MPI_Datatype)0x210)
#define MPI_C_FLOAT_COMPLEX ((MPI_Datatype)0x212)
#define MPI_DOUBLE ((MPI_Datatype)0x214)
#define MPI_C_DOUBLE_COMPLEX ((MPI_Datatype)0x216)
#define MPI_INTEGER ((MPI_Datatype)0x219)
#define MPI_REAL ((MPI_Datatype)0x21a)
#define MPI_COMPLEX ((MPI_Datatype)0x21b)
#define MPI_DOUBLE_PRECISION ((MPI_Datatype)0x21c)
#define MPI_DOUBLE_COMPLEX ((MPI_Datatype)0x21d)
#define MPI_LONG_DOUBLE ((MPI_Datatype)0x220)
#define MPI_C_BOOL ((MPI_Datatype)0x238)
#define MPI_WCHAR ((MPI_Datatype)0x23c)
#define MPI_INT8_T ((MPI_Datatype)0x240)
#define MPI_UINT8_T ((MPI_Datatype)0x241)
#define MPI_CHAR ((MPI_Datatype)0x243)
#define MPI_SIGNED_CHAR ((MPI_Datatype)0x244)
#define MPI_UNSIGNED_CHAR ((MPI_Datatype)0x245)
#define MPI_BYTE ((MPI_Datatype)0x247)
#define MPI_INT16_T ((MPI_Datatype)0x248)
#define MPI_UINT16_T ((MPI_Datatype)0x249)
#define MPI_INT32_T ((MPI_Datatype)0x250)
#define MPI_UINT32_T ((MPI_Datatype)0x251)
#define MPI_INT64_T ((MPI_Datatype)0x258)
#define MPI_UINT64_T ((MPI_Datatype)0x259)

#define MPI_IN_PLACE ((void*)1)
#define MPI_STATUS_IGNORE ((MPI_Status*)0)

enum {
  MPI_SUCCESS = 0,
  MPI_ERR_OTHER = 16,
  MPI_KEYVAL_INVALID = 0,
  MPI_UNDEFINED = -32766,
  MPI_MAX_ERROR_STRING = 512,
};

enum {
  MPI_COMBINER_NAMED = 101,
  MPI_COMBINER_DUP = 102,
  MPI_COMBINER_CONTIGUOUS = 103,
  MPI_COMBINER_VECTOR = 104,
  MPI_COMBINER_HVECTOR = 105,
  MPI_COMBINER_INDEXED = 106,
  MPI_COMBINER_HINDEXED = 107,
  MPI_COMBINER_INDEXED_BLOCK = 108,
  MPI_COMBINER_HINDEXED_BLOCK = 109,
  MPI_COMBINER_STRUCT = 110,
  MPI_COMBINER_F90_REAL = 113,
  MPI_COMBINER_F90_COMPLEX = 114,
  MPI_COMBINER_F90_INTEGER = 115,
  MPI_COMBINER_RESIZED = 116,
};

using MPI_Comm_copy_attr_function = int(MPI_Comm, int, void*, void*, void*, int*);
using MPI_Comm_delete_attr_function = int(MPI_Comm, int, void*, void*);
using MPI_Type_copy_attr_function = int(MPI_Datatype, int, void*, void*, void*, int*);
using MPI_Type_delete_attr_function = int(MPI_Datatype, int, void*, void*);

int PMPI_Abi_get_version(int*, int*);
int PMPI_Add_error_code(int, int*);
int PMPI_Add_error_string(int, const char*);
int PMPI_Allgather(const void*, int, MPI_Datatype, void*, int, MPI_Datatype, MPI_Comm);
int PMPI_Allgather_c(const void*, MPI_Count, MPI_Datatype, void*, MPI_Count, MPI_Datatype, MPI_Comm);
int PMPI_Allgatherv(const void*, int, MPI_Datatype, void*, const int[], const int[], MPI_Datatype, MPI_Comm);
int PMPI_Allgatherv_c(const void*, MPI_Count, MPI_Datatype, void*, const MPI_Count[], const MPI_Aint[], MPI_Datatype,
                      MPI_Comm);
int PMPI_Allreduce(const void*, void*, int, MPI_Datatype, MPI_Op, MPI_Comm);
int PMPI_Allreduce_c(const void*, void*, MPI_Count, MPI_Datatype, MPI_Op, MPI_Comm);
int PMPI_Alltoall(const void*, int, MPI_Datatype, void*, int, MPI_Datatype, MPI_Comm);
int PMPI_Alltoall_c(const void*, MPI_Count, MPI_Datatype, void*, MPI_Count, MPI_Datatype, MPI_Comm);
int PMPI_Alltoallv(const void*, const int[], const int[], MPI_Datatype, void*, const int[], const int[], MPI_Datatype,
                   MPI_Comm);
int PMPI_Alltoallv_c(const void*, const MPI_Count[], const MPI_Aint[], MPI_Datatype, void*, const MPI_Count[],
                     const MPI_Aint[], MPI_Datatype, MPI_Comm);
int PMPI_Barrier(MPI_Comm);
int PMPI_Bcast(void*, int, MPI_Datatype, int, MPI_Comm);
int PMPI_Bcast_c(void*, MPI_Count, MPI_Datatype, int, MPI_Comm);
int PMPI_Cancel(MPI_Request*);
int PMPI_Comm_call_errhandler(MPI_Comm, int);
int PMPI_Comm_create_keyval(MPI_Comm_copy_attr_function*, MPI_Comm_delete_attr_function*, int*, void*);
int PMPI_Comm_dup(MPI_Comm, MPI_Comm*);
int PMPI_Comm_free(MPI_Comm*);
int PMPI_Comm_get_attr(MPI_Comm, int, void*, int*);
int PMPI_Comm_group(MPI_Comm, MPI_Group*);
int PMPI_Comm_rank(MPI_Comm, int*);
int PMPI_Comm_set_attr(MPI_Comm, int, void*);
int PMPI_Comm_size(MPI_Comm, int*);
int PMPI_Comm_test_inter(MPI_Comm, int*);
int PMPI_Finalize(void);
int PMPI_Finalized(int*);
int PMPI_Gather(const void*, int, MPI_Datatype, void*, int, MPI_Datatype, int, MPI_Comm);
int PMPI_Gather_c(const void*, MPI_Count, MPI_Datatype, void*, MPI_Count, MPI_Datatype, int, MPI_Comm);
int PMPI_Get_library_version(char*, int*);
int PMPI_Get_version(int*, int*);
int PMPI_Group_free(MPI_Group*);
int PMPI_Group_translate_ranks(MPI_Group, int, const int[], MPI_Group, int[]);
int PMPI_Init(int*, char***);
int PMPI_Init_thread(int*, char***, int, int*);
int PMPI_Initialized(int*);
int PMPI_Irecv(void*, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request*);
int PMPI_Pack(const void*, int, MPI_Datatype, void*, int, int*, MPI_Comm);
int PMPI_Reduce(const void*, void*, int, MPI_Datatype, MPI_Op, int, MPI_Comm);
int PMPI_Reduce_c(const void*, void*, MPI_Count, MPI_Datatype, MPI_Op, int, MPI_Comm);
int PMPI_Reduce_scatter(const void*, void*, const int[], MPI_Datatype, MPI_Op, MPI_Comm);
int PMPI_Reduce_scatter_block(const void*, void*, int, MPI_Datatype, MPI_Op, MPI_Comm);
int PMPI_Reduce_scatter_block_c(const void*, void*, MPI_Count, MPI_Datatype, MPI_Op, MPI_Comm);
int PMPI_Reduce_scatter_c(const void*, void*, const MPI_Count[], MPI_Datatype, MPI_Op, MPI_Comm);
int PMPI_Scatter(const void*, int, MPI_Datatype, void*, int, MPI_Datatype, int, MPI_Comm);
int PMPI_Scatter_c(const void*, MPI_Count, MPI_Datatype, void*, MPI_Count, MPI_Datatype, int, MPI_Comm);
int PMPI_Test(MPI_Request*, int*, MPI_Status*);
int PMPI_Type_create_keyval(MPI_Type_copy_attr_function*, MPI_Type_delete_attr_function*, int*, void*);
int PMPI_Type_free(MPI_Datatype*);
int PMPI_Type_get_attr(MPI_Datatype, int, void*, int*);
int PMPI_Type_get_contents(MPI_Datatype, int, int, int, int[], MPI_Aint[], MPI_Datatype[]);
int PMPI_Type_get_contents_c(MPI_Datatype, MPI_Count, MPI_Count, MPI_Count, MPI_Count, int[], MPI_Aint[], MPI_Count[],
                             MPI_Datatype[]);
int PMPI_Type_get_envelope(MPI_Datatype, int*, int*, int*, int*);
int PMPI_Type_get_envelope_c(MPI_Datatype, MPI_Count*, MPI_Count*, MPI_Count*, MPI_Count*, int*);
int PMPI_Type_get_extent_x(MPI_Datatype, MPI_Count*, MPI_Count*);
int PMPI_Type_get_true_extent_x(MPI_Datatype, MPI_Count*, MPI_Count*);
int PMPI_Type_set_attr(MPI_Datatype, int, void*);
int PMPI_Type_size_x(MPI_Datatype, MPI_Count*);
int PMPI_Unpack(const void*, int, int*, void*, int, MPI_Datatype, MPI_Comm);
int PMPI_Wait(MPI_Request*, MPI_Status*);

}  // extern "C"
