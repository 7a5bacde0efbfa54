# TUTTI_FUZZ: every <room>/*_fuzz.cc becomes a libFuzzer program (clang), run for a few seconds by ctest. The target
# `tutti_fuzz` builds them all; the preset `fuzz` configures for it. To hunt longer: build/fuzz/handshake_fuzz CORPUS_DIR
option(TUTTI_FUZZ "Build the libFuzzer targets (needs clang)" OFF)
if(NOT TUTTI_FUZZ)
  return()
endif()
if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  message(FATAL_ERROR "TUTTI_FUZZ needs clang: cmake --preset fuzz, or -DCMAKE_CXX_COMPILER=clang++")
endif()
set(TUTTI_FUZZ_SECONDS 10 CACHE STRING "How long ctest runs each fuzz target")

# Only what reads bytes of strangers, so that a fuzz build takes seconds.
file(GLOB tutti_fuzzed_base CONFIGURE_DEPENDS base/*.cc)
list(FILTER tutti_fuzzed_base EXCLUDE REGEX "_test\\.cc$")
set(tutti_fuzzed_net frame handshake interfaces socket)
list(TRANSFORM tutti_fuzzed_net PREPEND net/)
list(TRANSFORM tutti_fuzzed_net APPEND .cc)
set(tutti_fuzzed_bootstrap join_messages reunion_messages unique_id)
list(TRANSFORM tutti_fuzzed_bootstrap PREPEND src/bootstrap/)
list(TRANSFORM tutti_fuzzed_bootstrap APPEND .cc)
set(tutti_fuzzed_transports transports/network_messages.cc transports/tcp_stream.cc transports/zero_copy.cc)
set(tutti_fuzzed_topology assemble complete link_constants pci_text system xml xml_element xml_writer)
list(TRANSFORM tutti_fuzzed_topology PREPEND topology/)
list(TRANSFORM tutti_fuzzed_topology APPEND .cc)
# Programs of others, and the verifier that they end in; the names that it spells come from the builders.
set(tutti_fuzzed_algorithms
    arrangement baselines binomial bruck build direct double_binary_tree expression extents grouped program
    program_flow program_lanes program_text rail_exchange rails recursive recursive_doubling ring schedule
    symbolic_run symbolic_run_report trees two_level two_shot verify verify_rules)
list(TRANSFORM tutti_fuzzed_algorithms PREPEND algorithms/)
list(TRANSFORM tutti_fuzzed_algorithms APPEND .cc)
add_library(tutti_fuzzed STATIC ${tutti_fuzzed_base} ${tutti_fuzzed_net} ${tutti_fuzzed_bootstrap} ${tutti_fuzzed_transports}
                                ${tutti_fuzzed_topology} ${tutti_fuzzed_algorithms})
target_include_directories(tutti_fuzzed PUBLIC ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include)
target_link_libraries(tutti_fuzzed PUBLIC tutti_options fmt::fmt PkgConfig::SODIUM PkgConfig::PUGIXML Threads::Threads)
target_compile_options(tutti_fuzzed PUBLIC -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all)
target_link_options(tutti_fuzzed PUBLIC -fsanitize=address,undefined)

enable_testing()
add_custom_target(tutti_fuzz)
foreach(room ${TUTTI_ROOMS})
  file(GLOB targets CONFIGURE_DEPENDS ${room}/*_fuzz.cc)
  foreach(source ${targets})
    cmake_path(GET source STEM name)
    add_executable(${name} EXCLUDE_FROM_ALL ${source})
    target_link_libraries(${name} PRIVATE tutti_fuzzed)
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    add_dependencies(tutti_fuzz ${name})
    add_test(NAME ${name} COMMAND ${name} -max_total_time=${TUTTI_FUZZ_SECONDS} -print_final_stats=1)
    set_tests_properties(${name} PROPERTIES LABELS fuzz TIMEOUT 120)
  endforeach()
endforeach()
