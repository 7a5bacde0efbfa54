# The kernels, compiled by nvcc for every GPU that is supported and packed into one image that the library carries. No
# GPU and nothing of CUDA is needed to link or to start it; without nvcc the library is built without them.
set(TUTTI_CUDA AUTO CACHE STRING "Kernels for GPUs: ON (nvcc must be there), OFF, or AUTO")
set(TUTTI_CUDA_ARCHITECTURES 80 90 100 CACHE STRING "Compute capabilities to compile kernels for; of the newest, PTX too")

if(NOT TUTTI_CUDA STREQUAL OFF)
  find_program(TUTTI_NVCC nvcc HINTS $ENV{CUDA_HOME}/bin /usr/local/cuda/bin)
  get_filename_component(nvcc_folder "${TUTTI_NVCC}" DIRECTORY)
  find_program(TUTTI_FATBINARY fatbinary HINTS ${nvcc_folder})
endif()
if(TUTTI_CUDA STREQUAL ON AND NOT (TUTTI_NVCC AND TUTTI_FATBINARY))
  message(FATAL_ERROR "TUTTI_CUDA=ON, but there is no nvcc (or no fatbinary beside it)")
endif()
if(NOT TUTTI_NVCC OR NOT TUTTI_FATBINARY)
  message(STATUS "No nvcc: the library is built without kernels for GPUs")
  return()
endif()

set(TUTTI_NVCC_LAUNCHER)
if(CMAKE_CXX_COMPILER_LAUNCHER MATCHES ccache)
  set(TUTTI_NVCC_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
endif()
# A multiply and an add stay two roundings, as on the host.
set(nvcc_flags -std=c++20 -O3 -fmad=false --expt-relaxed-constexpr -I${PROJECT_SOURCE_DIR} -I${PROJECT_SOURCE_DIR}/include)
file(GLOB kernel_headers CONFIGURE_DEPENDS executors/cuda/*.h transports/device_ring.h transports/slot*.h algorithms/schedule.h base/lowp.h)
set(kernel_source ${PROJECT_SOURCE_DIR}/executors/cuda/kernels.cu)
set(kernel_folder ${CMAKE_CURRENT_BINARY_DIR}/kernels)
file(MAKE_DIRECTORY ${kernel_folder})

set(images)
set(image_arguments)
foreach(architecture ${TUTTI_CUDA_ARCHITECTURES})
  set(cubin ${kernel_folder}/sm_${architecture}.cubin)
  add_custom_command(
    OUTPUT ${cubin}
    COMMAND ${TUTTI_NVCC_LAUNCHER} ${TUTTI_NVCC} ${nvcc_flags} -arch=sm_${architecture} -cubin -o ${cubin} ${kernel_source}
    DEPENDS ${kernel_source} ${kernel_headers}
    COMMENT "Compiling the kernels for sm_${architecture}"
    VERBATIM)
  list(APPEND images ${cubin})
  list(APPEND image_arguments --image3=kind=elf,sm=${architecture},file=${cubin})
  set(newest ${architecture})
endforeach()
set(ptx ${kernel_folder}/compute_${newest}.ptx)
add_custom_command(
  OUTPUT ${ptx}
  COMMAND ${TUTTI_NVCC_LAUNCHER} ${TUTTI_NVCC} ${nvcc_flags} -arch=compute_${newest} -ptx -o ${ptx} ${kernel_source}
  DEPENDS ${kernel_source} ${kernel_headers}
  COMMENT "Compiling the kernels to PTX for compute_${newest}"
  VERBATIM)
set(TUTTI_KERNEL_IMAGE ${kernel_folder}/kernels.fatbin)
add_custom_command(
  OUTPUT ${TUTTI_KERNEL_IMAGE}
  COMMAND ${TUTTI_FATBINARY} --create=${TUTTI_KERNEL_IMAGE} -64 --compress=true ${image_arguments}
          --image3=kind=ptx,sm=${newest},file=${ptx}
  DEPENDS ${images} ${ptx}
  COMMENT "Packing the kernels"
  VERBATIM)
set_source_files_properties(executors/cuda/kernel_module.cc PROPERTIES COMPILE_DEFINITIONS TUTTI_KERNEL_IMAGE="${TUTTI_KERNEL_IMAGE}"
                                                                       OBJECT_DEPENDS ${TUTTI_KERNEL_IMAGE})
