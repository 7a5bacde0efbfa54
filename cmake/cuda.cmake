# The kernels: nvcc compiles them for every supported GPU, and the library contains them as one packed image. Linking
# and loading the library needs no GPU and no CUDA. Without nvcc, the library is built without kernels.
set(TUTTI_CUDA AUTO CACHE STRING "GPU kernels: ON (requires nvcc), OFF, or AUTO (if nvcc is installed)")
set(TUTTI_CUDA_ARCHITECTURES 80 90 100 CACHE STRING "Compute capabilities of the kernels; the last one also as PTX")

if(NOT TUTTI_CUDA STREQUAL OFF)
  find_program(TUTTI_NVCC nvcc HINTS $ENV{CUDA_HOME}/bin /usr/local/cuda/bin)
  get_filename_component(nvcc_folder "${TUTTI_NVCC}" DIRECTORY)
  find_program(TUTTI_FATBINARY fatbinary HINTS ${nvcc_folder})
endif()
if(TUTTI_CUDA STREQUAL ON AND NOT (TUTTI_NVCC AND TUTTI_FATBINARY))
  message(FATAL_ERROR "TUTTI_CUDA=ON, but there is no nvcc (or no fatbinary beside it)")
endif()
if(TUTTI_CUDA STREQUAL OFF OR NOT TUTTI_NVCC OR NOT TUTTI_FATBINARY)
  message(STATUS "No nvcc, or TUTTI_CUDA=OFF: the library is built without kernels for GPUs")
  return()
endif()

set(TUTTI_NVCC_LAUNCHER)
if(CMAKE_CXX_COMPILER_LAUNCHER MATCHES ccache)
  set(TUTTI_NVCC_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
endif()
# A multiply and an add round separately, as on the host.
set(nvcc_flags -std=c++20 -O3 -fmad=false --expt-relaxed-constexpr -I${PROJECT_SOURCE_DIR}
               -I${PROJECT_SOURCE_DIR}/include)
# Memory that one ptxas process for the kernels may take.
set(mib_per_ptxas 2900)
cmake_host_system_information(RESULT mib_of_memory QUERY AVAILABLE_PHYSICAL_MEMORY)
math(EXPR most_ptxas "${mib_of_memory} / ${mib_per_ptxas}")
if(most_ptxas LESS 1)
  set(most_ptxas 1)
endif()
set_property(GLOBAL APPEND PROPERTY JOB_POOLS ptxas=${most_ptxas})
set(kernel_folder ${PROJECT_BINARY_DIR}/kernels)
file(MAKE_DIRECTORY ${kernel_folder})

# tutti_kernel_image(OUT SOURCE NAME): compiles SOURCE for all architectures and packs it; OUT is the image's path. The
# newest architecture's machine code comes from the PTX that is packed beside it.
function(tutti_kernel_image out source name)
  set(compile ${TUTTI_NVCC_LAUNCHER} ${TUTTI_NVCC} ${nvcc_flags})
  list(GET TUTTI_CUDA_ARCHITECTURES -1 newest)
  set(ptx ${kernel_folder}/${name}_compute_${newest}.ptx)
  add_custom_command(
    OUTPUT ${ptx}
    COMMAND ${compile} -arch=compute_${newest} -ptx -o ${ptx} ${source} -MD -MT ${ptx} -MF ${ptx}.d
    DEPENDS ${source}
    DEPFILE ${ptx}.d
    COMMENT "Compiling ${name} to PTX for compute_${newest}"
    VERBATIM)
  set(image ${kernel_folder}/${name}.fatbin)
  set(images)
  set(image_arguments)
  foreach(architecture ${TUTTI_CUDA_ARCHITECTURES})
    set(cubin ${kernel_folder}/${name}_sm_${architecture}.cubin)
    set(from ${source})
    set(dependencies DEPFILE ${cubin}.d)
    set(write_dependencies -MD -MT ${cubin} -MF ${cubin}.d)
    if(architecture STREQUAL newest)
      set(from ${ptx})
      set(dependencies)
      set(write_dependencies)
    endif()
    add_custom_command(
      OUTPUT ${cubin}
      COMMAND ${compile} -arch=sm_${architecture} -cubin -o ${cubin} ${from} ${write_dependencies}
      DEPENDS ${from}
      ${dependencies}
      JOB_POOL ptxas
      COMMENT "Compiling ${name} for sm_${architecture}"
      VERBATIM)
    list(APPEND images ${cubin})
    list(APPEND image_arguments --image3=kind=elf,sm=${architecture},file=${cubin})
  endforeach()
  add_custom_command(
    OUTPUT ${image}
    COMMAND ${TUTTI_FATBINARY} --create=${image} -64 --compress=true ${image_arguments}
            --image3=kind=ptx,sm=${newest},file=${ptx}
    DEPENDS ${images} ${ptx}
    COMMENT "Packing ${name}"
    VERBATIM)
  set(${out} ${image} PARENT_SCOPE)
endfunction()
