# TUTTI_FUZZ: every *_fuzz.cc of a room becomes a libFuzzer program (clang), run for a few seconds by ctest. The target
# `tutti_fuzz` builds them all; the preset `fuzz` configures for it. Seeds are in testdata/fuzz/<name>/ beside it; targets
# that read a kind of file that tests have also start from those files. To hunt longer: scripts/fuzz.sh
option(TUTTI_FUZZ "Build the libFuzzer targets (needs clang)" OFF)
if(NOT TUTTI_FUZZ)
  return()
endif()
if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  message(FATAL_ERROR "TUTTI_FUZZ needs clang: cmake --preset fuzz, or -DCMAKE_CXX_COMPILER=clang++")
endif()
set(TUTTI_FUZZ_SECONDS 5 CACHE STRING "How long ctest runs each fuzz target")

# An input that exceeds these limits is a finding. They are the budgets promised in docs/security.md, times what the
# sanitizers cost.
set(TUTTI_FUZZ_LIMITS -rss_limit_mb=1024 -timeout=20 -max_len=65536)
set(tutti_seeds_of_program_fuzz ${PROJECT_SOURCE_DIR}/algorithms/msccl/testdata)
set(tutti_seeds_of_xml_fuzz ${PROJECT_SOURCE_DIR}/topology/testdata)

# Only what reads bytes of strangers, so that a fuzz build takes seconds.
file(GLOB tutti_fuzzed_base CONFIGURE_DEPENDS base/*.cc)
list(FILTER tutti_fuzzed_base EXCLUDE REGEX "_(test|fuzz)\\.cc$")
set(tutti_fuzzed_net auth/frame auth/handshake interfaces peer_user socket)
list(TRANSFORM tutti_fuzzed_net PREPEND net/)
list(TRANSFORM tutti_fuzzed_net APPEND .cc)
set(tutti_fuzzed_bootstrap join_messages shrink/messages unique_id)
list(TRANSFORM tutti_fuzzed_bootstrap PREPEND src/bootstrap/)
list(TRANSFORM tutti_fuzzed_bootstrap APPEND .cc)
set(tutti_fuzzed_transports
    progress/network progress/network_messages progress/network_peer ring/control_block ring/layout shm/cma shm/descriptor_door
    shm/descriptor_exchange shm/fabric shm/hosts shm/process_register shm/segment shm/shared_segments shm/unix_messages
    tcp/seal tcp/stream tcp/zero_copy)
list(TRANSFORM tutti_fuzzed_transports PREPEND transports/)
list(TRANSFORM tutti_fuzzed_transports APPEND .cc)
# The code that runs a schedule on slots of shared memory.
file(GLOB_RECURSE tutti_fuzzed_executor CONFIGURE_DEPENDS executors/host/*.cc)
list(FILTER tutti_fuzzed_executor EXCLUDE REGEX "_(test|fuzz|microbench)\\.cc$")
# The code that reads memory that other processes write.
set(tutti_fuzzed_watch src/diagnostics/audit.cc src/diagnostics/dump.cc src/diagnostics/history.cc src/plan/operation.cc src/diagnostics/recorder.cc src/communicator/same_calls.cc src/diagnostics/watch.cc src/diagnostics/watch_mismatch.cc)
set(tutti_fuzzed_topology graph/assemble graph/complete graph/link_constants graph/pci_text graph/system xml/xml
    xml/xml_element xml/xml_writer)
list(TRANSFORM tutti_fuzzed_topology PREPEND topology/)
list(TRANSFORM tutti_fuzzed_topology APPEND .cc)
# Programs of others, and the verifier that they end in; the names that it spells come from the builders.
set(tutti_fuzzed_algorithms
    algorithms/builders/baselines algorithms/builders/binomial algorithms/builders/bruck algorithms/builders/build
    algorithms/builders/direct algorithms/builders/double_binary_tree algorithms/builders/grouped
    algorithms/builders/rail_exchange algorithms/builders/rails algorithms/builders/recursive
    algorithms/builders/recursive_doubling algorithms/builders/ring algorithms/builders/trees
    algorithms/builders/two_level algorithms/builders/two_shot algorithms/msccl/flow algorithms/msccl/lanes
    algorithms/msccl/program algorithms/msccl/text algorithms/schedule/arrangement algorithms/schedule/binding
    algorithms/schedule/extents algorithms/schedule/schedule algorithms/schedule/strided
    algorithms/verifier/expression algorithms/verifier/symbolic_run algorithms/verifier/symbolic_run_report
    algorithms/verifier/verify algorithms/verifier/verify_rules selection/cost_model/candidates
    selection/cost_model/host_machine selection/cost_model/machine selection/simulator/flat_schedules
    selection/tuner/calibration selection/tuner/selection_table)
list(TRANSFORM tutti_fuzzed_algorithms APPEND .cc)
add_library(tutti_fuzzed STATIC ${tutti_fuzzed_base} ${tutti_fuzzed_net} ${tutti_fuzzed_bootstrap} ${tutti_fuzzed_transports}
                                ${tutti_fuzzed_executor} ${tutti_fuzzed_watch} ${tutti_fuzzed_topology}
                                ${tutti_fuzzed_algorithms} tools/diagnosis.cc)
target_include_directories(tutti_fuzzed PUBLIC ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include)
target_link_libraries(tutti_fuzzed PUBLIC tutti_options fmt::fmt nlohmann_json::nlohmann_json PkgConfig::SODIUM PkgConfig::CRYPTO PkgConfig::HWY
                                          PkgConfig::PUGIXML Threads::Threads)
target_compile_options(tutti_fuzzed PUBLIC -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all)
target_link_options(tutti_fuzzed PUBLIC -fsanitize=address,undefined)
# Reductions are compiled for plain scalars: their vector code reads no strangers' data, and clang takes minutes to
# compile it under sanitizers.
target_compile_definitions(tutti_fuzzed PUBLIC HWY_COMPILE_ONLY_SCALAR)
tutti_precompile(tutti_fuzzed)

enable_testing()
add_custom_target(tutti_fuzz)
foreach(room ${TUTTI_ROOMS} tools)
  file(GLOB_RECURSE targets CONFIGURE_DEPENDS ${room}/*_fuzz.cc)
  foreach(source ${targets})
    cmake_path(GET source STEM name)
    cmake_path(GET source PARENT_PATH folder)
    add_executable(${name} EXCLUDE_FROM_ALL ${source})
    target_link_libraries(${name} PRIVATE tutti_fuzzed)
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
    file(WRITE ${PROJECT_BINARY_DIR}/corpus/${name}.seeds "${seeds}")  # for scripts/fuzz.sh
    add_test(NAME ${name} COMMAND ${name} -max_total_time=${TUTTI_FUZZ_SECONDS} -print_final_stats=1 ${TUTTI_FUZZ_LIMITS}
                                  ${corpus} ${seeds})
    set_tests_properties(${name} PROPERTIES LABELS fuzz TIMEOUT 120)
  endforeach()
endforeach()
