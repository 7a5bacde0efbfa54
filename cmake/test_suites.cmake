# Adds the tests of GoogleTest programs to ctest.
#
# tutti_gtests(TARGET                   every test of this program, or
#              FILTER pattern...        those that match one of these (GoogleTest's patterns)
#              EXCEPT pattern...        and none of these
#              PREFIX text              before the names, for tests that run once more in other surroundings
#              ENVIRONMENT name=value...
#              TIMEOUT seconds          of one test
#              LABELS label...          of all
#              ANY_USER pattern...      label any_user (CONTRIBUTING.md), and
#              ANY_USER_SOURCES file... all suites that these define
#              WORKING_DIRECTORY folder)
# If TUTTI_TEST_PROGRAMS is set, the other programs' tests are left out (CMakePresets.json: arm64 builds only some).
# A test whose suite, name or parameter ends in "Slow" gets the label slow; slow tests start before others. The test
# test_patterns checks that each pattern matches a test. Under an emulator, the tests of a suite are one test of ctest,
# without those that are slow.
function(tutti_gtests target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "PREFIX;TIMEOUT;WORKING_DIRECTORY"
                        "FILTER;EXCEPT;ENVIRONMENT;LABELS;ANY_USER;ANY_USER_SOURCES")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "${target}: tutti_gtests does not know ${arg_UNPARSED_ARGUMENTS}")
  endif()
  if(TUTTI_TEST_PROGRAMS AND NOT target IN_LIST TUTTI_TEST_PROGRAMS)
    return()
  endif()
  foreach(pattern IN LISTS arg_FILTER arg_EXCEPT arg_ANY_USER)
    set_property(GLOBAL APPEND_STRING PROPERTY TUTTI_TEST_PATTERNS "$<TARGET_FILE:${target}>\t${pattern}\n")
  endforeach()
  string(JOIN ":" filter ${arg_FILTER})
  if(NOT filter)
    set(filter "*")
  endif()
  if(arg_EXCEPT)
    string(JOIN ":" except ${arg_EXCEPT})
    string(APPEND filter ":-${except}")
  endif()
  set(options)
  if(arg_WORKING_DIRECTORY)
    list(APPEND options WORKING_DIRECTORY ${arg_WORKING_DIRECTORY})
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  get_property(count GLOBAL PROPERTY TUTTI_TEST_LISTS)
  math(EXPR count "0${count} + 1")
  set_property(GLOBAL PROPERTY TUTTI_TEST_LISTS ${count})
  set(list ${target}_${count})
  if(CMAKE_CROSSCOMPILING)
    if(NOT arg_EXCEPT)
      string(APPEND filter ":-")
    endif()
    if(NOT arg_WORKING_DIRECTORY)
      set(arg_WORKING_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR})
    endif()
    set(script ${CMAKE_CURRENT_BINARY_DIR}/${list}_suites.cmake)
    file(GENERATE OUTPUT ${script} CONTENT "set(program \"$<TARGET_FILE:${target}>\")
set(emulator \"${CMAKE_CROSSCOMPILING_EMULATOR}\")
set(prefix \"${arg_PREFIX}\")
set(filter \"${filter}:*Slow:*Slow.*:*Slow/*\")
set(timeout ${arg_TIMEOUT})
set(environment \"${arg_ENVIRONMENT}\")
set(folder \"${arg_WORKING_DIRECTORY}\")
include(\"${PROJECT_SOURCE_DIR}/cmake/emulated_suites.cmake\")
")
    set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${script})
    return()
  endif()
  gtest_discover_tests(${target} DISCOVERY_MODE PRE_TEST TEST_PREFIX "${arg_PREFIX}" TEST_LIST ${list}
                       TEST_FILTER "${filter}" ${options} PROPERTIES TIMEOUT ${arg_TIMEOUT})

  # ctest knows the tests' names only when it starts, and gtest_discover_tests() can set no property that is a list.
  tutti_suites_of(suites ${arg_ANY_USER_SOURCES})
  string(JOIN "|" any_user ${arg_ANY_USER} ${suites})
  string(REPLACE "." "[.]" any_user "${any_user}")
  string(REPLACE "*" ".*" any_user "${any_user}")
  set(script ${CMAKE_CURRENT_BINARY_DIR}/${list}_properties.cmake)
  file(WRITE ${script} "foreach(test IN LISTS ${list})
  set(labels ${arg_LABELS})
  if(test MATCHES [[Slow([./ ]|$)]])
    list(APPEND labels slow)
  endif()
  if(test MATCHES [[^${arg_PREFIX}(${any_user})$]])
    list(APPEND labels any_user)
  endif()
  set_tests_properties(\"\${test}\" PROPERTIES LABELS \"\${labels}\" ENVIRONMENT \"${arg_ENVIRONMENT}\")
  if(\"\${labels}\" MATCHES \"slow\")
    set_tests_properties(\"\${test}\" PROPERTIES COST 10)
  endif()
endforeach()
")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${script})
endfunction()

# tutti_suites_of(OUT SOURCES...): sets OUT to patterns for all suites that the sources define, with any instantiation
# prefix.
function(tutti_suites_of out)
  set(suites)
  foreach(source ${ARGN})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${source})
    file(STRINGS ${source} lines REGEX "^(TEST|TEST_F|TEST_P|TYPED_TEST)\\([A-Za-z0-9_]+")
    foreach(line ${lines})
      string(REGEX REPLACE "^[A-Z_]+\\(([A-Za-z0-9_]+).*" "\\1" suite "${line}")
      list(APPEND suites ${suite}.* */${suite}.*)
    endforeach()
  endforeach()
  list(REMOVE_DUPLICATES suites)
  set(${out} "${suites}" PARENT_SCOPE)
endfunction()
