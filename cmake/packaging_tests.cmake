# Tests of the build's products: the shared library, the installed tree, the generated pages. The top CMakeLists.txt
# includes this file if tests are enabled.
find_program(TUTTI_BASH bash REQUIRED)

# Test code runs for milliseconds, so less optimisation saves a quarter of its compile time. It also avoids GCC 12's
# false warnings about std::vector at -O3. The library under test is still fully optimised.
foreach(target tutti_unit_tests tutti_tests tutti_bench_tests tutti_nccl_tests tutti_torch_tests tutti_parallel_tests
               tutti_parallel_private_tests)
  if(TARGET ${target})
    target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
  endif()
endforeach()

if(CMAKE_CROSSCOMPILING)
  return()  # what follows are scripts that use native programs
endif()

add_test(NAME docs COMMAND ${TUTTI_BASH} ${PROJECT_SOURCE_DIR}/tests/packaging/docs_test.sh ${PROJECT_SOURCE_DIR})
add_test(NAME comments COMMAND python3 -B ${PROJECT_SOURCE_DIR}/tests/packaging/comments_test.py ${PROJECT_SOURCE_DIR})
add_test(NAME adding_an_algorithm COMMAND python3 -B ${PROJECT_SOURCE_DIR}/tests/packaging/adding_an_algorithm_test.py
                                          ${PROJECT_SOURCE_DIR})
set_tests_properties(adding_an_algorithm PROPERTIES SKIP_RETURN_CODE 77 LABELS any_user)
if(TARGET tutti_tool)
  add_test(NAME tool_docs COMMAND ${TUTTI_BASH} ${PROJECT_SOURCE_DIR}/tests/packaging/tool_docs_test.sh
                                      $<TARGET_FILE:tutti_tool> ${PROJECT_SOURCE_DIR})
endif()

get_property(patterns GLOBAL PROPERTY TUTTI_TEST_PATTERNS)
file(GENERATE OUTPUT ${PROJECT_BINARY_DIR}/test_patterns.tsv CONTENT "${patterns}")
add_test(NAME test_patterns COMMAND ${TUTTI_BASH} ${PROJECT_SOURCE_DIR}/tests/packaging/test_patterns.sh
                                    ${PROJECT_BINARY_DIR}/test_patterns.tsv)
set_tests_properties(test_patterns PROPERTIES LABELS any_user)

# CONTRIBUTING.md's table names the tests of all parts.
if(TARGET tutti_tool AND TARGET tutti-bench AND TARGET tutti_parallel AND TARGET tutti_nccl_tests AND NOT TUTTI_SANITIZE)
  add_test(NAME contributing COMMAND python3 -B ${PROJECT_SOURCE_DIR}/tests/packaging/contributing_test.py
                                     ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR})
  set_tests_properties(contributing PROPERTIES LABELS any_user)
endif()

add_test(NAME version COMMAND python3 -B ${PROJECT_SOURCE_DIR}/scripts/release/version.py check)
set_tests_properties(version PROPERTIES LABELS any_user)

add_test(NAME release_folder COMMAND ${TUTTI_BASH} ${PROJECT_SOURCE_DIR}/tests/packaging/release_folder_test.sh
                                     ${PROJECT_SOURCE_DIR})
set_tests_properties(release_folder PROPERTIES LABELS any_user)

# Debian's Python, because scripts/setup.sh installs PyYAML for it.
add_test(NAME workflow COMMAND /usr/bin/python3 -B ${PROJECT_SOURCE_DIR}/tests/packaging/workflow_test.py ${PROJECT_SOURCE_DIR})
set_tests_properties(workflow PROPERTIES SKIP_RETURN_CODE 77 LABELS any_user)

# The blocks of Python run in the test `python`, which builds the wheel.
if(TUTTI_EXAMPLES AND TARGET tutti-bench AND TARGET tutti_tool AND NOT TUTTI_SANITIZE)
  find_program(TUTTI_PYTHON3 python3 REQUIRED)
  add_test(NAME doc_blocks COMMAND ${TUTTI_PYTHON3} ${PROJECT_SOURCE_DIR}/tests/packaging/doc_blocks/run.py
                                   ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR})
  set_tests_properties(doc_blocks PROPERTIES LABELS any_user TIMEOUT 300 PROCESSORS 2 ENVIRONMENT PYTHONDONTWRITEBYTECODE=1)
endif()

add_test(NAME site COMMAND ${TUTTI_BASH} ${PROJECT_SOURCE_DIR}/tests/packaging/site_test.sh ${PROJECT_SOURCE_DIR})
set_tests_properties(site PROPERTIES SKIP_RETURN_CODE 77 LABELS slow TIMEOUT 300 COST 20)

if(TUTTI_PARALLEL AND TUTTI_MPI AND TUTTI_NCCL AND TARGET tutti_tool)  # the picture shows all modules
  add_test(NAME architecture_docs COMMAND ${TUTTI_BASH} ${PROJECT_SOURCE_DIR}/tests/packaging/architecture_docs_test.sh
                                          ${PROJECT_BINARY_DIR}/modules.tsv ${PROJECT_SOURCE_DIR})
endif()

if(TARGET tutti-bench AND NOT TUTTI_SANITIZE)
  # PROCESSORS: up to four ranks. TIMEOUT: PyTorch is several GB to fetch.
  add_test(NAME launchers COMMAND ${TUTTI_BASH} ${PROJECT_SOURCE_DIR}/scripts/test/launchers.sh
                                  --bench $<TARGET_FILE:tutti-bench>)
  set_tests_properties(launchers PROPERTIES SKIP_RETURN_CODE 77 LABELS slow PROCESSORS 2 TIMEOUT 3600 COST 400)
endif()

add_test(NAME configures_without
         COMMAND ${TUTTI_BASH} ${PROJECT_SOURCE_DIR}/tests/packaging/configures_without_test.sh ${PROJECT_SOURCE_DIR})
if(NOT TUTTI_SANITIZE)
  # Sanitizers change the size, the symbols and the link line.
  add_test(NAME library COMMAND ${TUTTI_BASH} ${PROJECT_SOURCE_DIR}/tests/packaging/library_test.sh $<TARGET_FILE:tutti>
                                ${PROJECT_SOURCE_DIR})
  if(TARGET tutti_parallel)
    add_test(NAME parallel_library COMMAND ${TUTTI_BASH} ${PROJECT_SOURCE_DIR}/tests/packaging/parallel_library_test.sh
                                           $<TARGET_FILE:tutti_parallel> ${PROJECT_SOURCE_DIR})
  endif()
  add_test(NAME consumer COMMAND ${TUTTI_BASH} ${PROJECT_SOURCE_DIR}/tests/packaging/consumer/run.sh ${PROJECT_BINARY_DIR}
                                 ${PROJECT_BINARY_DIR}/consumer)
  set_tests_properties(consumer PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 120)
  add_test(NAME deb COMMAND ${TUTTI_BASH} ${PROJECT_SOURCE_DIR}/scripts/release/deb.sh ${PROJECT_BINARY_DIR})
  add_test(NAME tarball COMMAND ${TUTTI_BASH} ${PROJECT_SOURCE_DIR}/scripts/release/tarball.sh ${PROJECT_BINARY_DIR}/tarball)
  set_tests_properties(tarball PROPERTIES ENVIRONMENT BUILD=${PROJECT_BINARY_DIR})
  set_tests_properties(deb tarball PROPERTIES SKIP_RETURN_CODE 77 LABELS slow TIMEOUT 300 COST 20)
endif()
