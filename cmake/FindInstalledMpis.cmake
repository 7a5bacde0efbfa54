# Finds Open MPI and MPICH, even if both are installed, by asking their compiler wrappers. Each MPI that works becomes
# an imported target tutti_mpi::<name>, with <name> in TUTTI_MPIS. An MPI that runs programs of MPI's standard ABI becomes
# tutti_mpi::abi, which is not in that list. May be included repeatedly.
set(TUTTI_PEERS ${PROJECT_SOURCE_DIR}/build/peers CACHE PATH "Folder with the MPIs of scripts/measure/peers.sh")

# `query`: makes the compiler wrapper tell its flags. `without`: what a build lacks without this MPI.
function(tutti_find_mpi name wrapper query without)
  find_program(TUTTI_MPICC_${name} NAMES ${wrapper} HINTS ${TUTTI_PEERS}/mpich5/bin)
  mark_as_advanced(TUTTI_MPICC_${name})
  if(NOT TUTTI_MPICC_${name})
    message(STATUS "${wrapper} not found: ${without}")
    return()
  endif()
  execute_process(COMMAND ${TUTTI_MPICC_${name}} ${query} OUTPUT_VARIABLE line RESULT_VARIABLE status ERROR_QUIET
                  OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(NOT status EQUAL 0)
    message(STATUS "${TUTTI_MPICC_${name}} ${query} failed: ${without}")
    return()
  endif()
  separate_arguments(words UNIX_COMMAND "${line}")
  set(includes ${words})
  list(FILTER includes INCLUDE REGEX "^-I")
  list(TRANSFORM includes REPLACE "^-I" "")
  set(links ${words})
  list(FILTER links INCLUDE REGEX "^-([Ll]|Wl,-rpath|Wl,/)")
  add_library(tutti_mpi::${name} INTERFACE IMPORTED GLOBAL)
  target_include_directories(tutti_mpi::${name} SYSTEM INTERFACE ${includes})
  target_link_libraries(tutti_mpi::${name} INTERFACE ${links})
  # The obsolete C++ bindings are not needed and cause warnings.
  target_compile_definitions(tutti_mpi::${name} INTERFACE OMPI_SKIP_MPICXX MPICH_SKIP_MPICXX)
endfunction()

get_property(tutti_mpis_sought GLOBAL PROPERTY TUTTI_MPIS_SOUGHT)
if(NOT tutti_mpis_sought)
  set_property(GLOBAL PROPERTY TUTTI_MPIS_SOUGHT TRUE)
  tutti_find_mpi(openmpi mpicc.openmpi --showme "no openmpi module and no openmpi peer in tutti-bench")
  tutti_find_mpi(mpich mpicc.mpich -show "no mpich module and no mpich peer in tutti-bench")
  foreach(mpi IN ITEMS openmpi mpich)
    if(TARGET tutti_mpi::${mpi})
      set_property(GLOBAL APPEND PROPERTY TUTTI_MPIS ${mpi})
    endif()
  endforeach()
  # Its flags are those of MPI's own ABI, but for this definition.
  tutti_find_mpi(abi mpicc_abi -show "no tests of libtutti_pmpi_abi.so")
  if(TARGET tutti_mpi::abi)
    target_compile_definitions(tutti_mpi::abi INTERFACE MPI_ABI)
  endif()
endif()
get_property(TUTTI_MPIS GLOBAL PROPERTY TUTTI_MPIS)
