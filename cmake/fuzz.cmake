# TUTTI_FUZZ: every *_fuzz.cc of a module becomes a libFuzzer program (clang), which ctest runs for a few seconds. The
# target `tutti_fuzz` builds them all; the preset `fuzz` enables it. Seeds are in testdata/fuzz/<name>/ next to the
# source. Some targets also start from the test data of the file format that they read. For longer runs:
# scripts/test/fuzz.sh
option(TUTTI_FUZZ "Build the libFuzzer targets (needs clang)" OFF)
if(NOT TUTTI_FUZZ)
  return()
endif()
if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  message(FATAL_ERROR "TUTTI_FUZZ needs clang: cmake --preset fuzz, or -DCMAKE_CXX_COMPILER=clang++")
endif()
set(TUTTI_FUZZ_SECONDS 5 CACHE STRING "Seconds for which ctest runs each fuzz target")

# An input that exceeds these limits is a finding. The limits are the budgets promised in docs/security.md, multiplied
# by the overhead of the sanitizers.
set(TUTTI_FUZZ_LIMITS -rss_limit_mb=1024 -timeout=20 -max_len=65536)
set(tutti_seeds_of_program_fuzz ${PROJECT_SOURCE_DIR}/algorithms/msccl/testdata)
set(tutti_seeds_of_xml_fuzz ${PROJECT_SOURCE_DIR}/topology/testdata)

# These flags apply to all code. Reductions are compiled as scalar code: their vector code reads no untrusted data, and
# clang takes minutes to compile it with sanitizers.
target_compile_options(tutti_options INTERFACE -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all)
target_link_options(tutti_options INTERFACE -fsanitize=address,undefined)
target_compile_definitions(tutti_options INTERFACE HWY_COMPILE_ONLY_SCALAR)

enable_testing()
add_custom_target(tutti_fuzz)
# tutti_fuzz_target(SOURCE TARGET...): builds a program from SOURCE and links it with the TARGETs.
function(tutti_fuzz_target source)
  cmake_path(GET source STEM name)
  cmake_path(GET source PARENT_PATH folder)
  add_executable(${name} EXCLUDE_FROM_ALL ${source})
  target_link_libraries(${name} PRIVATE ${ARGN})
  target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  add_dependencies(tutti_fuzz ${name})
  set(seeds)
  foreach(seeds_folder IN ITEMS ${folder}/testdata/fuzz/${name} ${tutti_seeds_of_${name}})
    if(IS_DIRECTORY ${seeds_folder})
      list(APPEND seeds ${seeds_folder})
    endif()
  endforeach()
  # libFuzzer adds new inputs to the first folder.
  set(corpus ${PROJECT_BINARY_DIR}/corpus/${name})
  file(MAKE_DIRECTORY ${corpus})
  file(WRITE ${PROJECT_BINARY_DIR}/corpus/${name}.seeds "${seeds}")  # for scripts/test/fuzz.sh
  add_test(NAME ${name} COMMAND ${name} -max_total_time=${TUTTI_FUZZ_SECONDS} -print_final_stats=1 ${TUTTI_FUZZ_LIMITS}
                                ${corpus} ${seeds})
  set_tests_properties(${name} PROPERTIES LABELS fuzz TIMEOUT 120)
endfunction()

get_property(fuzz_sources GLOBAL PROPERTY TUTTI_MODULE_FUZZ)
foreach(source IN LISTS fuzz_sources)
  get_property(fuzzed GLOBAL PROPERTY TUTTI_FUZZ_USES_${source})
  list(TRANSFORM fuzzed PREPEND tutti_)
  list(TRANSFORM fuzzed REPLACE "/" "_")
  tutti_fuzz_target(${source} ${fuzzed})
endforeach()
# The tool's dump parser, without the tool's command line.
add_library(tutti_diagnosis STATIC EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/tools/inspect/diagnosis.cc)
target_link_libraries(tutti_diagnosis PUBLIC tutti_src_bootstrap tutti_src_diagnostics)
tutti_fuzz_target(${PROJECT_SOURCE_DIR}/tools/inspect/diagnosis_fuzz.cc tutti_diagnosis)
tutti_leaves_out(tools/inspect/*.cc)
